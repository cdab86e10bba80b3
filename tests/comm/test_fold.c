#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/halves.h"
#include "base/rng.h"
#include "comm/dtype.h"
#include "comm/fold.h"

enum {
    MAX_BUFS = 9,
    MAX_N = 700
};

static const struct rng rng = {.seed = 7, .purpose = RNG_TEST};

/* Small integers, which every type holds; sums of nine stay exact in bfloat16 too. */
static int small(int buf, size_t i)
{
    return (int)rng_below(&rng, (uint64_t)buf * 4096 + i, 29) - 14;
}

static void put(enum dtype d, void *x, size_t i, int v)
{
    switch (d) {
    case DTYPE_F32:
        ((float *)x)[i] = (float)v;
        break;
    case DTYPE_BF16:
        ((uint16_t *)x)[i] = halves_bf16_of_f32((float)v);
        break;
    case DTYPE_F16:
        ((uint16_t *)x)[i] = halves_f16_of_f32((float)v);
        break;
    case DTYPE_I32:
        ((int32_t *)x)[i] = v;
        break;
    }
}

static double get(enum dtype d, const void *x, size_t i)
{
    switch (d) {
    case DTYPE_F32:
        return ((const float *)x)[i];
    case DTYPE_BF16:
        return halves_f32_of_bf16(((const uint16_t *)x)[i]);
    case DTYPE_F16:
        return halves_f32_of_f16(((const uint16_t *)x)[i]);
    default:
        return ((const int32_t *)x)[i];
    }
}

static double expected(enum dtype d, enum redop r, int n_src, int divisor, size_t i)
{
    int x = small(0, i);

    for (int k = 1; k < n_src; k++) {
        int y = small(k, i);
        x = r == REDOP_MAX ? (x > y ? x : y) : r == REDOP_MIN ? (x < y ? x : y) : x + y;
    }
    if (divisor == 0) {
        return x;
    }
    if (d == DTYPE_I32) {
        return x / divisor;
    }
    if (d == DTYPE_F32) {
        return (float)x / (float)divisor;
    }
    return d == DTYPE_BF16 ? halves_f32_of_bf16(halves_bf16_of_f32((float)x / (float)divisor))
                           : halves_f32_of_f16(halves_f16_of_f32((float)x / (float)divisor));
}

/* Fold `n_src` buffers into `n_dst`, which are the first sources when in place. */
static void try_fold(enum dtype d, enum redop r, int n_src, int n_dst, size_t first, size_t n,
                     bool in_place)
{
    static uint32_t src[MAX_BUFS][MAX_N], dst[MAX_BUFS][MAX_N];
    uintptr_t srcs[MAX_BUFS], dsts[MAX_BUFS];
    int divisor = r == REDOP_MEAN ? n_src : 0;
    struct fold_args a = {srcs, dsts, n_src, n_dst, first, n, divisor, !in_place && n % 2 == 1};

    for (int k = 0; k < MAX_BUFS; k++) {
        memset(dst[k], 0xa5, sizeof dst[k]);
        for (size_t i = 0; i < MAX_N; i++) {
            put(d, src[k], i, small(k, i));
        }
        srcs[k] = (uintptr_t)src[k];
        dsts[k] = (uintptr_t)(in_place ? src[k] : dst[k]);
    }
    if (n_src == 1 && r != REDOP_MEAN && n % 3 == 0) {
        fold_copy(&a, dtype_bytes(d));
    } else {
        fold_select(d, r)(&a);
    }
    for (int k = 0; k < n_dst; k++) {
        for (size_t i = 0; i < MAX_N; i++) {
            bool inside = i >= first && i < first + n;
            uint8_t untouched[4];
            if (inside) {
                cr_assert_eq(get(d, (void *)dsts[k], i), expected(d, r, n_src, divisor, i),
                             "%s %s src=%d dst=%d first=%zu n=%zu i=%zu", dtype_name(d),
                             redop_name(r), n_src, n_dst, first, n, i);
            } else if (in_place) {
                cr_assert_eq(get(d, src[k], i), small(k, i));
            } else {
                memset(untouched, 0xa5, sizeof untouched);
                cr_assert_eq(memcmp((char *)dst[k] + i * dtype_bytes(d), untouched, dtype_bytes(d)),
                             0);
            }
        }
    }
}

Test(fold, every_type_and_operation_is_exact_at_awkward_sizes_and_places)
{
    size_t sizes[] = {0, 1, 3, 15, 16, 17, 63, 64, 65, 129, 511, 512, 513, 650};

    for (int d = 0; d <= DTYPE_I32; d++) {
        for (int r = 0; r <= REDOP_MIN; r++) {
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
                for (int n_src = 1; n_src <= MAX_BUFS; n_src += n_src < 3 ? 1 : 3) {
                    size_t first = k % 5;
                    try_fold((enum dtype)d, (enum redop)r, n_src, 1, first, sizes[k], false);
                    try_fold((enum dtype)d, (enum redop)r, n_src, 2, first, sizes[k], true);
                    try_fold((enum dtype)d, (enum redop)r, n_src, 5, first, sizes[k], false);
                }
            }
        }
    }
}

Test(fold, the_order_of_summation_is_that_of_the_sources)
{
    static float x[5][100], y[100];
    uintptr_t src[5], dst[1] = {(uintptr_t)y};
    struct fold_args a = {src, dst, 5, 1, 0, 100, 0, false};

    for (int k = 0; k < 5; k++) {
        src[k] = (uintptr_t)x[k];
        for (size_t i = 0; i < 100; i++) {
            x[k][i] = rng_normal(&rng, (uint64_t)k * 100 + i) * powf(10, (float)(k % 3) * 4);
        }
    }
    fold_select(DTYPE_F32, REDOP_SUM)(&a);
    for (size_t i = 0; i < 100; i++) {
        float sum = x[0][i];
        for (int k = 1; k < 5; k++) {
            sum += x[k][i];
        }
        cr_assert_eq(y[i], sum);
    }
}

Test(fold, means_of_rank_numbers_are_exact_up_to_28)
{
    for (int p = 1; p <= 28; p++) {
        float x[28], y = 0;
        uintptr_t src[28], dst[1] = {(uintptr_t)&y};
        struct fold_args a = {src, dst, p, 1, 0, 1, p, false};
        for (int r = 0; r < p; r++) {
            x[r] = (float)(r + 1);
            src[r] = (uintptr_t)&x[r];
        }
        fold_select(DTYPE_F32, REDOP_MEAN)(&a);
        cr_assert_eq(y, (float)(p + 1) / 2);
    }
}

Test(fold, a_nan_is_not_lost_in_a_sum_and_loses_a_maximum)
{
    float x = NAN, z = 2, y[3];
    uintptr_t src[2] = {(uintptr_t)&x, (uintptr_t)&z};

    for (int r = 0; r < 3; r++) {
        uintptr_t dst[1] = {(uintptr_t)&y[r]};
        struct fold_args a = {src, dst, 2, 1, 0, 1, 0, false};
        fold_select(DTYPE_F32, r == 0 ? REDOP_SUM : r == 1 ? REDOP_MAX : REDOP_MIN)(&a);
    }
    cr_assert(isnan(y[0]) && y[1] == 2 && y[2] == 2);
}

Test(dtype, every_half_survives_the_way_through_float)
{
    for (uint32_t u = 0; u < 65536; u++) {
        float f = halves_f32_of_f16((uint16_t)u), b = halves_f32_of_bf16((uint16_t)u);
        cr_assert(isnan(f) || halves_f16_of_f32(f) == u, "%04x", u);
        cr_assert(!isnan(f) || ((u & 0x7c00) == 0x7c00 && (u & 0x3ff) != 0));
        cr_assert(isnan(b) || halves_bf16_of_f32(b) == u, "%04x", u);
    }
    cr_assert(isnan(halves_f32_of_f16(halves_f16_of_f32(NAN))));
    cr_assert(isnan(halves_f32_of_bf16(halves_bf16_of_f32(NAN))));
}

Test(dtype, rounding_is_to_nearest_even_and_overflow_to_infinity)
{
    cr_assert_eq(halves_f32_of_f16(halves_f16_of_f32(2049)), 2048);
    cr_assert_eq(halves_f32_of_f16(halves_f16_of_f32(2051)), 2052);
    cr_assert_eq(halves_f32_of_f16(halves_f16_of_f32(65519)), 65504);
    cr_assert(isinf(halves_f32_of_f16(halves_f16_of_f32(65520))));
    cr_assert_eq(halves_f32_of_f16(halves_f16_of_f32(0x1.8p-25f)), 0x1p-24f);
    cr_assert_eq(halves_f32_of_f16(halves_f16_of_f32(0x1p-25f)), 0);
    cr_assert_eq(halves_f32_of_f16(1), 0x1p-24f);
    cr_assert_eq(halves_f32_of_bf16(halves_bf16_of_f32(257)), 256);
    cr_assert_eq(halves_f32_of_bf16(halves_bf16_of_f32(259)), 260);
    cr_assert(isinf(halves_f32_of_bf16(halves_bf16_of_f32(3.4e38f))));
}

Test(dtype, names_are_found_again)
{
    for (int i = 0; i <= DTYPE_I32; i++) {
        enum dtype d;
        cr_assert(dtype_find(dtype_name((enum dtype)i), &d) && d == (enum dtype)i);
    }
    for (int i = 0; i <= REDOP_MIN; i++) {
        enum redop r;
        cr_assert(redop_find(redop_name((enum redop)i), &r) && r == (enum redop)i);
    }
}
