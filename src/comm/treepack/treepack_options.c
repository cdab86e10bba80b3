#include "comm/treepack/treepack_options.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

static enum status bad(const char *word)
{
    return log_fail(ST_INPUT,
                    "treepack does not take '%s', use exact, k=N, mwu, eps=E, threshold=T, "
                    "hybrid=KINDS, switch-us=X or three-phase",
                    word);
}

static bool real(const char *text, double low, double high, double *out)
{
    double x;

    if (!text_to_double(text, &x) || x < low || x > high) {
        return false;
    }
    *out = x;
    return true;
}

/* The value of `word` if it is name=value, else NULL. */
static const char *value_of(const char *word, const char *name)
{
    size_t n = strlen(name);

    return strncmp(word, name, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

static enum status take(const char *word, struct treepack_options *o)
{
    const char *value;
    bool ok = true;

    if (strcmp(word, "exact") == 0) {
        o->mwu = false;
    } else if (strcmp(word, "mwu") == 0) {
        o->mwu = true;
    } else if (strcmp(word, "three-phase") == 0) {
        o->phases = true;
    } else if ((value = value_of(word, "k")) != NULL) {
        ok = text_to_i64(value, &o->k) && o->k >= 1 && o->k <= 64;
    } else if ((value = value_of(word, "eps")) != NULL) {
        ok = real(value, 0.01, 0.5, &o->epsilon);
    } else if ((value = value_of(word, "threshold")) != NULL) {
        ok = real(value, 0, 0.5, &o->threshold);
    } else if ((value = value_of(word, "switch-us")) != NULL) {
        ok = real(value, 0, 1e6, &o->switch_s);
        o->switch_s *= 1e-6;
    } else if ((value = value_of(word, "hybrid")) != NULL) {
        ok = value[0] != '\0' && strlen(value) < sizeof o->hybrid;
        (void)snprintf(o->hybrid, sizeof o->hybrid, "%s", value);
    } else {
        ok = false;
    }
    return ok ? ST_OK : bad(word);
}

enum status treepack_options_read(const char *text, struct treepack_options *out)
{
    struct treepack_options o = {.epsilon = 0.1, .threshold = 0.05};
    const char *p = text != NULL ? text : "";

    while (p[strspn(p, " ")] != '\0') {
        char word[96];
        size_t n;
        p += strspn(p, " ");
        n = strcspn(p, " ");
        (void)snprintf(word, sizeof word, "%.*s", (int)(n < 95 ? n : 95), p);
        TRY(take(word, &o));
        p += n;
    }
    *out = o;
    return ST_OK;
}
