#include "base/rng.h"

#include <math.h>

#include "base/philox.h"

void rng_block(const struct rng *r, uint64_t index, uint32_t out[4])
{
    philox_block(r->seed, r->purpose, r->stream, index, out);
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
