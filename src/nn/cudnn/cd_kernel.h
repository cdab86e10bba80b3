#ifndef NN_CUDNN_CD_KERNEL_H
#define NN_CUDNN_CD_KERNEL_H

#include <math.h>
#include <stdbool.h>

#include "nn/cudnn/cd_kernel_norm.h"
#include "nn/cudnn/cd_kernel_value.h"
#include "nn/cudnn/cd_kernel_window.h"

/*
 * The layers that are bound by memory, each written as the part of one thread (device/kernels/
 * kernel.h). Values are channels-last, [N,H,W,C]. An output is written by one thread alone, in an
 * order of its own, so that results do not depend on the grid.
 */

/* --- elements --- */

/* out[N,H,W,C] = x[N,C,H,W] in fp32 */
KERNEL void cd_input(const struct cd_args *a, size_t i)
{
    struct cd_at at = cd_split(i, &a->out_shape);
    const struct cd_shape *s = &a->out_shape;

    cd_put(a->type, a->out, i,
           ((const float *)a->x)[((at.n * s->c + at.c) * s->h + at.h) * s->w + at.w]);
}

/* out = the floats x in 16 bits; or the other way round. */
KERNEL void cd_narrow(const struct cd_args *a, size_t i)
{
    cd_put(a->type, a->out, i, ((const float *)a->x)[i]);
}

KERNEL void cd_widen(const struct cd_args *a, size_t i)
{
    ((float *)a->out)[i] = cd_get(a->type, a->x, i);
}

/* out = x + x2 + bias[channel], and 0 if that is below and relu; x2 and bias may be NULL. A NaN
 * stays one. */
KERNEL void cd_sum(const struct cd_args *a, size_t i)
{
    float y = cd_get(a->type, a->x, i);

    y += a->x2 != NULL ? cd_get(a->type, a->x2, i) : 0.0f;
    y += a->bias != NULL ? a->bias[i % a->out_shape.c] : 0.0f;
    cd_put(a->type, a->out, i, a->relu && y < 0.0f ? 0.0f : y);
}

KERNEL void cd_gradient(const struct cd_args *a, size_t i)
{
    cd_put(a->type, a->out, i, cd_masked(a, i));
}

/* out = scale · x where the mask keeps it; forward decides and writes the mask. */
KERNEL void cd_dropout(const struct cd_args *a, size_t i)
{
    uint64_t stream = a->stream | (a->now->step & ((UINT64_C(1) << 38) - 1));
    uint32_t word[4];

    philox_block(a->seed, a->purpose, stream, i / 4, word);
    a->kept[i] = word[i % 4] < a->keep_below;
    cd_put(a->type, a->out, i, a->kept[i] ? a->scale * cd_get(a->type, a->x, i) : 0.0f);
}

KERNEL void cd_dropout_gradient(const struct cd_args *a, size_t i)
{
    cd_put(a->type, a->out, i, a->kept[i] ? a->scale * cd_get(a->type, a->dy, i) : 0.0f);
}

/* --- channels --- */

/* Element i of the part [N,H,W,C] and the channels from `first` of the whole: part to whole, or
 * back.
 */
KERNEL_HOST size_t cd_part_of(const struct cd_args *a, size_t i)
{
    return i / a->in_shape.c * a->out_shape.c + a->first + i % a->in_shape.c;
}

KERNEL void cd_concat(const struct cd_args *a, size_t i)
{
    cd_put(a->type, a->out, cd_part_of(a, i), cd_get(a->type, a->x, i));
}

KERNEL void cd_concat_gradient(const struct cd_args *a, size_t i)
{
    cd_put(a->type, a->out, i, cd_get(a->type, a->dy, cd_part_of(a, i)));
}

/* Every stride-th pixel, and zero channels behind. */
KERNEL void cd_pad(const struct cd_args *a, size_t i)
{
    struct cd_at at = cd_split(i, &a->out_shape);
    bool filled = at.c < a->in_shape.c;

    at.h *= a->window.stride;
    at.w *= a->window.stride;
    cd_put(a->type, a->out, i, filled ? cd_get(a->type, a->x, cd_join(at, &a->in_shape)) : 0.0f);
}

KERNEL void cd_pad_gradient(const struct cd_args *a, size_t i)
{
    struct cd_at at = cd_split(i, &a->in_shape);
    bool taken = at.h % a->window.stride == 0 && at.w % a->window.stride == 0;

    at.h /= a->window.stride;
    at.w /= a->window.stride;
    taken = taken && at.h < a->out_shape.h && at.w < a->out_shape.w;
    cd_put(a->type, a->out, i, taken ? cd_get(a->type, a->dy, cd_join(at, &a->out_shape)) : 0.0f);
}

/* --- softmax cross-entropy, a sample --- */

KERNEL void cd_loss(const struct cd_args *a, size_t n)
{
    const size_t classes = a->out_shape.c, row = n * classes, label = (size_t)a->labels[n];
    float most = -INFINITY, at_label = cd_get(a->type, a->x, row + label), *p = a->probabilities;
    double sum = 0.0;
    uint32_t better = 0;

    for (size_t c = 0; c < classes; c++) {
        float z = cd_get(a->type, a->x, row + c);
        most = z > most || z != z ? z : most;
        better += z > at_label || (z == at_label && c < label);
    }
    for (size_t c = 0; c < classes; c++) {
        p[row + c] = expf(cd_get(a->type, a->x, row + c) - most);
        sum += (double)p[row + c];
    }
    for (size_t c = 0; c < classes; c++) {
        p[row + c] = (float)((double)p[row + c] / sum);
    }
    a->losses[n].loss = (float)(log(sum) - ((double)at_label - (double)most));
    a->losses[n].better = at_label == at_label ? better : UINT32_MAX;
}

/* One item: all samples, in their order, so that the sum is always the same. */
KERNEL void cd_loss_total(const struct cd_args *a, size_t i)
{
    double sum = 0.0;
    size_t top1 = 0, top5 = 0;

    (void)i;
    for (size_t n = 0; n < a->n_samples; n++) {
        sum += (double)a->losses[n].loss;
        top1 += a->losses[n].better < 1;
        top5 += a->losses[n].better < 5;
    }
    *a->loss_sum = sum;
    *a->top1 = top1;
    *a->top5 = top5;
}

/* dx[i] = scale (p - [c is the label]) */
KERNEL void cd_loss_gradient(const struct cd_args *a, size_t i)
{
    const size_t classes = a->out_shape.c;
    bool is_label = i % classes == (size_t)a->labels[i / classes];

    cd_put(a->type, a->out, i, a->now->scale * (a->probabilities[i] - (is_label ? 1.0f : 0.0f)));
}

#endif
