#include "config/config_show.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"

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

const char *config_show_number(double v, char out[32])
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

const char *config_show_type(const struct config_key *k)
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
    return k->type == KEY_BYTES ? bytes_text((uint64_t)v, out) : config_show_number(v, out);
}

const char *config_show_range(const struct config_key *k, char out[CONFIG_RANGE_BYTES])
{
    const char *above = k->flags & KEY_OPEN_MIN ? "above" : "at least";
    const char *below = k->flags & KEY_OPEN_MAX ? "below" : "at most";
    char min[32], max[32];

    out[0] = '\0';
    if (k->type == KEY_CHOICE) {
        size_t n = 0;
        for (const char *p = k->choices; *p != '\0' && n + 4 < CONFIG_RANGE_BYTES; p++) {
            n += (size_t)snprintf(out + n, CONFIG_RANGE_BYTES - n, *p == '|' ? ", " : "%c", *p);
        }
    } else if (k->type == KEY_BOOL || k->type == KEY_TEXT) {
        return out;
    } else if (isinf(k->max)) {
        (void)snprintf(out, CONFIG_RANGE_BYTES, "%s %s", above, bound_text(k, k->min, min));
    } else {
        (void)snprintf(out, CONFIG_RANGE_BYTES, "%s %s, %s %s", above, bound_text(k, k->min, min),
                       below, bound_text(k, k->max, max));
    }
    return out;
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

void config_show_value(const struct config *cfg, const struct config_key *k,
                       void (*put)(void *ctx, const char *piece), void *ctx)
{
    const void *at = (const char *)cfg + k->offset;
    const struct config_reals *list = at;
    char out[32];

    switch (k->type) {
    case KEY_INT:
        (void)snprintf(out, sizeof out, "%lld", (long long)*(const int64_t *)at);
        put(ctx, out);
        break;
    case KEY_REAL:
        put(ctx, config_show_number(*(const double *)at, out));
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
            put(ctx, config_show_number(list->v[i], out));
        }
        break;
    }
}
