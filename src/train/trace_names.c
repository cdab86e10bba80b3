#include "train/trace_names.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* Bytes of the well-formed UTF-8 character at `s`; 0 if there is none. */
static size_t utf8_length(const unsigned char *s)
{
    const size_t n = s[0] < 0x80                    ? 1
                     : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
                     : s[0] >= 0xe0 && s[0] <= 0xef ? 3
                     : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                    : 0;

    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) {
        return 0; /* overlong, surrogate or too large */
    }
    return n;
}

static char *escape(const char *text)
{
    char *out = mem_alloc(6 * strlen(text) + 1, 1), *to = out;

    for (const unsigned char *s = (const unsigned char *)text; out != NULL && *s != '\0';) {
        size_t n = utf8_length(s);
        if (*s == '"' || *s == '\\') {
            *to++ = '\\';
            *to++ = (char)*s++;
        } else if (*s < 0x20 || *s == 0x7f) {
            to += sprintf(to, "\\u%04x", *s++);
        } else if (n == 0) {
            *to++ = '?';
            s++;
        } else {
            memcpy(to, s, n);
            to += n;
            s += n;
        }
    }
    return out;
}

enum status trace_names_init(struct trace_names *t, const char *const *names, size_t n)
{
    t->texts = mem_alloc(n, sizeof *t->texts);
    if (t->texts == NULL) {
        return ST_NOMEM;
    }
    t->n = n;
    for (size_t i = 0; i < n; i++) {
        t->texts[i] = escape(names[i]);
        if (t->texts[i] == NULL) {
            return ST_NOMEM;
        }
        t->longest = strlen(t->texts[i]) > t->longest ? strlen(t->texts[i]) : t->longest;
    }
    return ST_OK;
}

void trace_names_fini(struct trace_names *t)
{
    for (size_t i = 0; i < t->n; i++) {
        mem_free(t->texts[i]);
    }
    mem_free(t->texts);
    *t = (struct trace_names){.n = 0};
}
