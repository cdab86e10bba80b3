#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "nn/onednn/od.h"

/*
 * Batch norm, y = relu(gamma · (x - mean) / sqrt(var + eps) + beta + residual), where ReLU and
 * residual may be missing. It goes chunk by chunk of 16 channels, so that the second reading of a
 * chunk comes from a cache. Threads share a chunk by samples and add up in a fixed order.
 * The running variance takes the unbiased estimate (n / (n - 1)), as is the custom.
 */
struct norm {
    const struct od *lib;
    const struct kernels *kern;
    struct value_desc v;
    bool add, relu, wants_dx, wants_rest;
    float eps, momentum;
    size_t slices; /* threads that share a chunk */
};

/* What the threads of one call share. */
struct norm_call {
    const struct norm *norm;
    const struct op_io *io;
    size_t chunk;
    struct plane plane;
    struct norm_sums *sums; /* [slices] */
    float origin[KERNEL_LANES], mean[KERNEL_LANES], inv_std[KERNEL_LANES];
    struct norm_affine affine;
    struct norm_gradient gradient;
    enum norm_mask mask;
};

static void norm_destroy(void *op)
{
    mem_free(op);
}

static enum status norm_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    const struct od *od = lib;
    struct norm *b = mem_alloc(1, sizeof *b);

    if (b == NULL) {
        return ST_NOMEM;
    }
    *op = b;
    b->lib = od;
    b->v = values[node->output];
    b->kern = od->kern[b->v.dtype];
    b->add = node->add;
    b->relu = node->relu;
    b->wants_dx = node->wants_dx[0];
    b->wants_rest = node->add && node->wants_dx[1];
    b->eps = (float)node->layer->u.norm.eps;
    b->momentum = (float)node->layer->u.norm.momentum;
    b->slices = (size_t)env->n_threads;
    info->needs_x = true;
    info->needs_y = b->add && b->relu;
    info->takes_two = info->masks = true;
    info->over_dy = !b->wants_rest;
    info->rest_over_dy = b->wants_rest;
    info->kept_bytes = 2 * od_chunks(&b->v) * KERNEL_LANES * sizeof(float);
    info->scratch_bytes[0] = info->scratch_bytes[1] = b->slices * sizeof(struct norm_sums);
    info->param_n[0] = info->param_n[1] = b->v.shape.c;
    info->state_n = 2 * b->v.shape.c;
    return ST_OK;
}

static size_t at(const struct norm_call *c, size_t sample)
{
    return od_plane_offset(&c->norm->v, sample, c->chunk) * c->norm->kern->elem_bytes;
}

static const void *from(const void *base, size_t offset)
{
    return base == NULL ? NULL : (const char *)base + offset;
}

static void *to(void *base, size_t offset)
{
    return base == NULL ? NULL : (char *)base + offset;
}

/* The samples of slice `i`. */
static void slice_range(const struct norm_call *c, size_t i, size_t *begin, size_t *end)
{
    *begin = c->io->n * i / c->norm->slices;
    *end = c->io->n * (i + 1) / c->norm->slices;
}

static size_t channels(const struct norm_call *c)
{
    size_t left = c->norm->v.shape.c - c->chunk * KERNEL_LANES;

    return left < KERNEL_LANES ? left : KERNEL_LANES;
}

static void add_slices(struct norm_call *c)
{
    for (size_t s = 1; s < c->norm->slices; s++) {
        for (int l = 0; l < KERNEL_LANES; l++) {
            c->sums[0].first[l] += c->sums[s].first[l];
            c->sums[0].second[l] += c->sums[s].second[l];
        }
    }
}

static void moments_slice(void *ctx, size_t i)
{
    struct norm_call *c = ctx;
    size_t begin, end;

    slice_range(c, i, &begin, &end);
    for (size_t n = begin; n < end; n++) {
        c->norm->kern->norm_moments(&c->plane, from(c->io->x[0], at(c, n)), c->origin, &c->sums[i]);
    }
}

static void apply_slice(void *ctx, size_t i)
{
    struct norm_call *c = ctx;
    size_t begin, end;

    slice_range(c, i, &begin, &end);
    for (size_t n = begin; n < end; n++) {
        c->norm->kern->norm_apply(&c->plane, from(c->io->x[0], at(c, n)),
                                  c->norm->add ? from(c->io->x[1], at(c, n)) : NULL, &c->affine,
                                  c->norm->relu, to(c->io->y, at(c, n)));
    }
}

/* Mean and 1/deviation of the batch, kept for backward; updates the running ones. */
static void batch_statistics(struct norm_call *c)
{
    const struct norm *b = c->norm;
    size_t first = c->chunk * KERNEL_LANES, n_channels = b->v.shape.c;
    double count = (double)c->io->n * (double)(b->v.shape.h * b->v.shape.w);
    float *running_mean = c->io->state + first, *running_var = running_mean + n_channels;
    float m = b->momentum;

    memset(c->sums, 0, b->slices * sizeof *c->sums);
    memset(c->origin, 0, sizeof c->origin);
    b->kern->widen((size_t)c->plane.lanes, from(c->io->x[0], at(c, 0)), c->origin);
    od_parallel(b->lib, b->slices, moments_slice, c);
    add_slices(c);
    for (size_t l = 0; l < channels(c); l++) {
        double d = c->sums[0].first[l] / count;
        double var = fmax(c->sums[0].second[l] / count - d * d, 0.0);
        double unbiased = count > 1.0 ? var * count / (count - 1.0) : var;
        c->mean[l] = (float)((double)c->origin[l] + d);
        c->inv_std[l] = (float)(1.0 / sqrt(var + (double)b->eps));
        running_mean[l] = m * running_mean[l] + (1.0f - m) * c->mean[l];
        running_var[l] = m * running_var[l] + (1.0f - m) * (float)unbiased;
    }
}

static void running_statistics(struct norm_call *c)
{
    const float *mean = c->io->state + c->chunk * KERNEL_LANES;
    const float *var = mean + c->norm->v.shape.c;

    for (size_t l = 0; l < channels(c); l++) {
        c->mean[l] = mean[l];
        c->inv_std[l] = 1.0f / sqrtf(var[l] + c->norm->eps);
    }
}

/* y = x·scale + shift; zero in the lanes of padding. */
static void make_affine(struct norm_call *c)
{
    const float *gamma = c->io->w[0] + c->chunk * KERNEL_LANES;
    const float *beta = c->io->w[1] + c->chunk * KERNEL_LANES;

    memset(&c->affine, 0, sizeof c->affine);
    for (size_t l = 0; l < channels(c); l++) {
        c->affine.scale[l] = gamma[l] * c->inv_std[l];
        c->affine.shift[l] = beta[l] - c->mean[l] * c->affine.scale[l];
    }
}

static void begin_chunk(struct norm_call *c, size_t chunk)
{
    c->chunk = chunk;
    c->plane = od_plane(&c->norm->v, chunk);
    memset(c->mean, 0, sizeof c->mean);
    memset(c->inv_std, 0, sizeof c->inv_std);
}

static float *kept_of(const struct norm_call *c, int which)
{
    return (float *)c->io->kept +
           ((size_t)which * od_chunks(&c->norm->v) + c->chunk) * KERNEL_LANES;
}

static enum status norm_forward(void *op, const struct op_io *io)
{
    struct norm_call c = {.norm = op, .io = io, .sums = io->scratch};

    for (size_t chunk = 0; chunk < od_chunks(&c.norm->v); chunk++) {
        begin_chunk(&c, chunk);
        if (io->training) {
            batch_statistics(&c);
            memcpy(kept_of(&c, 0), c.mean, sizeof c.mean);
            memcpy(kept_of(&c, 1), c.inv_std, sizeof c.inv_std);
        } else {
            running_statistics(&c);
        }
        make_affine(&c);
        od_parallel(c.norm->lib, c.norm->slices, apply_slice, &c);
    }
    return ST_OK;
}

static struct norm_operands operands(const struct norm_call *c, size_t n)
{
    const struct op_io *io = c->io;

    return (struct norm_operands){.x = from(io->x[0], at(c, n)),
                                  .y = from(io->y, at(c, n)),
                                  .dy = from(io->dy[0], at(c, n)),
                                  .dy2 = from(io->dy[1], at(c, n)),
                                  .g = c->norm->wants_rest ? to(io->dx[1], at(c, n)) : NULL,
                                  .dx = to(io->dx[0], at(c, n))};
}

static void sums_slice(void *ctx, size_t i)
{
    struct norm_call *c = ctx;
    size_t begin, end;

    slice_range(c, i, &begin, &end);
    for (size_t n = begin; n < end; n++) {
        struct norm_operands o = operands(c, n);
        c->norm->kern->norm_sums(&c->plane, &o, c->mask, &c->affine, c->mean, &c->sums[i]);
    }
}

static void gradient_slice(void *ctx, size_t i)
{
    struct norm_call *c = ctx;
    size_t begin, end;

    slice_range(c, i, &begin, &end);
    for (size_t n = begin; n < end; n++) {
        struct norm_operands o = operands(c, n);
        enum norm_mask mask = c->mask;
        if (o.g != NULL) { /* it is masked and summed already */
            o.dy = o.g;
            o.dy2 = NULL;
            mask = MASK_NONE;
        }
        c->norm->kern->norm_gradient(&c->plane, &o, mask, &c->affine, &c->gradient);
    }
}

/* dgamma, dbeta and the coefficients of dx from the sums. */
static void finish_sums(struct norm_call *c)
{
    size_t first = c->chunk * KERNEL_LANES;
    double count = (double)c->io->n * (double)(c->norm->v.shape.h * c->norm->v.shape.w);

    add_slices(c);
    memset(&c->gradient, 0, sizeof c->gradient); /* of one element: y is beta, dx is exactly 0 */
    for (size_t l = 0; l < channels(c); l++) {
        double s = (double)c->inv_std[l], a = (double)c->io->w[0][first + l] * s;
        c->io->dw[0][first + l] = (float)(c->sums[0].second[l] * s);
        c->io->dw[1][first + l] = (float)c->sums[0].first[l];
        if (count == 1.0) {
            continue;
        }
        c->gradient.a[l] = (float)a;
        c->gradient.b[l] = (float)(a * s * s * c->sums[0].second[l] / count);
        c->gradient.c[l] = (float)(a * c->sums[0].first[l] / count);
        c->gradient.mean[l] = c->mean[l];
    }
}

static enum status norm_backward(void *op, const struct op_io *io)
{
    struct norm_call c = {.norm = op, .io = io, .sums = io->scratch};

    c.mask = !c.norm->relu ? MASK_NONE : c.norm->add ? MASK_OUTPUT : MASK_AFFINE;
    for (size_t chunk = 0; chunk < od_chunks(&c.norm->v); chunk++) {
        begin_chunk(&c, chunk);
        memcpy(c.mean, kept_of(&c, 0), sizeof c.mean);
        memcpy(c.inv_std, kept_of(&c, 1), sizeof c.inv_std);
        make_affine(&c);
        memset(c.sums, 0, c.norm->slices * sizeof *c.sums);
        od_parallel(c.norm->lib, c.norm->slices, sums_slice, &c);
        finish_sums(&c);
        if (c.norm->wants_dx) {
            od_parallel(c.norm->lib, c.norm->slices, gradient_slice, &c);
        }
    }
    return ST_OK;
}

const struct op_kind od_norm = {.create = norm_create,
                                .destroy = norm_destroy,
                                .forward = norm_forward,
                                .backward = norm_backward};
