#ifndef CONFIG_TESTING_H
#define CONFIG_TESTING_H

/* What the tests of the config module share. Each test is a process of its own. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/config_table.h"
#include "tests/caught.h"

enum {
    TESTING_MESSAGES_BYTES = 1 << 14
};

/* The path of this process's scratch config file. */
static inline const char *testing_path(void)
{
    static char path[64];

    (void)snprintf(path, sizeof path, "/tmp/espalier-config-%ld.ini", (long)getpid());
    return path;
}

static inline void testing_write_file(const void *text, size_t n)
{
    FILE *f = fopen(testing_path(), "wb");

    cr_assert_not_null(f);
    cr_assert_eq(fwrite(text, 1, n, f), n);
    cr_assert_eq(fclose(f), 0);
}

/* The messages of the last testing_read_bytes. */
static inline char *testing_messages(void)
{
    static char text[TESTING_MESSAGES_BYTES];

    return text;
}

static inline bool testing_said(const char *part)
{
    return strstr(testing_messages(), part) != NULL;
}

static inline bool testing_failed(void)
{
    return testing_messages()[0] != '\0';
}

static inline size_t testing_n_messages(void)
{
    size_t n = 0;

    for (const char *p = testing_messages(); *p != '\0'; p++) {
        n += *p == '\n';
    }
    return n;
}

/* Run `work` with stderr caught in testing_messages. */
static inline enum status testing_catch(enum status (*work)(void *), void *ctx)
{
    struct caught c = caught_begin(STDERR_FILENO);
    enum status st = work(ctx);

    caught_end(c, testing_messages(), TESTING_MESSAGES_BYTES);
    return st;
}

static inline enum status testing_read_work(void *ctx)
{
    return config_read(ctx, testing_path());
}

/* Defaults overlaid with a file of these bytes; the status is ST_OK exactly if nothing is said. */
static inline struct config testing_read_bytes(const void *text, size_t n)
{
    struct config cfg;
    enum status st;

    testing_write_file(text, n);
    cr_assert_eq(config_init(&cfg), ST_OK);
    st = testing_catch(testing_read_work, &cfg);
    (void)unlink(testing_path());
    cr_assert_eq(st, testing_failed() ? ST_INPUT : ST_OK, "%s", testing_messages());
    return cfg;
}

static inline struct config testing_read(const char *text)
{
    return testing_read_bytes(text, strlen(text));
}

/* The effective config as text; free it. */
static inline char *testing_write(const struct config *cfg)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    cr_assert_not_null(f);
    config_write(cfg, f);
    cr_assert_eq(fclose(f), 0);
    return text;
}

/* "section.key=value" with a valid value that differs from the default. */
static inline void testing_other_value(const struct config_key *k, char out[256])
{
    const char *value = "1.5";

    switch (k->type) {
    case KEY_BOOL:
        value = strcmp(k->fallback, "yes") == 0 ? "no" : "yes";
        break;
    case KEY_INT:
        value = "7";
        break;
    case KEY_BYTES:
        value = "3M";
        break;
    case KEY_TEXT:
        value = "some text #7";
        break;
    case KEY_CHOICE:
        value = strrchr(k->choices, '|') + 1;
        break;
    case KEY_REALS:
        value = k->flags & KEY_WHOLE ? "5, 6, 7" : "0.25, 3.5";
        break;
    case KEY_REAL:
        value = k->max <= 1 ? "0.375" : "0.625";
        break;
    }
    (void)snprintf(out, 256, "%s.%s=%s", k->section, k->name, value);
}

#endif
