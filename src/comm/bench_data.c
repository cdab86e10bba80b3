#include "comm/bench_data.h"

#include "base/halves.h"

static int value(int rank, size_t i)
{
    return (int)(i * 7919 % 5) + (int)((i + (size_t)rank) % 3) - 3;
}

static void put(enum dtype d, void *x, size_t i, float v)
{
    switch (d) {
    case DTYPE_F32:
        ((float *)x)[i] = v;
        break;
    case DTYPE_BF16:
        ((uint16_t *)x)[i] = halves_bf16_of_f32(v);
        break;
    case DTYPE_F16:
        ((uint16_t *)x)[i] = halves_f16_of_f32(v);
        break;
    case DTYPE_I32:
        ((int32_t *)x)[i] = (int32_t)v;
        break;
    }
}

void bench_data_fill(enum dtype d, int rank, void *x, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put(d, x, i, (float)value(rank, first + i));
    }
}

/* The right element i of the message that reaches everybody. */
static float right(const struct program *p, int root, size_t i)
{
    int x = value(0, i);
    size_t n;

    if (p->collective == COLL_BROADCAST) {
        return (float)value(root, i);
    }
    for (int r = 0; r < p->n_ranks; r++) {
        int y = value(r, i);
        size_t first = program_in_range(p, r, &n);
        if (p->collective == COLL_ALLGATHER) {
            x = i >= first && i < first + n ? y : x;
        } else if (r > 0) {
            enum redop op = p->spec.redop;
            x = op == REDOP_MAX ? (x > y ? x : y) : op == REDOP_MIN ? (x < y ? x : y) : x + y;
        }
    }
    if (p->spec.redop != REDOP_MEAN || !collective_has_up(p->collective)) {
        return (float)x;
    }
    return p->spec.dtype == DTYPE_I32 ? (float)(x / p->n_ranks) : (float)x / (float)p->n_ranks;
}

static bool differs(enum dtype d, const void *x, size_t i, float want)
{
    switch (d) {
    case DTYPE_F32:
        return ((const float *)x)[i] != want;
    case DTYPE_BF16:
        return ((const uint16_t *)x)[i] != halves_bf16_of_f32(want);
    case DTYPE_F16:
        return ((const uint16_t *)x)[i] != halves_f16_of_f32(want);
    default:
        return ((const int32_t *)x)[i] != (int32_t)want;
    }
}

size_t bench_data_wrong(const struct program *p, int root, const void *x, size_t first, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++) {
        wrong += differs(p->spec.dtype, x, i, right(p, root, first + i));
    }
    return wrong;
}
