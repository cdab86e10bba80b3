/*
 * The kernels, compiled as C and played thread by thread: every element once, whatever the grid,
 * and beyond 2^32 elements.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/device.h"
#include "device/kernels/kernel_convert.h"
#include "device/kernels/kernel_finite.h"
#include "device/kernels/kernel_fold.h"
#include "device/kernels/kernel_sgd.h"
#include "device/kernels/kernel_store.h"
#include "device/kernels/kernel_vote.h"

static const size_t counts[] = {0, 1, 3, 4, 5, 15, 16, 17, 255, 256, 257, 1000, 8191};
#define N_COUNTS (sizeof counts / sizeof *counts)

static struct kernel_place place(size_t block, size_t n_blocks, size_t thread, size_t n_threads)
{
    return (struct kernel_place){block, n_blocks, thread, n_threads};
}

Test(kernels, a_cut_covers_every_element_once)
{
    static const size_t elems[] = {2, 4};

    for (size_t e = 0; e < 2; e++) {
        for (size_t mis = 0; mis < KERNEL_VEC; mis += elems[e]) {
            for (size_t k = 0; k < N_COUNTS; k++) {
                size_t n = counts[k], per = KERNEL_VEC / elems[e];
                struct kernel_cut c = kernel_cut_make(n, mis, elems[e]);
                unsigned char *hits = calloc(n + 1, 1);
                for (size_t i = 0; i < c.n_vec; i++) {
                    size_t at = kernel_cut_vec(&c, i, elems[e]);
                    cr_assert_eq((mis + at * elems[e]) % KERNEL_VEC, 0, "vectors are aligned");
                    cr_assert(at + per <= n);
                    for (size_t j = 0; j < per; j++) {
                        hits[at + j]++;
                    }
                }
                for (size_t i = 0; i < c.n_single; i++) {
                    size_t at = kernel_cut_single(&c, i, elems[e]);
                    cr_assert(at < n);
                    hits[at]++;
                }
                for (size_t i = 0; i < n; i++) {
                    cr_assert_eq(hits[i], 1, "n %zu, element %zu: %d times", n, i, hits[i]);
                }
                cr_assert(c.n_single < 2 * per, "the rest is small");
                free(hits);
            }
        }
    }
}

Test(kernels, a_cut_beyond_32_bits)
{
    const size_t n = (UINT64_C(1) << 33) + 9;
    struct kernel_cut c = kernel_cut_make(n, 4, 4);

    cr_assert_eq(c.head, 3);
    cr_assert_eq(c.n_vec, (n - 3) / 4);
    cr_assert_eq(kernel_cut_vec(&c, c.n_vec - 1, 4) + 4 + (c.n_single - c.head), n);
    cr_assert_eq(kernel_cut_single(&c, c.n_single - 1, 4), n - 1);
    cr_assert_eq(kernel_first(place(UINT32_MAX, (size_t)UINT32_MAX + 1, 255, 256)),
                 (UINT64_C(1) << 40) - 1);
    cr_assert_eq(kernel_stride(place(0, UINT32_MAX, 0, 256)), (uint64_t)UINT32_MAX * 256);
}

Test(kernels, blocks_of_a_launch)
{
    cr_assert_eq(kernel_blocks(0, 100), 1);
    cr_assert_eq(kernel_blocks(1, 100), 1);
    cr_assert_eq(kernel_blocks(256, 100), 1);
    cr_assert_eq(kernel_blocks(257, 100), 2);
    cr_assert_eq(kernel_blocks((size_t)1 << 40, 1056), 1056);
    cr_assert_eq(kernel_blocks(SIZE_MAX, 1056), 1056);
}

/* --- fold --- */

static size_t fold_all(const struct device_fold *f, size_t n_blocks, size_t n_threads)
{
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t t = 0; t < n_threads; t++) {
            kernel_fold(place(b, n_blocks, t, n_threads), f, f->dtype, f->redop);
        }
    }
    return n_blocks * n_threads;
}

static double value(int src, size_t i)
{
    return (double)((i * 7 + (size_t)src * 5) % 23) - 11.0;
}

static void put(enum device_dtype d, void *p, size_t i, double x)
{
    switch (d) {
    case DEVICE_F32:
        ((float *)p)[i] = (float)x;
        break;
    case DEVICE_BF16:
        ((uint16_t *)p)[i] = halves_bf16_of_f32((float)x);
        break;
    case DEVICE_F16:
        ((uint16_t *)p)[i] = halves_f16_of_f32((float)x);
        break;
    case DEVICE_I32:
        ((int32_t *)p)[i] = (int32_t)x;
        break;
    }
}

static double get(enum device_dtype d, const void *p, size_t i)
{
    switch (d) {
    case DEVICE_F32:
        return (double)((const float *)p)[i];
    case DEVICE_BF16:
        return (double)halves_f32_of_bf16(((const uint16_t *)p)[i]);
    case DEVICE_F16:
        return (double)halves_f32_of_f16(((const uint16_t *)p)[i]);
    case DEVICE_I32:
        break;
    }
    return (double)((const int32_t *)p)[i];
}

static double expected(enum device_dtype d, enum device_redop r, int n_src, size_t i, int divisor)
{
    double a = value(0, i);

    for (int k = 1; k < n_src; k++) {
        double b = value(k, i);
        a = r == DEVICE_MAX ? fmax(a, b) : r == DEVICE_MIN ? fmin(a, b) : a + b;
    }
    if (divisor != 0) {
        a = d == DEVICE_I32 ? trunc(a / divisor) : a / divisor;
    }
    return a;
}

/* Sources and destinations `skew` bytes off a 16-byte boundary (odd ones of them by `skew2`). */
static void try_fold(enum device_dtype d, enum device_redop r, int n_src, int n_dst, size_t n,
                     size_t skew, size_t skew2)
{
    const size_t room = 8191 * 4 + 96;
    static _Alignas(16) char src[3][8191 * 4 + 96], dst[3][8191 * 4 + 96];
    struct device_fold f = {.dtype = d, .redop = r, .n_src = n_src, .n_dst = n_dst, .n = n};

    f.divisor = r == DEVICE_MEAN ? 4 : 0;
    for (int k = 0; k < 3; k++) {
        f.src[k] = src[k] + 16 + (k % 2 == 0 ? skew : skew2);
        f.dst[k] = dst[k] + 16 + (k % 2 == 0 ? skew : skew2);
        memset(dst[k], 0x5a, room);
        for (size_t i = 0; i < n; i++) {
            put(d, (char *)src[k] + 16 + (k % 2 == 0 ? skew : skew2), i, value(k, i));
        }
    }
    (void)fold_all(&f, 3, 5);
    for (int m = 0; m < 3; m++) {
        size_t first = (size_t)((char *)f.dst[m] - dst[m]), bytes = n * kernel_fold_elem_bytes(d);
        for (size_t i = 0; m < n_dst && i < n; i++) {
            double want = expected(d, r, n_src, i, f.divisor), got = get(d, f.dst[m], i);
            cr_assert_eq(got, want, "type %d op %d n %zu, %g at %zu instead of %g", d, r, n, got, i,
                         want);
        }
        for (size_t b = 0; b < room; b++) {
            bool inside = m < n_dst && b >= first && b < first + bytes;
            cr_assert(inside || dst[m][b] == 0x5a, "byte %zu was written", b);
        }
    }
}

Test(kernels, folds_all_types_operations_and_alignments)
{
    for (int d = DEVICE_F32; d <= DEVICE_I32; d++) {
        size_t elem = kernel_fold_elem_bytes((enum device_dtype)d);
        for (int r = DEVICE_SUM; r <= DEVICE_MIN; r++) {
            for (size_t k = 0; k < N_COUNTS; k++) {
                for (size_t skew = 0; skew < 16; skew += elem) {
                    try_fold((enum device_dtype)d, (enum device_redop)r, 1 + (int)(k % 3),
                             1 + (int)(k % 2), counts[k], skew, k % 4 == 3 ? 0 : skew);
                }
            }
        }
    }
}

Test(kernels, a_fold_may_end_in_its_source)
{
    float x[37], y[37];
    struct device_fold f = {
        .dtype = DEVICE_F32, .src = {x, y}, .dst = {x, y}, .n_src = 2, .n_dst = 2, .n = 37};

    for (int i = 0; i < 37; i++) {
        x[i] = (float)i;
        y[i] = (float)(100 * i);
    }
    (void)fold_all(&f, 2, 4);
    for (int i = 0; i < 37; i++) {
        cr_assert_eq(x[i], (float)(101 * i));
        cr_assert_eq(y[i], (float)(101 * i));
    }
}

/* More than 2^32 elements, in address space of which only the touched pages exist: the threads that
 * have the first, a middle and the last elements must write those and no others. */
Test(kernels, a_fold_beyond_32_bits)
{
    const size_t n = (UINT64_C(1) << 32) + (UINT64_C(1) << 31) + 5, bytes = n * sizeof(uint16_t);
    char *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    char *y = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    const size_t n_vec = n / 8, n_blocks = n_vec / KERNEL_THREADS + 1;
    const size_t vecs[] = {0, (UINT64_C(1) << 32) / 8, n_vec - 1};
    struct device_fold f = {.dtype = DEVICE_BF16, .n_src = 1, .n_dst = 1, .n = n};

    cr_assert_neq(x, MAP_FAILED);
    cr_assert_neq(y, MAP_FAILED);
    f.src[0] = x;
    f.dst[0] = y;
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < 8; i++) {
            put(DEVICE_BF16, x, vecs[k] * 8 + i, (double)(10 * k + i + 1));
        }
    }
    put(DEVICE_BF16, x, n - 1, 99.0);
    for (size_t k = 0; k < 3; k++) {
        kernel_fold(
            place(vecs[k] / KERNEL_THREADS, n_blocks, vecs[k] % KERNEL_THREADS, KERNEL_THREADS), &f,
            DEVICE_BF16, DEVICE_SUM);
        for (size_t i = 0; i < 8; i++) {
            cr_assert_eq(get(DEVICE_BF16, y, vecs[k] * 8 + i), (double)(10 * k + i + 1));
        }
    }
    kernel_fold(place(0, n_blocks, 4, KERNEL_THREADS), &f, DEVICE_BF16, DEVICE_SUM);
    cr_assert_eq(get(DEVICE_BF16, y, n - 1), 99.0, "the fifth single is the last element");
    cr_assert_eq(get(DEVICE_BF16, y, 0), 1.0);
    munmap(x, bytes);
    munmap(y, bytes);
}

/* --- SGD --- */

static void sgd_all(const struct device_sgd *s, size_t n_blocks, size_t n_threads)
{
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t t = 0; t < n_threads; t++) {
            kernel_sgd(place(b, n_blocks, t, n_threads), s);
        }
    }
}

static void try_sgd(bool momentum, bool nesterov, float unscale)
{
    enum {
        N = 20000
    };
    static _Alignas(16) float w[N], v[N], g[N];
    struct device_range ranges[] = {{.offset = 16, .n = 5, .weight_decay = 0.5f},
                                    {.offset = 32, .n = 0, .weight_decay = 9.0f},
                                    {.offset = 32, .n = 9001, .weight_decay = 0.25f},
                                    {.offset = 9041, .n = 4097, .weight_decay = 0.0f},
                                    {.offset = 19999, .n = 0, .weight_decay = 9.0f}};
    struct device_sgd s = {.w = w,
                           .v = momentum ? v : NULL,
                           .g = g,
                           .ranges = ranges,
                           .n_ranges = 5,
                           .lr = 0.5f,
                           .momentum = 0.5f,
                           .unscale = unscale,
                           .nesterov = nesterov};

    for (size_t i = 0; i < N; i++) {
        w[i] = (float)(i % 64);
        v[i] = (float)(i % 32) * 2.0f;
        g[i] = (float)(i % 16) * 4.0f;
    }
    s.n_tiles = device_tile(ranges, 5);
    cr_assert_eq(s.n_tiles, 1 + 3 + 2);
    sgd_all(&s, 4, 8);
    for (size_t i = 0; i < N; i++) {
        float w0 = (float)(i % 64), v0 = (float)(i % 32) * 2.0f,
              d = unscale * (float)(i % 16) * 4.0f;
        bool in = false;
        for (size_t k = 0; k < 5; k++) {
            if (i >= ranges[k].offset && i < ranges[k].offset + ranges[k].n) {
                d += ranges[k].weight_decay * w0;
                in = true;
            }
        }
        float v1 = momentum ? 0.5f * v0 + d : v0;
        d = momentum ? (nesterov ? d + 0.5f * v1 : v1) : d;
        cr_assert_eq(w[i], in ? w0 - 0.5f * d : w0, "w at %zu", i);
        cr_assert_eq(v[i], in ? v1 : v0, "v at %zu", i);
    }
}

Test(kernels, sgd_updates_ranges_only)
{
    for (float unscale = 1.0f; unscale > 0.2f; unscale /= 2) {
        try_sgd(false, false, unscale);
        try_sgd(true, false, unscale);
        try_sgd(true, true, unscale);
    }
}

Test(kernels, sgd_tiles_beyond_32_bits)
{
    const size_t huge = (UINT64_C(1) << 33) + 1;
    struct device_range ranges[] = {{.offset = 0, .n = huge},
                                    {.offset = huge, .n = 0},
                                    {.offset = huge, .n = UINT64_C(1) << 45},
                                    {.offset = huge + (UINT64_C(1) << 45), .n = 1}};
    size_t n_tiles = device_tile(ranges, 4);

    cr_assert_eq(ranges[2].first_tile, huge / KERNEL_SGD_TILE + 1);
    cr_assert_eq(n_tiles, ranges[2].first_tile + (UINT64_C(1) << 45) / KERNEL_SGD_TILE + 1);
    cr_assert_eq(kernel_sgd_find(ranges, 4, 0), 0);
    cr_assert_eq(kernel_sgd_find(ranges, 4, ranges[2].first_tile - 1), 0);
    cr_assert_eq(kernel_sgd_find(ranges, 4, ranges[2].first_tile), 2);
    cr_assert_eq(kernel_sgd_find(ranges, 4, n_tiles - 2), 2);
    cr_assert_eq(kernel_sgd_find(ranges, 4, n_tiles - 1), 3);
}

/* --- store --- */

Test(kernels, store_writes_its_bytes_and_no_others)
{
    for (size_t n = 0; n <= DEVICE_STORE_BYTES; n++) {
        unsigned char at[DEVICE_STORE_BYTES + 2] = {0};
        struct device_store s = {.dst = at + 1, .n = n};
        for (size_t i = 0; i < DEVICE_STORE_BYTES; i++) {
            s.bytes[i] = (unsigned char)(i + 1);
        }
        for (size_t b = 0; b < 6; b++) {
            kernel_store(place(b / 3, 2, b % 3, 3), &s);
        }
        for (size_t i = 0; i < sizeof at; i++) {
            cr_assert_eq(at[i], i >= 1 && i <= n ? i : 0, "byte %zu of %zu", i, n);
        }
    }
}

/* --- votes --- */

static uint32_t vote(const double *loss, const uint32_t *votes, size_t n, uint32_t before,
                     bool keep)
{
    uint32_t out = before;
    struct device_vote v = {.loss = loss, .votes = votes, .n = n, .out = &out, .keep = keep};

    kernel_vote(place(0, 1, 0, 1), &v);
    return out;
}

Test(kernels, any_vote_counts)
{
    const double good[] = {0, -1, 1e300, -DBL_MAX, DBL_MIN},
                 bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    uint32_t votes[5] = {0};

    for (size_t i = 0; i < 5; i++) {
        cr_assert_eq(vote(&good[i], NULL, 0, 7, false), 0);
        cr_assert_eq(vote(&bad[i % 4], NULL, 0, 0, i == 4), 1);
        cr_assert_eq(vote(&good[i], votes, 5, 0, true), 0);
        votes[i] = 1;
        cr_assert_eq(vote(NULL, votes, 5, 0, false), 1);
        cr_assert_eq(vote(&good[i], votes, i, 0, true), 0, "the others' only");
        votes[i] = 0;
    }
    cr_assert_eq(vote(NULL, votes, 5, 1, true), 1);
    cr_assert_eq(vote(NULL, votes, 5, 1, false), 0);
}

Test(kernels, an_update_is_skipped_if_voted_so)
{
    _Alignas(16) float w[4] = {1, 2, 3, 4}, g[4] = {1, 1, 1, 1};
    struct device_range range = {.n = 4};
    uint32_t skip = 1;
    struct device_sgd s = {.w = w,
                           .g = g,
                           .ranges = &range,
                           .n_ranges = 1,
                           .n_tiles = device_tile(&range, 1),
                           .lr = 1,
                           .unscale = 1,
                           .skip = &skip};

    kernel_sgd(place(0, 1, 0, 1), &s);
    cr_assert_eq(w[3], 4);
    skip = 0;
    kernel_sgd(place(0, 1, 0, 1), &s);
    cr_assert_eq(w[3], 3);
}

/* --- finite? --- */

Test(kernels, finite_finds_every_element)
{
    static _Alignas(16) float x[80];
    const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};

    for (size_t first = 0; first < 4; first++) {
        for (size_t n = 0; n < 70; n++) {
            uint32_t flag = 0;
            struct device_finite f = {.x = x + first, .n = n, .flag = &flag};
            for (size_t i = 0; i < 80; i++) {
                x[i] = i >= first && i < first + n ? (i % 2 ? FLT_MAX : -0.0f) : NAN;
            }
            for (size_t b = 0; b < 6; b++) {
                kernel_finite(place(b / 3, 2, b % 3, 3), &f);
            }
            cr_assert_eq(flag, 0, "%zu from %zu", n, first);
            for (size_t i = first; i < first + n; i++) {
                float good = x[i];
                x[i] = bad[i % 4];
                flag = 0;
                for (size_t b = 0; b < 6; b++) {
                    kernel_finite(place(b / 3, 2, b % 3, 3), &f);
                }
                cr_assert_eq(flag, 1, "element %zu of %zu from %zu", i, n, first);
                x[i] = good;
            }
        }
    }
}

/* --- conversions --- */

Test(kernels, convert_does_every_element_once)
{
    static float x[1000], back[1001];
    static uint16_t half[1001];
    const enum device_dtype types[] = {DEVICE_BF16, DEVICE_F16};

    for (int k = 0; k < 2; k++) {
        struct device_convert down = {.src = x, .dst = half, .n = 1000, .half = types[k]};
        struct device_convert up = {
            .src = half, .dst = back, .n = 1000, .half = types[k], .widen = true};
        for (size_t i = 0; i < 1000; i++) {
            x[i] = (float)i + 0.001f;
        }
        half[1000] = 7;
        back[1000] = 7;
        for (size_t b = 0; b < 15; b++) {
            kernel_convert(place(b / 3, 5, b % 3, 3), &down);
        }
        for (size_t b = 0; b < 15; b++) {
            kernel_convert(place(b / 3, 5, b % 3, 3), &up);
        }
        for (size_t i = 0; i < 1000; i++) {
            uint16_t want = k == 0 ? halves_bf16_of_f32(x[i]) : halves_f16_of_f32(x[i]);
            cr_assert_eq(half[i], want);
            cr_assert_eq(back[i], k == 0 ? halves_f32_of_bf16(want) : halves_f32_of_f16(want));
        }
        cr_assert(half[1000] == 7 && back[1000] == 7);
    }
}

/* --- 16-bit floats --- */

Test(kernels, halves_survive_a_round_trip)
{
    for (uint32_t x = 0; x < 65536; x++) {
        float b = halves_f32_of_bf16((uint16_t)x), h = halves_f32_of_f16((uint16_t)x);
        cr_assert(isnan(b) ? isnan(halves_f32_of_bf16(halves_bf16_of_f32(b)))
                           : halves_bf16_of_f32(b) == x);
        cr_assert(isnan(h) ? isnan(halves_f32_of_f16(halves_f16_of_f32(h)))
                           : halves_f16_of_f32(h) == x);
    }
    cr_assert_eq(halves_bf16_of_f32(1.00390625f), 0x3f80, "a tie goes to even");
    cr_assert_eq(halves_f16_of_f32(65520.0f), 0x7c00, "half way to infinity");
}
