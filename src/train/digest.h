#ifndef TRAIN_DIGEST_H
#define TRAIN_DIGEST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* FNV-1a of 64 bits, word by word: tells equal things from different ones, not from forged ones. */
static const uint64_t DIGEST_EMPTY = UINT64_C(14695981039346656037);

static inline uint64_t digest_word(uint64_t h, uint64_t word)
{
    return (h ^ word) * UINT64_C(1099511628211);
}

static inline uint64_t digest_text(uint64_t h, const char *text)
{
    for (; *text != '\0'; text++) {
        h = digest_word(h, (unsigned char)*text);
    }
    return digest_word(h, 256); /* "ab", "c" is not "a", "bc" */
}

/* The bits of `v`. */
static inline uint64_t digest_floats(uint64_t h, const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        h = digest_word(h, bits);
    }
    return h;
}

#endif
