#include <math.h>

#include "base/mem.h"
#include "nn/onednn/od.h"

/*
 * Local response normalisation across channels:
 *     s[c] = k + alpha/size · sum of x[j]² over the `size` channels j around c,  y = x · s^-beta
 */
struct lrn {
    const struct od *lib;
    struct value_desc v;
    size_t half;
    float alpha, beta, k; /* alpha is divided by the size */
    size_t slices;
};

struct lrn_call {
    const struct lrn *lrn;
    const struct op_io *io;
    void (*fn)(const struct lrn_call *c, size_t base, float *work);
};

static void lrn_destroy(void *op)
{
    mem_free(op);
}

static enum status lrn_create(void *lib, const struct op_env *env, const struct op_node *node,
                              const struct value_desc *values, struct op_info *info, void **op)
{
    const struct layer *l = node->layer;
    struct lrn *r = mem_alloc(1, sizeof *r);

    if (r == NULL) {
        return ST_NOMEM;
    }
    *op = r;
    r->lib = lib;
    r->v = values[node->output];
    r->half = l->u.lrn.size / 2;
    r->alpha = (float)(l->u.lrn.alpha / (double)l->u.lrn.size);
    r->beta = (float)l->u.lrn.beta;
    r->k = (float)l->u.lrn.k;
    r->slices = (size_t)env->n_threads;
    info->needs_x = true;
    info->scratch_bytes[0] = info->scratch_bytes[1] = r->slices * 3 * r->v.shape.c * sizeof(float);
    return ST_OK;
}

static void call_slice(void *ctx, size_t i)
{
    const struct lrn_call *c = ctx;
    const struct lrn *r = c->lrn;
    size_t pixels = r->v.shape.h * r->v.shape.w, n = c->io->n * pixels;
    size_t step = r->v.layout == LAYOUT_BLOCKED ? KERNEL_LANES : r->v.shape.c;
    float *work = (float *)c->io->scratch + i * 3 * r->v.shape.c;

    for (size_t p = n * i / r->slices; p < n * (i + 1) / r->slices; p++) {
        c->fn(c, p / pixels * value_elements(&r->v) + p % pixels * step, work);
    }
}

/* Where channel `ch` of the pixel at `base` lies. */
static size_t channel(const struct lrn *r, size_t base, size_t ch)
{
    return base + od_plane_offset(&r->v, 0, ch / KERNEL_LANES) + ch % KERNEL_LANES;
}

static void gather(const struct lrn *r, const void *from, size_t base, float *out)
{
    for (size_t ch = 0; ch < r->v.shape.c; ch++) {
        out[ch] = od_get(r->v.dtype, from, channel(r, base, ch));
    }
}

/* s[c] from x[C]. */
static float spread(const struct lrn *r, const float *x, size_t ch)
{
    size_t from = ch > r->half ? ch - r->half : 0;
    float sum = 0.0f;

    for (size_t j = from; j <= ch + r->half && j < r->v.shape.c; j++) {
        sum += x[j] * x[j];
    }
    return r->k + r->alpha * sum;
}

static void forward_pixel(const struct lrn_call *c, size_t base, float *x)
{
    const struct lrn *r = c->lrn;

    gather(r, c->io->x[0], base, x);
    for (size_t ch = 0; ch < r->v.shape.c; ch++) {
        od_put(r->v.dtype, c->io->y, channel(r, base, ch),
               x[ch] * powf(spread(r, x, ch), -r->beta));
    }
}

/* dx = dy · s^-beta - 2 alpha beta x · sum over the channels around of dy x s^(-beta-1) */
static void backward_pixel(const struct lrn_call *c, size_t base, float *x)
{
    const struct lrn *r = c->lrn;
    size_t n = r->v.shape.c;
    float *direct = x + n, *shared = x + 2 * n;

    gather(r, c->io->x[0], base, x);
    gather(r, c->io->dy[0], base, direct);
    for (size_t ch = 0; ch < n; ch++) {
        float s = spread(r, x, ch), power = powf(s, -r->beta);
        shared[ch] = direct[ch] * x[ch] * power / s;
        direct[ch] *= power;
    }
    for (size_t ch = 0; ch < n; ch++) {
        float sum = 0.0f;
        for (size_t j = ch > r->half ? ch - r->half : 0; j <= ch + r->half && j < n; j++) {
            sum += shared[j];
        }
        od_put(r->v.dtype, c->io->dx[0], channel(r, base, ch),
               direct[ch] - 2.0f * r->alpha * r->beta * x[ch] * sum);
    }
}

static enum status lrn_forward(void *op, const struct op_io *io)
{
    struct lrn_call c = {op, io, forward_pixel};

    if (c.lrn->v.layout == LAYOUT_BLOCKED) {
        memset(io->y, 0, value_bytes(&c.lrn->v, io->n)); /* padding */
    }
    od_parallel(c.lrn->lib, c.lrn->slices, call_slice, &c);
    return ST_OK;
}

static enum status lrn_backward(void *op, const struct op_io *io)
{
    struct lrn_call c = {op, io, backward_pixel};

    if (c.lrn->v.layout == LAYOUT_BLOCKED) {
        memset(io->dx[0], 0, value_bytes(&c.lrn->v, io->n)); /* padding */
    }
    od_parallel(c.lrn->lib, c.lrn->slices, call_slice, &c);
    return ST_OK;
}

const struct op_kind od_lrn = {
    .create = lrn_create, .destroy = lrn_destroy, .forward = lrn_forward, .backward = lrn_backward};
