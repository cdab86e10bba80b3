#include "config/config_value.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    MAX_CHOICES = 8,
    CHOICE_BYTES = 128
};

static void *field(const struct config *cfg, const struct config_key *k)
{
    return (char *)(uintptr_t)cfg + k->offset;
}

/* --- numbers to text */

static int print_c(char *out, size_t bytes, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* snprintf with a decimal point whatever the locale of the thread. */
static int print_c(char *out, size_t bytes, const char *fmt, ...)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = c != (locale_t)0 ? uselocale(c) : (locale_t)0;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(out, bytes, fmt, args);
    va_end(args);
    if (c != (locale_t)0) {
        (void)uselocale(old);
        freelocale(c);
    }
    return n;
}

const char *config_value_number(double v, char out[32])
{
    double back;

    if (fabs(v) < 1e15 && v == floor(v)) {
        (void)print_c(out, 32, "%.0f", v);
        return out;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)print_c(out, 32, "%.*g", digits, v);
        if (text_to_double(out, &back) && back == v) {
            break;
        }
    }
    return out;
}

static const char *bytes_text(uint64_t v, char out[32])
{
    static const char units[] = {'\0', 'K', 'M', 'G'};
    size_t u = 0;

    while (v != 0 && v % 1024 == 0 && u + 1 < sizeof units) {
        v /= 1024;
        u++;
    }
    (void)snprintf(out, 32, "%llu%.1s", (unsigned long long)v, &units[u]);
    return out;
}

/* --- what a key takes, for people */

const char *config_value_type(const struct config_key *k)
{
    static const char *const names[] = {
        [KEY_INT] = "whole number", [KEY_REAL] = "number", [KEY_BYTES] = "bytes, K M G allowed",
        [KEY_BOOL] = "yes or no",   [KEY_TEXT] = "text",   [KEY_CHOICE] = "choice",
        [KEY_REALS] = "list",
    };

    if (k->type == KEY_REALS && (k->flags & KEY_WHOLE)) {
        return "list of whole numbers";
    }
    return k->type == KEY_REALS ? "list of numbers" : names[k->type];
}

static const char *bound_text(const struct config_key *k, double v, char out[32])
{
    return k->type == KEY_BYTES ? bytes_text((uint64_t)v, out) : config_value_number(v, out);
}

const char *config_value_range(const struct config_key *k, char out[160])
{
    const char *above = k->flags & KEY_OPEN_MIN ? "above" : "at least";
    const char *below = k->flags & KEY_OPEN_MAX ? "below" : "at most";
    char min[32], max[32];

    out[0] = '\0';
    if (k->type == KEY_CHOICE) {
        size_t n = 0;
        for (const char *p = k->choices; *p != '\0' && n + 4 < 160; p++) {
            n += (size_t)snprintf(out + n, 160 - n, *p == '|' ? ", " : "%c", *p);
        }
    } else if (k->type == KEY_BOOL || k->type == KEY_TEXT) {
        return out;
    } else if (isinf(k->max)) {
        (void)snprintf(out, 160, "%s %s", above, bound_text(k, k->min, min));
    } else {
        (void)snprintf(out, 160, "%s %s, %s %s", above, bound_text(k, k->min, min), below,
                       bound_text(k, k->max, max));
    }
    return out;
}

/* --- text to value */

struct source {
    const struct config_key *key;
    const char *text, *place;
};

static enum status refuse(const struct source *s, const char *why)
{
    char range[160];
    const char *hint = config_value_range(s->key, range);

    if (s->text[0] == '\0') {
        return log_fail(ST_INPUT, "%s.%s has no value, %s, give a %s%s%s", s->key->section,
                        s->key->name, s->place, config_value_type(s->key), *hint ? ": " : "", hint);
    }
    return log_fail(ST_INPUT, "%s.%s cannot be '%.200s': %s, %s, give a %s%s%s", s->key->section,
                    s->key->name, s->text, why, s->place, config_value_type(s->key),
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

/* --- value to text */

static void emit_text(const char *text, void (*put)(void *ctx, const char *piece), void *ctx)
{
    char c[3] = {0};

    if (text[strcspn(text, " \t\"\\#;=")] == '\0') {
        put(ctx, text);
        return;
    }
    put(ctx, "\"");
    for (; *text != '\0'; text++) {
        bool escape = *text == '"' || *text == '\\';
        c[0] = escape ? '\\' : *text;
        c[1] = escape ? *text : '\0';
        put(ctx, c);
    }
    put(ctx, "\"");
}

void config_value_emit(const struct config *cfg, const struct config_key *k,
                       void (*put)(void *ctx, const char *piece), void *ctx)
{
    const void *at = field(cfg, k);
    const struct config_reals *list = at;
    char out[32];

    switch (k->type) {
    case KEY_INT:
        (void)snprintf(out, sizeof out, "%lld", (long long)*(const int64_t *)at);
        put(ctx, out);
        break;
    case KEY_REAL:
        put(ctx, config_value_number(*(const double *)at, out));
        break;
    case KEY_BYTES:
        put(ctx, bytes_text(*(const uint64_t *)at, out));
        break;
    case KEY_BOOL:
        put(ctx, *(const bool *)at ? "yes" : "no");
        break;
    case KEY_TEXT:
    case KEY_CHOICE:
        emit_text(*(char *const *)at, put, ctx);
        break;
    case KEY_REALS:
        for (size_t i = 0; i < list->n; i++) {
            put(ctx, i > 0 ? ", " : "");
            put(ctx, config_value_number(list->v[i], out));
        }
        break;
    }
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
