#include "comm/chunks.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

enum {
    LEAST_CLASS = 4096
};

/* "64K:4K" */
static bool read_rule(char *text, struct chunk_rules *r)
{
    char *colon = strchr(text, ':');
    uint64_t up_to, chunk;

    if (colon == NULL || r->n == CHUNK_RULES) {
        return false;
    }
    *colon = '\0';
    if (!text_to_bytes(text, &up_to) || !text_to_bytes(colon + 1, &chunk) || chunk == 0 ||
        up_to == 0 || (r->n > 0 && up_to <= r->rules[r->n - 1].up_to_bytes)) {
        return false;
    }
    r->rules[r->n].up_to_bytes = (size_t)up_to;
    r->rules[r->n++].chunk_bytes = (size_t)chunk;
    return true;
}

enum status chunk_rules_read(const char *text, struct chunk_rules *out)
{
    struct chunk_rules found = {.n = 0};
    const char *from = text == NULL ? "" : text;

    if (strcmp(from, "tune") == 0) {
        *out = (struct chunk_rules){.tune = true};
        return ST_OK;
    }
    while (*from != '\0') {
        size_t n = strcspn(from, ",");
        char rule[64];
        if (n >= sizeof rule) {
            break;
        }
        memcpy(rule, from, n);
        rule[n] = '\0';
        if (!read_rule(rule, &found) || strcmp(from + n, ",") == 0) {
            break;
        }
        from += n + (from[n] == ',');
    }
    if (*from != '\0') {
        return log_fail(ST_INPUT,
                        "bad sizes '%.60s', [comm] chunks, give tune or at most %d pairs "
                        "MESSAGE:CHUNK with ascending messages, such as 64K:4K, 1M:128K",
                        from, CHUNK_RULES);
    }
    *out = found;
    return ST_OK;
}

static size_t write_bytes(size_t bytes, char *out, size_t room)
{
    const bool whole = bytes >= 1024 && bytes % 1024 == 0;

    return (size_t)snprintf(out, room, "%zu%s", whole ? bytes / 1024 : bytes, whole ? "K" : "");
}

void chunk_rules_write(const struct chunk_rules *r, char out[CHUNK_RULES_BYTES])
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < r->n; i++) {
        used += (size_t)snprintf(out + used, CHUNK_RULES_BYTES - used, "%s", i > 0 ? ", " : "");
        used += write_bytes(r->rules[i].up_to_bytes, out + used, CHUNK_RULES_BYTES - used);
        used += (size_t)snprintf(out + used, CHUNK_RULES_BYTES - used, ":");
        used += write_bytes(r->rules[i].chunk_bytes, out + used, CHUNK_RULES_BYTES - used);
    }
}

size_t chunk_rules_find(const struct chunk_rules *r, size_t bytes)
{
    size_t i = 0;

    while (i + 1 < r->n && r->rules[i].up_to_bytes < bytes) {
        i++;
    }
    return r->n == 0 ? 0 : r->rules[i].chunk_bytes;
}

size_t chunk_class_bytes(size_t bytes)
{
    size_t c = LEAST_CLASS;

    while (c < bytes && c <= SIZE_MAX / 2) {
        c *= 2;
    }
    return c;
}
