#ifndef NN_CUDNN_CD_KERNEL_VALUE_H
#define NN_CUDNN_CD_KERNEL_VALUE_H

#include <stdbool.h>

#include "device/kernels/kernel.h"
#include "nn/cudnn/cd_args.h"

/* Elements of values, which are fp32, bf16 or fp16 and channels-last, [N,H,W,C]. */

KERNEL float cd_get(enum cd_type t, const void *p, size_t i)
{
    return t == CD_F32    ? ((const float *)p)[i]
           : t == CD_BF16 ? halves_f32_of_bf16(((const uint16_t *)p)[i])
                          : halves_f32_of_f16(((const uint16_t *)p)[i]);
}

KERNEL void cd_put(enum cd_type t, void *p, size_t i, float x)
{
    if (t == CD_F32) {
        ((float *)p)[i] = x;
    } else {
        ((uint16_t *)p)[i] = t == CD_BF16 ? halves_bf16_of_f32(x) : halves_f16_of_f32(x);
    }
}

/* Element i of [N,H,W,C] as coordinates. */
struct cd_at {
    size_t n, h, w, c;
};

KERNEL_HOST struct cd_at cd_split(size_t i, const struct cd_shape *s)
{
    struct cd_at at;

    at.c = i % s->c;
    i /= s->c;
    at.w = i % s->w;
    i /= s->w;
    at.h = i % s->h;
    at.n = i / s->h;
    return at;
}

KERNEL_HOST size_t cd_join(struct cd_at at, const struct cd_shape *s)
{
    return ((at.n * s->h + at.h) * s->w + at.w) * s->c + at.c;
}

/* The gradient of the value y: dy + dy2 where y > 0; dy2 and y may be NULL. */
KERNEL float cd_masked(const struct cd_args *a, size_t i)
{
    float g = cd_get(a->type, a->dy, i);

    g += a->dy2 != NULL ? cd_get(a->type, a->dy2, i) : 0.0f;
    return a->y == NULL || cd_get(a->type, a->y, i) > 0.0f ? g : 0.0f;
}

#endif
