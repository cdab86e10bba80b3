#include "cli/args.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

enum {
    MAX_FLAGS = 64,
    HELP_COLUMN = 28
};

static enum status unknown_flag(const struct args *a, const char *word, const char *name)
{
    const char *names[MAX_FLAGS], *near;
    size_t n = 0;

    for (size_t i = 0; i < a->n_flags && n < MAX_FLAGS; i++) {
        names[n++] = a->flags[i].name;
    }
    near = text_nearest(name, names, n);
    if (near != NULL) {
        return log_fail(ST_BADARG, "unknown flag, %.200s, did you mean --%s?", word, near);
    }
    return log_fail(ST_BADARG, "unknown flag, %.200s, --help lists all", word);
}

/* The flag that `word` names; its length without "=value" into `*n`. NULL if there is none. */
static const struct args_flag *find_flag(const struct args *a, const char *word, size_t *n)
{
    *n = strcspn(word, "=");
    for (size_t i = 0; i < a->n_flags; i++) {
        const struct args_flag *f = &a->flags[i];
        bool by_name = strncmp(word, "--", 2) == 0 && strlen(f->name) == *n - 2 &&
                       strncmp(word + 2, f->name, *n - 2) == 0;
        bool by_letter = *n == 2 && word[0] == '-' && f->letter != 0 && word[1] == f->letter;
        if (by_name || by_letter) {
            return f;
        }
    }
    return NULL;
}

enum status args_next(struct args *a, const struct args_flag **flag, const char **value)
{
    const char *word, *next;
    const struct args_flag *f;
    char name[64];
    size_t n;

    *flag = NULL;
    if (a->at >= a->argc) {
        return ST_OK;
    }
    word = a->argv[a->at++];
    if (word[0] != '-') {
        return log_fail(ST_BADARG,
                        "a word without a flag, %.200s, --help shows how flags are given", word);
    }
    f = find_flag(a, word, &n);
    if (f == NULL) {
        const char *bare = word + strspn(word, "-");
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(bare, "="), bare);
        return unknown_flag(a, word, name);
    }
    if (f->value == NULL) {
        if (word[n] == '=') {
            return log_fail(ST_BADARG, "--%s takes no value, %.200s, leave it out", f->name, word);
        }
        *value = "";
    } else if (word[n] == '=') {
        *value = word + n + 1;
    } else {
        next = a->at < a->argc ? a->argv[a->at] : NULL;
        if (next == NULL || strncmp(next, "--", 2) == 0) {
            return log_fail(ST_BADARG, "--%s has no value, %.200s, write --%s %s", f->name,
                            next != NULL ? next : "at the end", f->name, f->value);
        }
        *value = next;
        a->at++;
    }
    *flag = f;
    return ST_OK;
}

void args_print(const struct args_flag *flags, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        const struct args_flag *f = &flags[i];
        char left[80], letter[8] = "";

        if (f->letter != 0) {
            (void)snprintf(letter, sizeof letter, "-%c, ", f->letter);
        }
        (void)snprintf(left, sizeof left, "%s--%s%s%s", letter, f->name,
                       f->value != NULL ? " " : "", f->value != NULL ? f->value : "");
        (void)fprintf(out, "  %-*s %s%s%s%s\n", HELP_COLUMN, left, f->help,
                      f->key != NULL ? " [" : "", f->key != NULL ? f->key : "",
                      f->key != NULL ? "]" : "");
    }
}

enum status args_flush_stdout(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout)) { /* it failed before: once more, to learn why */
        (void)putchar('\n');
        (void)fflush(stdout);
    }
    if (ferror(stdout)) {
        return log_fail(ST_IO, "cannot write: %s, standard output, give it a place with room",
                        errno != 0 ? strerror(errno) : "an earlier write failed");
    }
    return ST_OK;
}
