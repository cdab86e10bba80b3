#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

/*
 * Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). A number is a pure function
 * of (seed, purpose, stream, index), so it does not depend on the number of ranks, threads or
 * earlier draws.
 */
enum rng_purpose {
    RNG_INIT,      /* stream: parameter,  index: element */
    RNG_SHUFFLE,   /* stream: epoch,      index: position */
    RNG_AUGMENT,   /* stream: epoch,      index: sample */
    RNG_DROPOUT,   /* stream: see nn,     index: element */
    RNG_SYNTHETIC, /* stream: sample,     index: pixel */
    RNG_TEST,
};

struct rng {
    uint64_t seed;
    uint32_t purpose;
    uint64_t stream;
};

static inline struct rng rng_make(uint64_t seed, enum rng_purpose purpose, uint64_t stream)
{
    struct rng r = {seed, (uint32_t)purpose, stream};
    return r;
}

/* The four 32-bit words number `index` of `r`. */
void rng_block(const struct rng *r, uint64_t index, uint32_t out[4]);

uint32_t rng_u32(const struct rng *r, uint64_t index);
uint64_t rng_u64(const struct rng *r, uint64_t index);

/* Uniform in [0, 1), with 24 random bits. */
float rng_uniform(const struct rng *r, uint64_t index);

/* Standard normal (Box-Muller). */
float rng_normal(const struct rng *r, uint64_t index);

/* Uniform in [0, n), n >= 1; the bias is below n / 2^64. */
uint64_t rng_below(const struct rng *r, uint64_t index, uint64_t n);

#endif
