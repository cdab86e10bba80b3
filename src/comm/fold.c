#include "comm/fold.h"

#include <math.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/halves.h"

/*
 * Each kernel is written once, as an inline body, and compiled for every instruction set that is
 * worth it; fold_select picks one at run time.
 */
#define INLINE static inline __attribute__((always_inline))

enum {
    BLOCK = 512, /* elements folded at a time in a buffer that stays in the nearest cache */
    LANES = 16,
    STEP = 4 * LANES
};

typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));

/* --- Writing around the caches --- */

/* Whole lines go straight to memory, without being read first; until stream_end nobody may look. */
static void stream_copy(char *dst, const char *src, size_t n)
{
#ifdef __SSE2__
    size_t head = (64 - ((uintptr_t)dst & 63)) & 63, i;

    head = head < n ? head : n;
    memcpy(dst, src, head);
    for (i = head; i + 64 <= n; i += 64) {
        for (size_t k = 0; k < 64; k += 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(src + i + k));
            _mm_stream_si128((__m128i *)(void *)(dst + i + k), v);
        }
    }
    memcpy(dst + i, src + i, n - i);
#else
    memcpy(dst, src, n);
#endif
}

static void stream_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

void fold_copy(const struct fold_args *a, size_t elem_bytes)
{
    const char *src = (const char *)(a->src[0] + a->first * elem_bytes);
    size_t bytes = a->n * elem_bytes;

    for (int m = 0; m < a->n_dst; m++) {
        char *dst = (char *)(a->dst[m] + a->first * elem_bytes);
        if (dst == src) {
            continue;
        }
        if (a->stream) {
            stream_copy(dst, src, bytes);
        } else {
            memcpy(dst, src, bytes);
        }
    }
    if (a->stream) {
        stream_end();
    }
}

/* --- Sums of floats, in registers --- */

INLINE const float *f32(uintptr_t base, size_t first)
{
    return (const float *)(base + first * sizeof(float));
}

INLINE float *f32_out(uintptr_t base, size_t first)
{
    return (float *)(base + first * sizeof(float));
}

/* Two buffers into two: the inner loop of an allreduce between two ranks. */
INLINE size_t sum_2_2(const struct fold_args *a)
{
    const float *s = f32(a->src[0], a->first), *t = f32(a->src[1], a->first);
    float *d = f32_out(a->dst[0], a->first), *e = f32_out(a->dst[1], a->first);
    size_t i = 0;

    for (; i + STEP <= a->n; i += STEP) {
        vec v0 = *(const vec *)(s + i) + *(const vec *)(t + i);
        vec v1 = *(const vec *)(s + i + LANES) + *(const vec *)(t + i + LANES);
        vec v2 = *(const vec *)(s + i + 2 * LANES) + *(const vec *)(t + i + 2 * LANES);
        vec v3 = *(const vec *)(s + i + 3 * LANES) + *(const vec *)(t + i + 3 * LANES);
        *(vec *)(d + i) = v0;
        *(vec *)(d + i + LANES) = v1;
        *(vec *)(d + i + 2 * LANES) = v2;
        *(vec *)(d + i + 3 * LANES) = v3;
        *(vec *)(e + i) = v0;
        *(vec *)(e + i + LANES) = v1;
        *(vec *)(e + i + 2 * LANES) = v2;
        *(vec *)(e + i + 3 * LANES) = v3;
    }
    return i;
}

INLINE size_t sum_any(const struct fold_args *a)
{
    size_t i = 0;

    for (; i + STEP <= a->n; i += STEP) {
        const float *s = f32(a->src[0], a->first + i);
        vec v0 = *(const vec *)s, v1 = *(const vec *)(s + LANES);
        vec v2 = *(const vec *)(s + 2 * LANES), v3 = *(const vec *)(s + 3 * LANES);
        for (int k = 1; k < a->n_src; k++) {
            s = f32(a->src[k], a->first + i);
            v0 += *(const vec *)s;
            v1 += *(const vec *)(s + LANES);
            v2 += *(const vec *)(s + 2 * LANES);
            v3 += *(const vec *)(s + 3 * LANES);
        }
        for (int m = 0; m < a->n_dst; m++) {
            float *d = f32_out(a->dst[m], a->first + i);
            *(vec *)d = v0;
            *(vec *)(d + LANES) = v1;
            *(vec *)(d + 2 * LANES) = v2;
            *(vec *)(d + 3 * LANES) = v3;
        }
    }
    return i;
}

/* Sums block by block in the nearest cache, from where they are written around the others. */
INLINE void sum_stream(const struct fold_args *a)
{
    float sum[BLOCK];

    for (size_t i = 0; i < a->n; i += BLOCK) {
        size_t n = a->n - i < BLOCK ? a->n - i : BLOCK;
        for (size_t e = 0; e < n; e++) {
            sum[e] = f32(a->src[0], a->first + i)[e];
        }
        for (int k = 1; k < a->n_src; k++) {
            const float *s = f32(a->src[k], a->first + i);
            for (size_t e = 0; e < n; e++) {
                sum[e] += s[e];
            }
        }
        for (int m = 0; m < a->n_dst; m++) {
            stream_copy((char *)f32_out(a->dst[m], a->first + i), (const char *)sum,
                        n * sizeof(float));
        }
    }
    stream_end();
}

INLINE void sum_cached(const struct fold_args *a)
{
    size_t i = a->n_src == 2 && a->n_dst == 2 ? sum_2_2(a) : sum_any(a);

    for (; i < a->n; i++) {
        float v = *f32(a->src[0], a->first + i);
        for (int k = 1; k < a->n_src; k++) {
            v += *f32(a->src[k], a->first + i);
        }
        for (int m = 0; m < a->n_dst; m++) {
            *f32_out(a->dst[m], a->first + i) = v;
        }
    }
}

INLINE void sum_f32(const struct fold_args *a)
{
    if (a->stream) {
        sum_stream(a);
        return;
    }
    sum_cached(a);
}

/* --- Everything else, block by block through a buffer of fp32 or int32 --- */

INLINE float load_f32(float x)
{
    return x;
}

INLINE float store_f32(float x)
{
    return x;
}

INLINE uint32_t load_i32(int32_t x)
{
    return (uint32_t)x;
}

INLINE int32_t store_i32(uint32_t x)
{
    return (int32_t)x;
}

#define OP_SUM(a, b) ((a) + (b))
#define OP_MAX(a, b) fmaxf(a, b)
#define OP_MIN(a, b) fminf(a, b)
#define OP_IMAX(a, b) ((int32_t)(a) > (int32_t)(b) ? (a) : (b))
#define OP_IMIN(a, b) ((int32_t)(a) < (int32_t)(b) ? (a) : (b))
#define DIV_F(x, p) ((x) / (float)(p))
#define DIV_I(x, p) ((uint32_t)((int32_t)(x) / (p)))

/* MEM: type in memory, ACC: type of the accumulator. */
#define BODY(name, MEM, ACC, LOAD, STORE, OP, DIV)                                                 \
    INLINE void name(const struct fold_args *a)                                                    \
    {                                                                                              \
        ACC acc[BLOCK];                                                                            \
        for (size_t at = 0; at < a->n; at += BLOCK) {                                              \
            size_t n = a->n - at < BLOCK ? a->n - at : BLOCK;                                      \
            size_t skip = (a->first + at) * sizeof(MEM);                                           \
            for (int k = 0; k < a->n_src; k++) {                                                   \
                const MEM *s = (const MEM *)(a->src[k] + skip);                                    \
                for (size_t i = 0; k == 0 && i < n; i++) {                                         \
                    acc[i] = LOAD(s[i]);                                                           \
                }                                                                                  \
                for (size_t i = 0; k != 0 && i < n; i++) {                                         \
                    acc[i] = OP(acc[i], LOAD(s[i]));                                               \
                }                                                                                  \
            }                                                                                      \
            for (size_t i = 0; a->divisor != 0 && i < n; i++) {                                    \
                acc[i] = DIV(acc[i], a->divisor);                                                  \
            }                                                                                      \
            for (int m = 0; m < a->n_dst; m++) {                                                   \
                MEM *d = (MEM *)(a->dst[m] + skip);                                                \
                for (size_t i = 0; i < n; i++) {                                                   \
                    d[i] = STORE(acc[i]);                                                          \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define BODIES(X)                                                                                  \
    X(mean_f32, float, float, load_f32, store_f32, OP_SUM, DIV_F)                                  \
    X(max_f32, float, float, load_f32, store_f32, OP_MAX, DIV_F)                                   \
    X(min_f32, float, float, load_f32, store_f32, OP_MIN, DIV_F)                                   \
    X(sum_bf16, uint16_t, float, halves_f32_of_bf16, halves_bf16_of_f32, OP_SUM, DIV_F)            \
    X(max_bf16, uint16_t, float, halves_f32_of_bf16, halves_bf16_of_f32, OP_MAX, DIV_F)            \
    X(min_bf16, uint16_t, float, halves_f32_of_bf16, halves_bf16_of_f32, OP_MIN, DIV_F)            \
    X(sum_f16, uint16_t, float, halves_f32_of_f16, halves_f16_of_f32, OP_SUM, DIV_F)               \
    X(max_f16, uint16_t, float, halves_f32_of_f16, halves_f16_of_f32, OP_MAX, DIV_F)               \
    X(min_f16, uint16_t, float, halves_f32_of_f16, halves_f16_of_f32, OP_MIN, DIV_F)               \
    X(sum_i32, int32_t, uint32_t, load_i32, store_i32, OP_SUM, DIV_I)                              \
    X(max_i32, int32_t, uint32_t, load_i32, store_i32, OP_IMAX, DIV_I)                             \
    X(min_i32, int32_t, uint32_t, load_i32, store_i32, OP_IMIN, DIV_I)

BODIES(BODY)

/* --- One copy of each body for every instruction set --- */

#define PLAIN(name, ...)                                                                           \
    static void name##_plain(const struct fold_args *a)                                            \
    {                                                                                              \
        name(a);                                                                                   \
    }
#define FOR_AVX2(name, ...)                                                                        \
    static __attribute__((target("avx2"))) void name##_avx2(const struct fold_args *a)             \
    {                                                                                              \
        name(a);                                                                                   \
    }
#define FOR_AVX512(name, ...)                                                                      \
    static __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) void name##_avx512(       \
        const struct fold_args *a)                                                                 \
    {                                                                                              \
        name(a);                                                                                   \
    }

PLAIN(sum_f32, )
BODIES(PLAIN)

#define TABLE(suffix)                                                                              \
    {                                                                                              \
        [DTYPE_F32] = {sum_f32_##suffix, mean_f32_##suffix, max_f32_##suffix, min_f32_##suffix},   \
        [DTYPE_BF16] = {sum_bf16_##suffix, sum_bf16_##suffix, max_bf16_##suffix,                   \
                        min_bf16_##suffix},                                                        \
        [DTYPE_F16] = {sum_f16_##suffix, sum_f16_##suffix, max_f16_##suffix, min_f16_##suffix},    \
        [DTYPE_I32] = {sum_i32_##suffix, sum_i32_##suffix, max_i32_##suffix, min_i32_##suffix},    \
    }

static fold_fn *const plain[][REDOP_MIN + 1] = TABLE(plain);

#ifdef __x86_64__
FOR_AVX2(sum_f32, )
BODIES(FOR_AVX2)
FOR_AVX512(sum_f32, )
BODIES(FOR_AVX512)

static fold_fn *const avx2[][REDOP_MIN + 1] = TABLE(avx2);
static fold_fn *const avx512[][REDOP_MIN + 1] = TABLE(avx512);
#endif

fold_fn *fold_select(enum dtype d, enum redop r)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        return avx512[d][r];
    }
    if (__builtin_cpu_supports("avx2")) {
        return avx2[d][r];
    }
#endif
    return plain[d][r];
}
