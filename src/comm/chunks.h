#ifndef COMM_CHUNKS_H
#define COMM_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/*
 * Chunk sizes by size of message, as `[comm] chunks` gives them: "64K:4K, 1M:128K" cuts messages of
 * up to 64 KiB into chunks of 4 KiB, and larger ones, also those above the last size, into chunks
 * of 128 KiB. "tune" asks for a search, "" leaves the choice to `chunk_bytes`.
 */
enum {
    CHUNK_RULES = 32,
    CHUNK_RULES_BYTES = 48 * CHUNK_RULES /* of their text */
};

struct chunk_rules {
    struct {
        size_t up_to_bytes, chunk_bytes;
    } rules[CHUNK_RULES]; /* ascending */
    size_t n;
    bool tune;
};

/* NULL is "". Errors: ST_INPUT, logged. */
MUST_CHECK enum status chunk_rules_read(const char *text, struct chunk_rules *out);

/* The text that reads so. */
void chunk_rules_write(const struct chunk_rules *r, char out[CHUNK_RULES_BYTES]);

/* The chunk of a message of so many bytes; 0: not given. */
size_t chunk_rules_find(const struct chunk_rules *r, size_t bytes);

/* The sizes that share a rule when it is searched for: the power of two from 4 KiB on that holds
 * `bytes`. */
size_t chunk_class_bytes(size_t bytes);

#endif
