#ifndef NN_CUDNN_CD_KERNEL_H
#define NN_CUDNN_CD_KERNEL_H

#include <math.h>
#include <stdbool.h>

#include "device/kernels/kernel.h"
#include "nn/cudnn/cd_args.h"

/*
 * The layers that are bound by memory, each written as the part of one thread (device/kernels/
 * kernel.h). Values are channels-last, [N,H,W,C]. An output is written by one thread alone, in an
 * order of its own, so that results do not depend on the grid.
 */

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

/* The gradient of the value y: dy + dy2 where y > 0; dy2 and y may be NULL. */
KERNEL float cd_masked(const struct cd_args *a, size_t i)
{
    float g = cd_get(a->type, a->dy, i);

    g += a->dy2 != NULL ? cd_get(a->type, a->dy2, i) : 0.0f;
    return a->y == NULL || cd_get(a->type, a->y, i) > 0.0f ? g : 0.0f;
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

/* --- windows --- */

/* Output coordinate `o` reads inputs [from, to); `padded` of them with the padding. */
struct cd_span {
    size_t from, to, padded, skipped; /* skipped: elements of the window before `from` */
};

KERNEL_HOST struct cd_span cd_span_of(size_t o, size_t n_in, size_t kernel, size_t stride,
                                      size_t pad)
{
    size_t begin = o * stride, end = begin + kernel; /* in the padded input */
    struct cd_span s;

    s.from = begin > pad ? begin - pad : 0;
    s.skipped = begin > pad ? 0 : pad - begin;
    s.to = end > pad ? end - pad : 0;
    s.to = s.to < n_in ? s.to : n_in;
    s.padded = (end < n_in + 2 * pad ? end : n_in + 2 * pad) - begin;
    return s;
}

/* Output coordinates [from, to) read input coordinate `i`. */
KERNEL_HOST struct cd_span cd_readers(size_t i, size_t n_out, size_t kernel, size_t stride,
                                      size_t pad)
{
    struct cd_span s = {0, 0, 0, 0};

    s.from = i + pad >= kernel ? (i + pad - kernel) / stride + 1 : 0;
    s.to = (i + pad) / stride + 1;
    s.to = s.to < n_out ? s.to : n_out;
    return s;
}

/* The same in both directions of an image. */
struct cd_spans {
    struct cd_span h, w;
};

KERNEL_HOST struct cd_spans cd_reads(const struct cd_args *a, struct cd_at out)
{
    const struct cd_window *p = &a->window;
    struct cd_spans s;

    s.h = cd_span_of(out.h, a->in_shape.h, p->kernel_h, p->stride, p->pad);
    s.w = cd_span_of(out.w, a->in_shape.w, p->kernel_w, p->stride, p->pad);
    return s;
}

KERNEL_HOST struct cd_spans cd_read_by(const struct cd_args *a, struct cd_at in)
{
    const struct cd_window *p = &a->window;
    struct cd_spans s;

    s.h = cd_readers(in.h, a->out_shape.h, p->kernel_h, p->stride, p->pad);
    s.w = cd_readers(in.w, a->out_shape.w, p->kernel_w, p->stride, p->pad);
    return s;
}

/* The largest, and which element of the window it is, for backward; the first of equals. */
KERNEL void cd_max_pool(const struct cd_args *a, size_t i)
{
    struct cd_at in = cd_split(i, &a->out_shape);
    struct cd_spans s = cd_reads(a, in);
    float best = -INFINITY;
    size_t which = 0;

    for (in.h = s.h.from; in.h < s.h.to; in.h++) {
        for (in.w = s.w.from; in.w < s.w.to; in.w++) {
            float x = cd_get(a->type, a->x, cd_join(in, &a->in_shape));
            if (x > best || x != x) {
                best = x;
                which = (in.h - s.h.from + s.h.skipped) * a->window.kernel_w + in.w - s.w.from +
                        s.w.skipped;
            }
        }
    }
    a->kept[i] = (uint8_t)which;
    cd_put(a->type, a->out, i, best);
}

KERNEL void cd_max_pool_gradient(const struct cd_args *a, size_t i)
{
    const struct cd_window *p = &a->window;
    struct cd_at at = cd_split(i, &a->in_shape), o = at;
    struct cd_spans s = cd_read_by(a, at);
    float sum = 0.0f;

    for (o.h = s.h.from; o.h < s.h.to; o.h++) {
        for (o.w = s.w.from; o.w < s.w.to; o.w++) {
            size_t j = cd_join(o, &a->out_shape);
            size_t which =
                (at.h + p->pad - o.h * p->stride) * p->kernel_w + at.w + p->pad - o.w * p->stride;
            sum += a->kept[j] == which ? cd_get(a->type, a->dy, j) : 0.0f;
        }
    }
    cd_put(a->type, a->out, i, sum);
}

KERNEL_HOST size_t cd_avg_count(const struct cd_window *p, struct cd_spans s)
{
    return p->count_padding ? s.h.padded * s.w.padded : (s.h.to - s.h.from) * (s.w.to - s.w.from);
}

KERNEL void cd_avg_pool(const struct cd_args *a, size_t i)
{
    struct cd_at in = cd_split(i, &a->out_shape);
    struct cd_spans s = cd_reads(a, in);
    float sum = 0.0f;

    for (in.h = s.h.from; in.h < s.h.to; in.h++) {
        for (in.w = s.w.from; in.w < s.w.to; in.w++) {
            sum += cd_get(a->type, a->x, cd_join(in, &a->in_shape));
        }
    }
    cd_put(a->type, a->out, i, sum / (float)cd_avg_count(&a->window, s));
}

KERNEL void cd_avg_pool_gradient(const struct cd_args *a, size_t i)
{
    struct cd_at o = cd_split(i, &a->in_shape);
    struct cd_spans s = cd_read_by(a, o);
    float sum = 0.0f;

    for (o.h = s.h.from; o.h < s.h.to; o.h++) {
        for (o.w = s.w.from; o.w < s.w.to; o.w++) {
            float dy = cd_get(a->type, a->dy, cd_join(o, &a->out_shape));
            sum += dy / (float)cd_avg_count(&a->window, cd_reads(a, o));
        }
    }
    cd_put(a->type, a->out, i, sum);
}

/* --- local response normalisation, see onednn/od_lrn.c for the formulas --- */

KERNEL float cd_lrn_spread(const struct cd_args *a, size_t pixel, size_t c)
{
    size_t from = c > a->half ? c - a->half : 0;
    float sum = 0.0f;

    for (size_t j = from; j <= c + a->half && j < a->out_shape.c; j++) {
        float x = cd_get(a->type, a->x, pixel + j);
        sum += x * x;
    }
    return a->lrn_k + a->alpha * sum;
}

KERNEL void cd_lrn(const struct cd_args *a, size_t i)
{
    size_t c = i % a->out_shape.c;

    cd_put(a->type, a->out, i,
           cd_get(a->type, a->x, i) * powf(cd_lrn_spread(a, i - c, c), -a->beta));
}

KERNEL void cd_lrn_gradient(const struct cd_args *a, size_t i)
{
    size_t c = i % a->out_shape.c, pixel = i - c, from = c > a->half ? c - a->half : 0;
    float sum = 0.0f, direct;

    for (size_t j = from; j <= c + a->half && j < a->out_shape.c; j++) {
        sum += cd_get(a->type, a->dy, pixel + j) * cd_get(a->type, a->x, pixel + j) *
               powf(cd_lrn_spread(a, pixel, j), -a->beta - 1.0f);
    }
    direct = cd_get(a->type, a->dy, i) * powf(cd_lrn_spread(a, pixel, c), -a->beta);
    cd_put(a->type, a->out, i, direct - 2.0f * a->alpha * a->beta * cd_get(a->type, a->x, i) * sum);
}

/* --- sums over all pixels, for each channel --- */

/*
 * First slices, each a sum over every CD_SLICES-th pixel, then the slices. Item i is channel i % C
 * of slice i / C. The second sum is that of the products with x - mean, where there is an x.
 */
KERNEL void cd_slice(const struct cd_args *a, size_t i)
{
    size_t n_c = a->out_shape.c, c = i % n_c;
    float mean = a->mean != NULL ? a->mean[c] : 0.0f, first = 0.0f, second = 0.0f;

    for (size_t p = i / n_c; p < a->n_pixels; p += CD_SLICES) {
        float g = cd_masked(a, p * n_c + c);
        first += g;
        second += a->x != NULL ? g * (cd_get(a->type, a->x, p * n_c + c) - mean) : 0.0f;
    }
    a->sums[i] = first;
    a->sums[CD_SLICES * n_c + i] = second;
}

/* Sums of x - origin and its square, origin being the channel's first element. */
KERNEL void cd_norm_slice(const struct cd_args *a, size_t i)
{
    size_t n_c = a->out_shape.c, c = i % n_c;
    float origin = cd_get(a->type, a->x, c), first = 0.0f, second = 0.0f;

    for (size_t p = i / n_c; p < a->n_pixels; p += CD_SLICES) {
        float d = cd_get(a->type, a->x, p * n_c + c) - origin;
        first += d;
        second += d * d;
    }
    a->sums[i] = first;
    a->sums[CD_SLICES * n_c + i] = second;
}

KERNEL double cd_total(const struct cd_args *a, size_t which, size_t c)
{
    double sum = 0.0;

    for (size_t s = 0; s < CD_SLICES; s++) {
        sum += (double)a->sums[(which * CD_SLICES + s) * a->out_shape.c + c];
    }
    return sum;
}

/* dbias[c] */
KERNEL void cd_bias_gradient(const struct cd_args *a, size_t c)
{
    a->dbias[c] = (float)cd_total(a, 0, c);
}

/* --- batch norm --- */

/* Mean and 1/deviation of the batch, into the kept ones and the running ones. */
KERNEL void cd_norm_batch(const struct cd_args *a, size_t c)
{
    size_t n_c = a->out_shape.c;
    double count = (double)a->n_pixels, d = cd_total(a, 0, c) / count;
    double var = cd_total(a, 1, c) / count - d * d, unbiased;
    float mean = (float)((double)cd_get(a->type, a->x, c) + d), m = a->momentum;

    var = var > 0.0 ? var : 0.0;
    unbiased = count > 1.0 ? var * count / (count - 1.0) : var;
    a->mean[c] = mean;
    a->inv_std[c] = (float)(1.0 / sqrt(var + (double)a->eps));
    a->state[c] = m * a->state[c] + (1.0f - m) * mean;
    a->state[n_c + c] = m * a->state[n_c + c] + (1.0f - m) * (float)unbiased;
}

/* The same from the running ones. */
KERNEL void cd_norm_running(const struct cd_args *a, size_t c)
{
    a->mean[c] = a->state[c];
    a->inv_std[c] = 1.0f / sqrtf(a->state[a->out_shape.c + c] + a->eps);
}

/* out = gamma (x - mean) inv_std + beta + x2 */
KERNEL void cd_norm_apply(const struct cd_args *a, size_t i)
{
    size_t c = i % a->out_shape.c;
    float scale = a->gamma[c] * a->inv_std[c];
    float y = cd_get(a->type, a->x, i) * scale + (a->bias[c] - a->mean[c] * scale);

    y += a->x2 != NULL ? cd_get(a->type, a->x2, i) : 0.0f;
    cd_put(a->type, a->out, i, a->relu && y < 0.0f ? 0.0f : y);
}

/* dgamma, dbeta, and what dx needs of the sums: their means, scaled. */
KERNEL void cd_norm_sums(const struct cd_args *a, size_t c)
{
    double count = (double)a->n_pixels, s = (double)a->inv_std[c];
    double sum = cd_total(a, 0, c), with_x = cd_total(a, 1, c);

    a->dgamma[c] = (float)(with_x * s);
    a->dbias[c] = (float)sum;
    a->coefficients[c] = (float)(sum / count);
    a->coefficients[a->out_shape.c + c] = (float)(s * s * with_x / count);
}

/* out = dx; out2 = the gradient of what was added, if wanted. dy, dy2 and y as in cd_masked. `out`
 * may be dy. */
KERNEL void cd_norm_gradient(const struct cd_args *a, size_t i)
{
    size_t n_c = a->out_shape.c, c = i % n_c;
    float g = cd_masked(a, i), d = cd_get(a->type, a->x, i) - a->mean[c];
    float dx =
        a->gamma[c] * a->inv_std[c] * (g - a->coefficients[c] - d * a->coefficients[n_c + c]);

    if (a->out2 != NULL) {
        cd_put(a->type, a->out2, i, g);
    }
    if (a->out != NULL) {
        cd_put(a->type, a->out, i, dx);
    }
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
