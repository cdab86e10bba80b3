#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stdint.h>

/* How the functions are declared; GPU code declares them in another way. */
#ifndef PHILOX_FN
#define PHILOX_FN static inline
#endif

/* Philox4x32-10 (Salmon et al., SC 2011), the generator behind base/rng.h. */
PHILOX_FN void philox_round(uint32_t c[4], const uint32_t k[2])
{
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c1 = c[1], c3 = c[3];

    c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k[0];
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k[1];
    c[3] = (uint32_t)p0;
}

/*
 * The counter holds index and stream, the key seed and purpose. The purpose is spread over the key
 * by an odd constant, so that neighbouring seeds and purposes do not meet.
 */
PHILOX_FN void philox_block(uint64_t seed, uint32_t purpose, uint64_t stream, uint64_t index,
                            uint32_t out[4])
{
    uint64_t key = seed ^ ((uint64_t)(purpose + 1) * 0x9E3779B97F4A7C15u);
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};

    out[0] = (uint32_t)index;
    out[1] = (uint32_t)(index >> 32);
    out[2] = (uint32_t)stream;
    out[3] = (uint32_t)(stream >> 32);
    for (int i = 0; i < 10; i++) {
        philox_round(out, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
}

#endif
