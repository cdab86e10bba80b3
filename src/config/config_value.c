#include "config/config_value.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "config/config_show.h"

enum {
    MAX_CHOICES = 8,
    CHOICE_BYTES = 128
};

static void *field(struct config *cfg, const struct config_key *k)
{
    return (char *)cfg + k->offset;
}

struct source {
    const struct config_key *key;
    const char *text, *place;
};

static enum status refuse(const struct source *s, const char *why)
{
    char range[CONFIG_RANGE_BYTES];
    const char *hint = config_show_range(s->key, range);

    if (s->text[0] == '\0') {
        return log_fail(ST_INPUT, "%s.%s has no value, %s, give a %s%s%s", s->key->section,
                        s->key->name, s->place, config_show_type(s->key), *hint ? ": " : "", hint);
    }
    return log_fail(ST_INPUT, "%s.%s cannot be '%.200s': %s, %s, give a %s%s%s", s->key->section,
                    s->key->name, s->text, why, s->place, config_show_type(s->key),
                    *hint ? ": " : "", hint);
}

static bool in_range(const struct config_key *k, double v)
{
    bool low = k->flags & KEY_OPEN_MIN ? v > k->min : v >= k->min;
    bool high = k->flags & KEY_OPEN_MAX ? v < k->max : v <= k->max;

    return low && high;
}

static enum status set_number(struct config *cfg, const struct source *s)
{
    const struct config_key *k = s->key;
    int64_t i = 0;
    uint64_t b = 0;
    double d = 0;
    bool ok;

    if (k->type == KEY_INT) {
        ok = text_to_i64(s->text, &i);
        d = (double)i;
    } else if (k->type == KEY_BYTES) {
        ok = text_to_bytes(s->text, &b);
        d = (double)b;
    } else {
        ok = text_to_double(s->text, &d);
    }
    if (!ok) {
        return refuse(s, strchr(s->text, ',') != NULL ? "the decimal sign is a point"
                                                      : "not one such number, or too large");
    }
    if (!in_range(k, d)) {
        return refuse(s, "out of range");
    }
    if (k->type == KEY_INT) {
        *(int64_t *)field(cfg, k) = i;
    } else if (k->type == KEY_BYTES) {
        *(uint64_t *)field(cfg, k) = b;
    } else {
        *(double *)field(cfg, k) = d;
    }
    return ST_OK;
}

static enum status set_text(struct config *cfg, const struct source *s)
{
    char **at = field(cfg, s->key), *copy;

    if (s->text[0] == '\0' && !(s->key->flags & KEY_EMPTY)) {
        return refuse(s, "");
    }
    for (const char *p = s->text; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 127) {
            return log_fail(ST_INPUT, "%s.%s holds the control character %d, %s, remove it",
                            s->key->section, s->key->name, (int)(unsigned char)*p, s->place);
        }
    }
    copy = mem_strdup(s->text);
    if (copy == NULL) {
        return log_fail(ST_NOMEM, "no memory for %s.%s, %s, free some", s->key->section,
                        s->key->name, s->place);
    }
    mem_free(*at);
    *at = copy;
    return ST_OK;
}

static enum status set_choice(struct config *cfg, const struct source *s)
{
    char words[CHOICE_BYTES], why[CHOICE_BYTES] = "unknown";
    const char *names[MAX_CHOICES], *near;
    size_t n = 0;

    (void)snprintf(words, sizeof words, "%s", s->key->choices);
    for (char *rest = words, *word; (word = strsep(&rest, "|")) != NULL && n < MAX_CHOICES;) {
        names[n++] = word;
        if (strcmp(word, s->text) == 0) {
            return set_text(cfg, s);
        }
    }
    near = text_nearest(s->text, names, n);
    if (near != NULL) {
        (void)snprintf(why, sizeof why, "did you mean %s", near);
    }
    return refuse(s, why);
}

static enum status set_reals(struct config *cfg, const struct source *s)
{
    struct config_reals *at = field(cfg, s->key), list = {NULL, 0};
    char *copy = mem_strdup(s->text), *rest = copy, *item;
    size_t room = 1;
    enum status st = ST_OK;

    for (const char *p = s->text; *p != '\0'; p++) {
        room += *p == ',';
    }
    list.v = mem_alloc(room, sizeof *list.v);
    if (copy == NULL || list.v == NULL) {
        st = log_fail(ST_NOMEM, "no memory for a list of %zu numbers, %s, shorten it", room,
                      s->place);
    } else if (s->text[strspn(s->text, " \t")] == '\0' && s->key->flags & KEY_EMPTY) {
        rest = NULL; /* an empty list */
    }
    while (st == ST_OK && (item = strsep(&rest, ",")) != NULL) {
        double *v = &list.v[list.n++];
        if (item[strspn(item, " \t")] == '\0') {
            st = refuse(s, "an item is empty, is there a comma too many?");
        } else if (!text_to_double(item, v) || (s->key->flags & KEY_WHOLE && *v != floor(*v))) {
            st = refuse(s, "an item is not such a number");
        } else if (!in_range(s->key, *v)) {
            st = refuse(s, "an item is out of range");
        }
    }
    if (st == ST_OK) {
        mem_free(at->v);
        *at = list;
        list.v = NULL;
    }
    mem_free(list.v);
    mem_free(copy);
    return st;
}

enum status config_value_set(struct config *cfg, const struct config_key *k, const char *text,
                             const char *place)
{
    struct source s = {k, text, place};

    switch (k->type) {
    case KEY_INT:
    case KEY_REAL:
    case KEY_BYTES:
        return set_number(cfg, &s);
    case KEY_BOOL:
        return text_to_bool(text, field(cfg, k)) ? ST_OK : refuse(&s, "neither yes nor no");
    case KEY_TEXT:
        return set_text(cfg, &s);
    case KEY_CHOICE:
        return set_choice(cfg, &s);
    case KEY_REALS:
        return set_reals(cfg, &s);
    }
    return ST_INTERNAL;
}

void config_value_fini(struct config *cfg, const struct config_key *k)
{
    struct config_reals *list = field(cfg, k);
    char **text = field(cfg, k);

    if (k->type == KEY_REALS) {
        mem_free(list->v);
        *list = (struct config_reals){NULL, 0};
    } else if (k->type == KEY_TEXT || k->type == KEY_CHOICE) {
        mem_free(*text);
        *text = NULL;
    }
}
