#include <string.h>

#include "base/mem.h"
#include "nn/onednn/od.h"

/* Operations that only move elements: concatenation along C and the padded shortcut. */
struct reshape {
    struct value_desc in[LAYER_MAX_INPUTS], out;
    int n_inputs;
    size_t stride, elem_bytes;
};

static void reshape_destroy(void *op)
{
    mem_free(op);
}

static enum status reshape_create(void *lib, const struct op_env *env, const struct op_node *node,
                                  const struct value_desc *values, struct op_info *info, void **op)
{
    struct reshape *r = mem_alloc(1, sizeof *r);

    (void)lib;
    (void)env;
    (void)info;
    if (r == NULL) {
        return ST_NOMEM;
    }
    *op = r;
    for (int k = 0; k < node->n_inputs; k++) {
        r->in[k] = values[node->inputs[k]];
    }
    r->n_inputs = node->n_inputs;
    r->out = values[node->output];
    r->stride = node->kind == LAYER_PAD_CHANNELS ? node->layer->u.pad_channels.stride : 1;
    r->elem_bytes = r->out.dtype == GRAPH_BF16 ? 2 : sizeof(float);
    return ST_OK;
}

/*
 * A value is an array of pieces [N][groups][H][W][piece]: all channels of a pixel (channels-last)
 * or 16 of them (blocked; arrange sees to it that concatenated inputs fill their blocks).
 */
static size_t piece_of(const struct value_desc *v)
{
    return v->layout == LAYOUT_BLOCKED ? KERNEL_LANES : v->shape.c;
}

static size_t groups_of(const struct value_desc *v)
{
    return v->layout == LAYOUT_BLOCKED ? od_chunks(v) : 1;
}

static char *pixel(const struct reshape *r, const struct value_desc *v, const void *base, size_t n,
                   size_t group, size_t h, size_t w)
{
    size_t at = ((n * groups_of(v) + group) * v->shape.h + h) * v->shape.w + w;

    return (char *)base + at * piece_of(v) * r->elem_bytes;
}

/* --- concatenation --- */

/* Copy between input `k` and its part of the output; `first` is the output channel it starts at. */
static void copy_part(const struct reshape *r, size_t n_samples, int k, size_t first, void *in,
                      void *out, bool forward)
{
    const struct value_desc *v = &r->in[k];
    bool blocked = v->layout == LAYOUT_BLOCKED;
    size_t offset = blocked ? 0 : first * r->elem_bytes;
    size_t bytes = piece_of(v) * r->elem_bytes;
    size_t pixels = v->shape.h * v->shape.w;

    for (size_t n = 0; n < n_samples; n++) {
        for (size_t g = 0; g < groups_of(v); g++) {
            char *a = pixel(r, v, in, n, g, 0, 0);
            char *b =
                pixel(r, &r->out, out, n, blocked ? first / KERNEL_LANES + g : 0, 0, 0) + offset;
            for (size_t p = 0; p < pixels;
                 p++, a += bytes, b += piece_of(&r->out) * r->elem_bytes) {
                memcpy(forward ? b : a, forward ? a : b, bytes);
            }
        }
    }
}

static enum status concat_forward(void *op, const struct op_io *io)
{
    const struct reshape *r = op;
    size_t first = 0;

    for (int k = 0; k < r->n_inputs; k++) {
        copy_part(r, io->n, k, first, (void *)io->x[k], io->y, true);
        first += r->in[k].shape.c;
    }
    return ST_OK;
}

static enum status concat_backward(void *op, const struct op_io *io)
{
    const struct reshape *r = op;
    size_t first = 0;

    for (int k = 0; k < r->n_inputs; k++) {
        if (io->dx[k] != NULL) {
            copy_part(r, io->n, k, first, io->dx[k], (void *)io->dy[0], false);
        }
        first += r->in[k].shape.c;
    }
    return ST_OK;
}

/* --- every stride-th pixel, and zero channels behind --- */

static enum status pad_forward(void *op, const struct op_io *io)
{
    const struct reshape *r = op;
    const struct value_desc *in = &r->in[0], *out = &r->out;
    size_t bytes = piece_of(in) * r->elem_bytes, step = piece_of(out) * r->elem_bytes;

    for (size_t n = 0; n < io->n; n++) {
        for (size_t g = 0; g < groups_of(out); g++) {
            for (size_t h = 0; h < out->shape.h; h++) {
                char *to = pixel(r, out, io->y, n, g, h, 0);
                for (size_t w = 0; w < out->shape.w; w++, to += step) {
                    size_t filled = g < groups_of(in) ? bytes : 0;
                    if (filled > 0) {
                        memcpy(to, pixel(r, in, io->x[0], n, g, h * r->stride, w * r->stride),
                               filled);
                    }
                    memset(to + filled, 0, step - filled);
                }
            }
        }
    }
    return ST_OK;
}

static enum status pad_backward(void *op, const struct op_io *io)
{
    const struct reshape *r = op;
    const struct value_desc *in = &r->in[0], *out = &r->out;
    size_t bytes = piece_of(in) * r->elem_bytes;

    memset(io->dx[0], 0, value_bytes(in, io->n));
    for (size_t n = 0; n < io->n; n++) {
        for (size_t g = 0; g < groups_of(in); g++) {
            for (size_t h = 0; h < out->shape.h; h++) {
                for (size_t w = 0; w < out->shape.w; w++) {
                    memcpy(pixel(r, in, io->dx[0], n, g, h * r->stride, w * r->stride),
                           pixel(r, out, io->dy[0], n, g, h, w), bytes);
                }
            }
        }
    }
    return ST_OK;
}

const struct op_kind od_concat = {.create = reshape_create,
                                  .destroy = reshape_destroy,
                                  .forward = concat_forward,
                                  .backward = concat_backward};
const struct op_kind od_pad_channels = {.create = reshape_create,
                                        .destroy = reshape_destroy,
                                        .forward = pad_forward,
                                        .backward = pad_backward};
