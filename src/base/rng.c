#include "base/rng.h"

#include <math.h>

static void philox_round(uint32_t c[4], const uint32_t k[2])
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
void rng_block(const struct rng *r, uint64_t index, uint32_t out[4])
{
    uint64_t key = r->seed ^ ((uint64_t)(r->purpose + 1) * 0x9E3779B97F4A7C15u);
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};

    out[0] = (uint32_t)index;
    out[1] = (uint32_t)(index >> 32);
    out[2] = (uint32_t)r->stream;
    out[3] = (uint32_t)(r->stream >> 32);
    for (int i = 0; i < 10; i++) {
        philox_round(out, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
}

uint32_t rng_u32(const struct rng *r, uint64_t index)
{
    uint32_t w[4];

    rng_block(r, index, w);
    return w[0];
}

uint64_t rng_u64(const struct rng *r, uint64_t index)
{
    uint32_t w[4];

    rng_block(r, index, w);
    return (uint64_t)w[1] << 32 | w[0];
}

float rng_uniform(const struct rng *r, uint64_t index)
{
    return (float)(rng_u32(r, index) >> 8) * 0x1p-24f;
}

float rng_normal(const struct rng *r, uint64_t index)
{
    uint32_t w[4];
    double u, v;

    rng_block(r, index, w);
    u = (w[0] + 1.0) * 0x1p-32; /* in (0, 1], so its logarithm is finite */
    v = w[1] * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

uint64_t rng_below(const struct rng *r, uint64_t index, uint64_t n)
{
    __extension__ typedef unsigned __int128 wide;

    return (uint64_t)(((wide)rng_u64(r, index) * n) >> 64);
}
