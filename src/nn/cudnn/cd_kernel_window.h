#ifndef NN_CUDNN_CD_KERNEL_WINDOW_H
#define NN_CUDNN_CD_KERNEL_WINDOW_H

#include <math.h>

#include "nn/cudnn/cd_kernel_value.h"

/* Kernels that read windows: of pixels in pooling, of channels in LRN. */

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

#endif
