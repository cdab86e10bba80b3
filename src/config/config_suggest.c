#include "config/config_suggest.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "config/config_table.h"

enum {
    NAME_BYTES = 64,
    LIST_BYTES = 1024,
    MAX_SECTIONS = 16,
    /* A wrong letter weighs more than a name from elsewhere, and that more than a wrong section. */
    WRONG_LETTER = 4,
    OTHER_NAME = 2,
    OTHER_SECTION = 1
};

/* `name` without the confusion of - and _. */
static void fold(const char *name, char out[NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "%s", name);
    for (char *p = out; *p != '\0'; p++) {
        *p = *p == '-' ? '_' : *p;
    }
}

/* How far `k` is from `name` in `section`; a large number if it cannot be meant. */
static size_t distance(const struct config_key *k, const char *section, const char *name)
{
    size_t best = SIZE_MAX, limit = 1 + strlen(name) / 3;
    char words[LIST_BYTES];

    (void)snprintf(words, sizeof words, "%s|%s", k->name, k->habits != NULL ? k->habits : k->name);
    for (char *rest = words, *word; (word = strsep(&rest, "|")) != NULL;) {
        size_t d = text_distance(name, word);
        size_t score = d * WRONG_LETTER + (strcmp(word, k->name) != 0 ? OTHER_NAME : 0) +
                       (strcmp(section, k->section) != 0 ? OTHER_SECTION : 0);
        if (d <= limit && d < strlen(word) && score < best) {
            best = score;
        }
    }
    return best;
}

/* "a, b, c" of the keys of a section. */
static const char *list_keys(const char *section, char out[LIST_BYTES])
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < config_table_n() && n + NAME_BYTES < LIST_BYTES; i++) {
        const struct config_key *k = config_table_at(i);
        if (strcmp(k->section, section) == 0) {
            n += (size_t)snprintf(out + n, LIST_BYTES - n, "%s%s", n > 0 ? ", " : "", k->name);
        }
    }
    return out;
}

static size_t list_sections(const char *out[MAX_SECTIONS])
{
    size_t n = 0;

    for (size_t i = 0; i < config_table_n(); i++) {
        const char *section = config_table_at(i)->section;
        if (n == 0 || (strcmp(out[n - 1], section) != 0 && n < MAX_SECTIONS)) {
            out[n++] = section;
        }
    }
    return n;
}

enum status config_suggest_key(const char *section, const char *name, const char *place)
{
    const struct config_key *near = NULL;
    char folded[NAME_BYTES], list[LIST_BYTES];
    size_t best = SIZE_MAX;

    fold(name, folded);
    for (size_t i = 0; i < config_table_n(); i++) {
        size_t d = distance(config_table_at(i), section, folded);
        if (d < best) {
            best = d;
            near = config_table_at(i);
        }
    }
    if (section[0] == '\0' && near == NULL) {
        return log_fail(ST_INPUT, "key '%.100s' has no section, %s, put it under its [section]",
                        name, place);
    }
    if (section[0] == '\0') {
        return log_fail(ST_INPUT, "key '%.100s' has no section, %s, it belongs to [%s] as %s", name,
                        place, near->section, near->name);
    }
    if (near == NULL) {
        return log_fail(ST_INPUT, "unknown key '%.100s' in [%s], %s, this section has %s", name,
                        section, place, list_keys(section, list));
    }
    if (strcmp(near->section, section) == 0) {
        return log_fail(ST_INPUT, "unknown key '%.100s' in [%s], %s, did you mean %s?", name,
                        section, place, near->name);
    }
    return log_fail(ST_INPUT, "unknown key '%.100s' in [%s], %s, did you mean %s in [%s]?", name,
                    section, place, near->name, near->section);
}

enum status config_suggest_section(const char *section, const char *place)
{
    const char *names[MAX_SECTIONS], *near;
    size_t n = list_sections(names);
    char list[LIST_BYTES];
    size_t used = 0;

    near = text_nearest(section, names, n);
    if (near != NULL) {
        return log_fail(ST_INPUT, "unknown section [%.100s], %s, did you mean [%s]?", section,
                        place, near);
    }
    for (size_t i = 0; i < n; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s[%s]", i > 0 ? ", " : "",
                                 names[i]);
    }
    return log_fail(ST_INPUT, "unknown section [%.100s], %s, there are %s", section, place, list);
}
