#ifndef NN_VEC_H
#define NN_VEC_H

#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

/* Whole vectors are known at compile time; with a mask at hand a test at run time would cost more.
 */
#ifdef __AVX512F__
#define VEC_IS_WHOLE(lanes) (__builtin_constant_p(lanes) && (lanes) == 16)
#else
#define VEC_IS_WHOLE(lanes) ((lanes) == 16)
#endif

/*
 * Vectors of 16 floats by the compiler's vector extension: one register with AVX-512, two with
 * AVX2, four elsewhere. Partial vectors hold zeros in the lanes past `lanes`.
 */
typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16v __attribute__((vector_size(64)));
typedef uint32_t u16v __attribute__((vector_size(64)));
typedef uint16_t h16v __attribute__((vector_size(32)));
typedef uint8_t b16v __attribute__((vector_size(16)));

#define VEC_INLINE static inline __attribute__((always_inline))

VEC_INLINE v16 vec_set(float f)
{
    return (v16){f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f};
}

VEC_INLINE v16 vec_load_f32(const float *p, int lanes)
{
    v16 v;

    if (VEC_IS_WHOLE(lanes)) {
        memcpy(&v, p, sizeof v);
        return v;
    }
#ifdef __AVX512F__
    return (v16)_mm512_maskz_loadu_ps((__mmask16)((1u << lanes) - 1), p);
#else
    v = vec_set(0.0f);
    memcpy(&v, p, (size_t)lanes * sizeof *p);
    return v;
#endif
}

VEC_INLINE void vec_store_f32(float *p, v16 v, int lanes)
{
    if (VEC_IS_WHOLE(lanes)) {
        memcpy(p, &v, sizeof v);
        return;
    }
#ifdef __AVX512F__
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << lanes) - 1), (__m512)v);
#else
    memcpy(p, &v, (size_t)lanes * sizeof *p);
#endif
}

VEC_INLINE v16 vec_load_bf16(const uint16_t *p, int lanes)
{
#ifdef __AVX512F__ /* GCC 12 makes two half conversions of one by vectors */
    __m256i h = VEC_IS_WHOLE(lanes) ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                                    : _mm256_maskz_loadu_epi16((__mmask16)((1u << lanes) - 1), p);
    return (v16)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
#else
    h16v h = {0};

    memcpy(&h, p, (VEC_IS_WHOLE(lanes) ? 16 : (size_t)lanes) * sizeof *p);
    return (v16)(__builtin_convertvector(h, u16v) << 16);
#endif
}

/* Rounds to nearest even. */
VEC_INLINE void vec_store_bf16(uint16_t *p, v16 v, int lanes)
{
#ifdef __AVX512BF16__
    __m256bh packed = _mm512_cvtneps_pbh((__m512)v);
    h16v h;
    memcpy(&h, &packed, sizeof h);
#else
    u16v bits = (u16v)v;
    h16v h = __builtin_convertvector((bits + 0x7fff + ((bits >> 16) & 1)) >> 16, h16v);
#endif
    if (VEC_IS_WHOLE(lanes)) {
        memcpy(p, &h, sizeof h);
    } else {
#ifdef __AVX512F__
        _mm256_mask_storeu_epi16(p, (__mmask16)((1u << lanes) - 1), (__m256i)h);
#else
        memcpy(p, &h, (size_t)lanes * sizeof *p);
#endif
    }
}

#ifdef __AVX512BF16__
/* Two vectors as bf16 pairs: the first in the low halves. */
VEC_INLINE void vec_store_pairs(uint32_t *p, v16 first, v16 second)
{
    static const uint16_t order[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                       21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                       11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512bh both = _mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
    __m512i pairs = _mm512_permutexvar_epi16(_mm512_loadu_si512(order), (__m512i)both);

    _mm512_storeu_si512(p, pairs);
}
#endif

/* a where m > 0, else 0; a NaN in m gives 0. */
VEC_INLINE v16 vec_where_positive(v16 m, v16 a)
{
#ifdef __AVX512F__
    __mmask16 k = _mm512_cmp_ps_mask((__m512)m, _mm512_setzero_ps(), _CMP_GT_OQ);
    return (v16)_mm512_maskz_mov_ps(k, (__m512)a);
#else
    return (v16)((i16v)a & (m > vec_set(0.0f)));
#endif
}

/* max(0, a), which lets a NaN pass so that it shows. */
VEC_INLINE v16 vec_relu(v16 a)
{
#ifdef __AVX512F__
    return (v16)_mm512_max_ps(_mm512_setzero_ps(), (__m512)a);
#else
    return (v16)((i16v)a & ~(a < vec_set(0.0f)));
#endif
}

/* Update a running maximum: where x > best (or x is NaN) take x and its number. */
VEC_INLINE void vec_take_larger(v16 x, int number, v16 *best, i16v *which)
{
#ifdef __AVX512F__
    __mmask16 k = _mm512_cmp_ps_mask((__m512)x, (__m512)*best, _CMP_GT_OQ) |
                  _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    *best = (v16)_mm512_mask_mov_ps((__m512)*best, k, (__m512)x);
    *which = (i16v)_mm512_mask_mov_epi32((__m512i)*which, k, _mm512_set1_epi32(number));
#else
    i16v k = (x > *best) | (x != x);
    *best = (v16)(((i16v)x & k) | ((i16v)*best & ~k));
    *which = ((i16v)((u16v)vec_set(0.0f) + (uint32_t)number) & k) | (*which & ~k);
#endif
}

/* a where which == number, else 0. */
VEC_INLINE v16 vec_where_number(i16v which, int number, v16 a)
{
#ifdef __AVX512F__
    __mmask16 k = _mm512_cmpeq_epi32_mask((__m512i)which, _mm512_set1_epi32(number));
    return (v16)_mm512_maskz_mov_ps(k, (__m512)a);
#else
    return (v16)((i16v)a & (which == (i16v)((u16v)vec_set(0.0f) + (uint32_t)number)));
#endif
}

VEC_INLINE i16v vec_load_numbers(const uint8_t *p, int lanes)
{
#ifdef __AVX512F__
    __m128i b = VEC_IS_WHOLE(lanes) ? _mm_loadu_si128((const __m128i *)(const void *)p)
                                    : _mm_maskz_loadu_epi8((__mmask16)((1u << lanes) - 1), p);
    return (i16v)_mm512_cvtepu8_epi32(b);
#else
    b16v b = {0};

    memcpy(&b, p, VEC_IS_WHOLE(lanes) ? 16 : (size_t)lanes);
    return __builtin_convertvector(b, i16v);
#endif
}

VEC_INLINE void vec_store_numbers(uint8_t *p, i16v v, int lanes)
{
#ifdef __AVX512F__
    __m128i b = _mm512_cvtepi32_epi8((__m512i)v);

    if (VEC_IS_WHOLE(lanes)) {
        _mm_storeu_si128((__m128i *)(void *)p, b);
    } else {
        _mm_mask_storeu_epi8(p, (__mmask16)((1u << lanes) - 1), b);
    }
#else
    b16v b = __builtin_convertvector(v, b16v);

    memcpy(p, &b, VEC_IS_WHOLE(lanes) ? 16 : (size_t)lanes);
#endif
}

#endif
