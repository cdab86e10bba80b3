#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    MAX_DISTANCE_LENGTH = 64
};

static bool only_blanks(const char *p)
{
    while (isspace((unsigned char)*p)) {
        p++;
    }
    return *p == '\0';
}

bool text_to_i64(const char *text, int64_t *out)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || errno != 0 || !only_blanks(end)) {
        return false;
    }
    *out = v;
    return true;
}

bool text_to_double(const char *text, double *out)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *end;
    double v;

    if (c == (locale_t)0) {
        return false;
    }
    v = strtod_l(text, &end, c);
    freelocale(c);
    if (end == text || !isfinite(v) || !only_blanks(end) || strpbrk(text, "xXpP") != NULL) {
        return false;
    }
    *out = v;
    return true;
}

bool text_to_bytes(const char *text, uint64_t *out)
{
    uint64_t v, unit = 1;
    char *end;

    while (isspace((unsigned char)*text)) {
        text++;
    }
    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    errno = 0;
    v = strtoull(text, &end, 10);
    switch (toupper((unsigned char)*end)) {
    case 'K':
        unit = (uint64_t)1 << 10;
        end++;
        break;
    case 'M':
        unit = (uint64_t)1 << 20;
        end++;
        break;
    case 'G':
        unit = (uint64_t)1 << 30;
        end++;
        break;
    }
    if (errno != 0 || !only_blanks(end) || __builtin_mul_overflow(v, unit, &v)) {
        return false;
    }
    *out = v;
    return true;
}

bool text_to_bool(const char *text, bool *out)
{
    static const char *const words[][2] = {
        {"no", "yes"}, {"false", "true"}, {"off", "on"}, {"0", "1"}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        for (int v = 0; v < 2; v++) {
            if (strcasecmp(text, words[i][v]) == 0) {
                *out = v;
                return true;
            }
        }
    }
    return false;
}

size_t text_distance(const char *a, const char *b)
{
    size_t row[MAX_DISTANCE_LENGTH + 1];
    size_t na = strlen(a), nb = strlen(b);

    if (na > MAX_DISTANCE_LENGTH || nb > MAX_DISTANCE_LENGTH) {
        return MAX_DISTANCE_LENGTH;
    }
    for (size_t j = 0; j <= nb; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            size_t best = diagonal + !same;
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[nb];
}

const char *text_nearest(const char *text, const char *const *names, size_t n)
{
    size_t best = 1 + strlen(text) / 3;
    const char *found = NULL;

    for (size_t i = 0; i < n; i++) {
        size_t d = text_distance(text, names[i]);
        if (d < best || (d == best && found == NULL)) {
            best = d;
            found = names[i];
        }
    }
    return found;
}

const char *text_bytes(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t u = 0;

    while (v >= 1024 && u < 4) {
        v /= 1024;
        u++;
    }
    (void)snprintf(out, 32, u == 0 || v >= 100 ? "%.0f %s" : "%.1f %s", v, units[u]);
    return out;
}
