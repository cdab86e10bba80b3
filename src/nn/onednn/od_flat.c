#include "base/mem.h"
#include "base/rng.h"
#include "nn/onednn/od.h"

/* Operations on values as flat arrays: all operands have one layout, and zeros of padding stay. */
struct flat {
    const struct od *lib;
    struct value_desc v;
    bool relu;
    /* dropout */
    float scale;
    uint32_t keep_below; /* of 2^32 */
    struct rng rng;
    uint64_t stream; /* of rank and layer */
};

enum {
    FLAT_PIECE = 16384 /* elements that a thread takes at once */
};

/* A flat call in pieces: y from a and b, see fn. */
struct flat_call {
    const struct flat *op;
    const struct kernels *kern;
    size_t n;
    const void *y_in, *a, *b;
    void *y;
    uint8_t *keep;
    struct rng rng;
    void (*fn)(const struct flat_call *c, size_t at, size_t n);
};

static const void *elem(const struct flat_call *c, const void *base, size_t at)
{
    return base == NULL ? NULL : (const char *)base + at * c->kern->elem_bytes;
}

static void *elem_out(const struct flat_call *c, size_t at)
{
    return (char *)c->y + at * c->kern->elem_bytes;
}

static void run_piece(void *ctx, size_t i)
{
    const struct flat_call *c = ctx;
    size_t at = i * FLAT_PIECE, left = c->n - at;

    c->fn(c, at, left < FLAT_PIECE ? left : FLAT_PIECE);
}

static void run(const struct od *lib, struct flat_call *c)
{
    od_parallel(lib, (c->n + FLAT_PIECE - 1) / FLAT_PIECE, run_piece, c);
}

static void gradient_piece(const struct flat_call *c, size_t at, size_t n)
{
    c->kern->gradient(n, elem(c, c->y_in, at), elem(c, c->a, at), elem(c, c->b, at),
                      elem_out(c, at));
}

void od_gradient(void *lib, const struct value_desc *v, size_t n, const void *y, const void *a,
                 const void *b, void *g)
{
    const struct od *od = lib;
    struct flat_call c = {.kern = od->kern[v->dtype],
                          .n = n * value_elements(v),
                          .y_in = y,
                          .a = a,
                          .b = b,
                          .y = g,
                          .fn = gradient_piece};

    run(od, &c);
}

static void flat_destroy(void *op)
{
    mem_free(op);
}

static enum status flat_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    struct flat *f = mem_alloc(1, sizeof *f);

    (void)env;
    if (f == NULL) {
        return ST_NOMEM;
    }
    *op = f;
    f->lib = lib;
    f->v = values[node->output];
    f->relu = node->relu;
    info->over_dy = true;
    return ST_OK;
}

static struct flat_call call(const struct flat *f, const struct op_io *io,
                             void (*fn)(const struct flat_call *c, size_t at, size_t n))
{
    return (struct flat_call){
        .op = f, .kern = f->lib->kern[f->v.dtype], .n = io->n * value_elements(&f->v), .fn = fn};
}

/* --- ReLU that stands alone --- */

static enum status relu_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    info->needs_y = info->takes_two = true;
    return flat_create(lib, env, node, values, info, op);
}

static void relu_piece(const struct flat_call *c, size_t at, size_t n)
{
    c->kern->relu(n, elem(c, c->a, at), elem_out(c, at));
}

static enum status relu_forward(void *op, const struct op_io *io)
{
    const struct flat *f = op;
    struct flat_call c = call(f, io, relu_piece);

    c.a = io->x[0];
    c.y = io->y;
    run(f->lib, &c);
    return ST_OK;
}

static enum status relu_backward(void *op, const struct op_io *io)
{
    const struct flat *f = op;

    od_gradient((void *)f->lib, &f->v, io->n, io->y, io->dy[0], io->dy[1], io->dx[0]);
    return ST_OK;
}

/* --- sums; backward is the graph's: both inputs share the (masked) gradient --- */

static void add_piece(const struct flat_call *c, size_t at, size_t n)
{
    c->kern->add(n, elem(c, c->a, at), elem(c, c->b, at), elem_out(c, at), c->op->relu);
}

static enum status add_forward(void *op, const struct op_io *io)
{
    const struct flat *f = op;
    struct flat_call c = call(f, io, add_piece);

    c.a = io->x[0];
    c.b = io->x[1];
    c.y = io->y;
    run(f->lib, &c);
    return ST_OK;
}

static enum status add_backward(void *op, const struct op_io *io)
{
    (void)op;
    (void)io;
    return ST_OK;
}

/* --- dropout --- */

static enum status dropout_create(void *lib, const struct op_env *env, const struct op_node *node,
                                  const struct value_desc *values, struct op_info *info, void **op)
{
    double rate = node->layer->u.dropout.rate;
    struct flat *f;

    TRY(flat_create(lib, env, node, values, info, op));
    f = *op;
    f->scale = (float)(1.0 / (1.0 - rate));
    f->keep_below = (uint32_t)((1.0 - rate) * 4294967295.0);
    f->rng = rng_make(env->seed, RNG_DROPOUT, 0);
    f->stream = (uint64_t)env->rank << 52 | (uint64_t)node->output << 38;
    info->kept_bytes = env->batches[0] * value_elements(&f->v);
    return ST_OK;
}

static void dropout_piece(const struct flat_call *c, size_t at, size_t n)
{
    uint32_t word[4];

    for (size_t i = 0; c->a != NULL && i < n; i++) {
        if (i % 4 == 0) {
            rng_block(&c->rng, (at + i) / 4, word);
        }
        c->keep[at + i] = word[i % 4] < c->op->keep_below;
    }
    c->kern->dropout(n, elem(c, c->b, at), c->keep + at, c->op->scale, elem_out(c, at));
}

static enum status dropout_forward(void *op, const struct op_io *io)
{
    const struct flat *f = op;
    struct flat_call c = call(f, io, io->training ? dropout_piece : relu_piece);

    if (!io->training) {
        od_gradient((void *)f->lib, &f->v, io->n, NULL, io->x[0], NULL, io->y);
        return ST_OK;
    }
    c.rng = f->rng;
    c.rng.stream = f->stream | (io->step & ((UINT64_C(1) << 38) - 1));
    c.a = c.b = io->x[0];
    c.keep = io->kept;
    c.y = io->y;
    run(f->lib, &c);
    return ST_OK;
}

static enum status dropout_backward(void *op, const struct op_io *io)
{
    const struct flat *f = op;
    struct flat_call c = call(f, io, dropout_piece);

    c.b = io->dy[0]; /* a stays NULL: the mask is kept */
    c.keep = io->kept;
    c.y = io->dx[0];
    run(f->lib, &c);
    return ST_OK;
}

const struct op_kind od_relu = {.create = relu_create,
                                .destroy = flat_destroy,
                                .forward = relu_forward,
                                .backward = relu_backward};
const struct op_kind od_add = {.create = flat_create,
                               .destroy = flat_destroy,
                               .forward = add_forward,
                               .backward = add_backward};
const struct op_kind od_dropout = {.create = dropout_create,
                                   .destroy = flat_destroy,
                                   .forward = dropout_forward,
                                   .backward = dropout_backward};
