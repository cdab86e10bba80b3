#include "data/data.h"

#include <assert.h>

#include "base/rng.h"

/* Samples of one whole step; saturates, since more than SIZE_MAX samples never exist. */
static size_t global_batch(const struct schedule *s)
{
    size_t g;

    assert(s->batch > 0 && s->accum > 0 && s->n_ranks > 0);
    if (__builtin_mul_overflow(s->batch, s->accum, &g) ||
        __builtin_mul_overflow(g, (size_t)s->n_ranks, &g)) {
        return SIZE_MAX;
    }
    return g;
}

/* The run number `part` of `n` samples dealt to `parts` runs: the first n mod parts are longer. */
static void deal(size_t *first, size_t *n, size_t part, size_t parts)
{
    size_t each = *n / parts, longer = *n % parts;

    *first += part * each + (part < longer ? part : longer);
    *n = each + (part < longer ? 1 : 0);
}

size_t schedule_steps(const struct schedule *s)
{
    size_t g = global_batch(s);

    return s->n / g + (!s->drop_last && s->n % g != 0 ? 1 : 0);
}

struct slice schedule_slice(const struct schedule *s, size_t step, int rank, size_t micro)
{
    struct slice out = {0, 0, 0};
    size_t g = global_batch(s);

    assert(rank >= 0 && rank < s->n_ranks && micro < s->accum);
    if (step >= schedule_steps(s)) {
        return out;
    }
    out.first = step * g;
    out.n_global = s->n - out.first < g ? s->n - out.first : g;
    out.n = out.n_global;
    deal(&out.first, &out.n, (size_t)rank, (size_t)s->n_ranks);
    deal(&out.first, &out.n, micro, s->accum);
    return out;
}

void schedule_order(size_t n, bool shuffle, uint64_t seed, uint64_t epoch, uint32_t *order)
{
    struct rng r = rng_make(seed, RNG_SHUFFLE, epoch);

    assert(n <= UINT32_MAX);
    for (size_t i = 0; i < n; i++) {
        order[i] = (uint32_t)i;
    }
    for (size_t i = n; shuffle && i > 1; i--) { /* Fisher-Yates */
        size_t k = (size_t)rng_below(&r, i - 1, i);
        uint32_t moved = order[i - 1];
        order[i - 1] = order[k];
        order[k] = moved;
    }
}
