#include "base/log.h"
#include "base/mem.h"
#include "nn/onednn/od.h"

/*
 * Poolings. Input and output may have different layouts: this is where a net changes over from
 * blocked to channels-last, where it costs nothing.
 */
struct pool {
    const struct od *lib;
    const struct kernels *kern;
    struct value_desc in, out;
    struct window window;
};

struct pool_call {
    const struct pool *pool;
    const struct op_io *io;
    void (*fn)(const struct pool_call *c, size_t n, size_t chunk);
};

static void pool_destroy(void *op)
{
    mem_free(op);
}

static enum status pool_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    const struct od *od = lib;
    const struct layer *l = node->layer;
    struct pool *p = mem_alloc(1, sizeof *p);

    (void)env;
    (void)info;
    if (p == NULL) {
        return ST_NOMEM;
    }
    *op = p;
    p->lib = od;
    p->in = values[node->inputs[0]];
    p->out = values[node->output];
    p->kern = od->kern[p->out.dtype];
    p->window =
        (struct window){l->u.pool.kernel, l->u.pool.stride, l->u.pool.pad, l->u.pool.count_padding};
    return ST_OK;
}

static const char *plane_in(const struct pool_call *c, const struct value_desc *v, const void *base,
                            size_t n, size_t chunk)
{
    return (const char *)base + od_plane_offset(v, n, chunk) * c->pool->kern->elem_bytes;
}

static char *plane_out(const struct pool_call *c, const struct value_desc *v, void *base, size_t n,
                       size_t chunk)
{
    return (char *)base + od_plane_offset(v, n, chunk) * c->pool->kern->elem_bytes;
}

static void call_plane(void *ctx, size_t i)
{
    const struct pool_call *c = ctx;
    size_t chunks = od_chunks(&c->pool->out);

    c->fn(c, i / chunks, i % chunks);
}

static enum status run(const struct pool *p, const struct op_io *io,
                       void (*fn)(const struct pool_call *c, size_t n, size_t chunk))
{
    struct pool_call c = {p, io, fn};

    od_parallel(p->lib, io->n * od_chunks(&p->out), call_plane, &c);
    return ST_OK;
}

/* --- maximum --- */

static enum status max_create(void *lib, const struct op_env *env, const struct op_node *node,
                              const struct value_desc *values, struct op_info *info, void **op)
{
    size_t k = node->layer->u.pool.kernel;

    if (k * k > UINT8_MAX + 1) {
        return log_fail(ST_UNSUPPORTED, "maximum pooling over %zux%zu is more than 16x16, layer %s",
                        k, k, node->layer->name);
    }
    info->kept_bytes = env->batches[0] * value_elements(&values[node->output]);
    return pool_create(lib, env, node, values, info, op);
}

static void max_forward_plane(const struct pool_call *c, size_t n, size_t chunk)
{
    const struct pool *p = c->pool;
    struct plane in = od_plane(&p->in, chunk), out = od_plane(&p->out, chunk);

    p->kern->max_pool(&in, &out, &p->window, plane_in(c, &p->in, c->io->x[0], n, chunk),
                      plane_out(c, &p->out, c->io->y, n, chunk),
                      (uint8_t *)c->io->kept + od_plane_offset(&p->out, n, chunk));
}

static void max_backward_plane(const struct pool_call *c, size_t n, size_t chunk)
{
    const struct pool *p = c->pool;
    struct plane in = od_plane(&p->in, chunk), out = od_plane(&p->out, chunk);

    p->kern->max_unpool(&in, &out, &p->window, plane_in(c, &p->out, c->io->dy[0], n, chunk),
                        (const uint8_t *)c->io->kept + od_plane_offset(&p->out, n, chunk),
                        plane_out(c, &p->in, c->io->dx[0], n, chunk));
}

static enum status max_forward(void *op, const struct op_io *io)
{
    return run(op, io, max_forward_plane);
}

static enum status max_backward(void *op, const struct op_io *io)
{
    return run(op, io, max_backward_plane);
}

/* --- average; the global one is a window over the whole input --- */

static void avg_forward_plane(const struct pool_call *c, size_t n, size_t chunk)
{
    const struct pool *p = c->pool;
    struct plane in = od_plane(&p->in, chunk), out = od_plane(&p->out, chunk);

    p->kern->avg_pool(&in, &out, &p->window, plane_in(c, &p->in, c->io->x[0], n, chunk),
                      plane_out(c, &p->out, c->io->y, n, chunk));
}

static void avg_backward_plane(const struct pool_call *c, size_t n, size_t chunk)
{
    const struct pool *p = c->pool;
    struct plane in = od_plane(&p->in, chunk), out = od_plane(&p->out, chunk);

    p->kern->avg_unpool(&in, &out, &p->window, plane_in(c, &p->out, c->io->dy[0], n, chunk),
                        plane_out(c, &p->in, c->io->dx[0], n, chunk));
}

static enum status avg_forward(void *op, const struct op_io *io)
{
    return run(op, io, avg_forward_plane);
}

static enum status avg_backward(void *op, const struct op_io *io)
{
    return run(op, io, avg_backward_plane);
}

static enum status global_create(void *lib, const struct op_env *env, const struct op_node *node,
                                 const struct value_desc *values, struct op_info *info, void **op)
{
    struct pool *p;
    size_t h, w;

    TRY(pool_create(lib, env, node, values, info, op));
    p = *op;
    h = p->in.shape.h;
    w = p->in.shape.w;
    p->window = (struct window){.kernel = h > w ? h : w, .stride = 1};
    return ST_OK;
}

const struct op_kind od_max_pool = {.create = max_create,
                                    .destroy = pool_destroy,
                                    .forward = max_forward,
                                    .backward = max_backward};
const struct op_kind od_avg_pool = {.create = pool_create,
                                    .destroy = pool_destroy,
                                    .forward = avg_forward,
                                    .backward = avg_backward};
const struct op_kind od_global_pool = {.create = global_create,
                                       .destroy = pool_destroy,
                                       .forward = avg_forward,
                                       .backward = avg_backward};
