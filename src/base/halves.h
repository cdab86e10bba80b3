#ifndef BASE_HALVES_H
#define BASE_HALVES_H

#include <stdint.h>
#include <string.h>

/* How the functions are declared; GPU code declares them in another way. */
#ifndef HALVES_FN
#define HALVES_FN static inline
#endif

/*
 * 16-bit floats without a branch in the common case, so that loops over them vectorise. Rounding is
 * to nearest even, NaNs stay NaNs, values out of range become infinite.
 */
HALVES_FN uint32_t halves_bits(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

HALVES_FN float halves_float(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof x);
    return x;
}

HALVES_FN float halves_f32_of_bf16(uint16_t x)
{
    return halves_float((uint32_t)x << 16);
}

HALVES_FN uint16_t halves_bf16_of_f32(float x)
{
    uint32_t u = halves_bits(x);
    uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;

    return (uint16_t)(x != x ? (u >> 16) | 0x40 : rounded);
}

HALVES_FN float halves_f32_of_f16(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, body = x & 0x7fff;
    float normal = halves_float(sign | ((body << 13) + (112u << 23)));
    float tiny = (float)body * 0x1p-24f; /* subnormal: a multiple of 2^-24 */
    float small = halves_float(sign | halves_bits(tiny));
    float special = halves_float(sign | 0x7f800000 | ((body & 0x3ff) << 13));

    return body >= 0x7c00 ? special : body < 0x400 ? small : normal;
}

HALVES_FN uint16_t halves_f16_of_f32(float x)
{
    uint32_t u = halves_bits(x), sign = (u >> 16) & 0x8000, mag = u & 0x7fffffff;
    uint32_t normal = (mag - (112u << 23) + 0xfff + ((mag >> 13) & 1)) >> 13;
    /* Adding 1/2 puts the last bit of a subnormal half at the last bit of the sum. */
    uint32_t small = halves_bits(halves_float(mag) + 0.5f) - 0x3f000000;
    uint32_t body = mag < (113u << 23) ? small : normal;

    body = body > 0x7c00 ? 0x7c00 : body;
    body = mag > 0x7f800000 ? 0x7e00 : mag == 0x7f800000 ? 0x7c00 : body;
    return (uint16_t)(sign | body);
}

#endif
