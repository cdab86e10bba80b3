#ifndef COMM_BITS_H
#define COMM_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets of small numbers as rows of 64-bit words. */
static inline size_t bits_words(size_t n)
{
    return n / 64 + 1;
}

static inline bool bits_get(const uint64_t *set, size_t i)
{
    return (set[i / 64] >> (i % 64)) & 1;
}

static inline void bits_set(uint64_t *set, size_t i)
{
    set[i / 64] |= (uint64_t)1 << (i % 64);
}

static inline void bits_or(uint64_t *set, const uint64_t *other, size_t words)
{
    for (size_t i = 0; i < words; i++) {
        set[i] |= other[i];
    }
}

#endif
