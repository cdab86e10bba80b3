#include "base/mem.h"
#include "base/rng.h"
#include "nn/cudnn/cd.h"

/* Layers without parameters: a kernel forward, and one backward. */
struct plain {
    const struct cd *lib;
    const struct op_node *node;
    struct value_desc in[LAYER_MAX_INPUTS], out;
    struct cd_args args; /* what is the same in all calls */
};

static void plain_destroy(void *op)
{
    mem_free(op);
}

static enum status plain_create(void *lib, const struct op_env *env, const struct op_node *node,
                                const struct value_desc *values, struct op_info *info, void **op)
{
    struct plain *p = mem_alloc(1, sizeof *p);

    (void)env;
    (void)info;
    if (p == NULL) {
        return ST_NOMEM;
    }
    *op = p;
    p->lib = lib;
    p->node = node;
    for (int k = 0; k < node->n_inputs; k++) {
        p->in[k] = values[node->inputs[k]];
    }
    p->out = values[node->output];
    p->args = (struct cd_args){.type = p->lib->type,
                               .relu = node->relu,
                               .in_shape = cd_shape_of(&p->in[0]),
                               .out_shape = cd_shape_of(&p->out)};
    return ST_OK;
}

static enum status launch(const struct plain *p, const struct op_io *io, enum cd_kernel kernel,
                          const struct value_desc *items, const struct cd_args *a)
{
    TRY_CUDA(p->node, cd_launch(p->lib->stream, kernel, io->n * value_elements(items), a));
    return ST_OK;
}

/* y from x[0] and x[1]. */
static enum status forward(const struct plain *p, const struct op_io *io, enum cd_kernel kernel)
{
    struct cd_args a = p->args;

    a.x = io->x[0];
    a.x2 = p->node->n_inputs > 1 ? io->x[1] : NULL;
    a.out = io->y;
    a.kept = io->kept;
    return launch(p, io, kernel, &p->out, &a);
}

/* dx[0] from dy. */
static enum status backward(const struct plain *p, const struct op_io *io, enum cd_kernel kernel)
{
    struct cd_args a = p->args;

    a.x = io->x[0];
    a.dy = io->dy[0];
    a.dy2 = io->dy[1];
    a.out = io->dx[0];
    a.kept = io->kept;
    return launch(p, io, kernel, &p->in[0], &a);
}

/* --- input: it changes its layout --- */

static enum status input_forward(void *op, const struct op_io *io)
{
    const struct plain *p = op;
    struct cd_args a = p->args;

    a.x = io->x[0];
    a.out = io->y;
    return launch(p, io, CD_KERNEL_input, &p->out, &a);
}

const struct op_kind cd_input = {
    .create = plain_create, .destroy = plain_destroy, .forward = input_forward};

/* --- ReLU that stands alone, sums --- */

static enum status relu_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    struct plain *p;

    TRY(plain_create(lib, env, node, values, info, op));
    p = *op;
    p->args.relu = true;
    info->needs_y = info->takes_two = info->over_dy = true;
    return ST_OK;
}

static enum status sum_forward(void *op, const struct op_io *io)
{
    return forward(op, io, CD_KERNEL_sum);
}

static enum status relu_backward(void *op, const struct op_io *io)
{
    const struct plain *p = op;
    struct cd_args a = p->args;

    a.dy = io->dy[0];
    a.dy2 = io->dy[1];
    a.y = io->y;
    a.out = io->dx[0];
    return launch(p, io, CD_KERNEL_gradient, &p->out, &a);
}

/* Both inputs share the (masked) gradient, which is the graph's. */
static enum status add_backward(void *op, const struct op_io *io)
{
    (void)op;
    (void)io;
    return ST_OK;
}

const struct op_kind cd_relu = {.create = relu_create,
                                .destroy = plain_destroy,
                                .forward = sum_forward,
                                .backward = relu_backward};
const struct op_kind cd_add = {.create = plain_create,
                               .destroy = plain_destroy,
                               .forward = sum_forward,
                               .backward = add_backward};

/* --- poolings --- */

static enum status pool_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    const struct layer *l = node->layer;
    struct plain *p;

    TRY(plain_create(lib, env, node, values, info, op));
    p = *op;
    p->args.window = (struct cd_window){l->u.pool.kernel, l->u.pool.kernel, l->u.pool.stride,
                                        l->u.pool.pad, l->u.pool.count_padding};
    return ST_OK;
}

static enum status max_create(void *lib, const struct op_env *env, const struct op_node *node,
                              const struct value_desc *values, struct op_info *info, void **op)
{
    size_t k = node->layer->u.pool.kernel;

    if (k * k > UINT8_MAX + 1) {
        return cd_fail_dnn(node, CUDNN_STATUS_NOT_SUPPORTED,
                           "maximum pooling over more than 16x16");
    }
    info->kept_bytes = env->batches[0] * value_elements(&values[node->output]);
    return pool_create(lib, env, node, values, info, op);
}

/* A window over the whole input. */
static enum status global_create(void *lib, const struct op_env *env, const struct op_node *node,
                                 const struct value_desc *values, struct op_info *info, void **op)
{
    struct plain *p;

    TRY(plain_create(lib, env, node, values, info, op));
    p = *op;
    p->args.window = (struct cd_window){p->in[0].shape.h, p->in[0].shape.w, 1, 0, false};
    return ST_OK;
}

static enum status max_forward(void *op, const struct op_io *io)
{
    return forward(op, io, CD_KERNEL_max_pool);
}

static enum status max_backward(void *op, const struct op_io *io)
{
    return backward(op, io, CD_KERNEL_max_pool_gradient);
}

static enum status avg_forward(void *op, const struct op_io *io)
{
    return forward(op, io, CD_KERNEL_avg_pool);
}

static enum status avg_backward(void *op, const struct op_io *io)
{
    return backward(op, io, CD_KERNEL_avg_pool_gradient);
}

const struct op_kind cd_max_pool = {.create = max_create,
                                    .destroy = plain_destroy,
                                    .forward = max_forward,
                                    .backward = max_backward};
const struct op_kind cd_avg_pool = {.create = pool_create,
                                    .destroy = plain_destroy,
                                    .forward = avg_forward,
                                    .backward = avg_backward};
const struct op_kind cd_global_pool = {.create = global_create,
                                       .destroy = plain_destroy,
                                       .forward = avg_forward,
                                       .backward = avg_backward};

/* --- concatenation and the padded shortcut --- */

static enum status concat_forward(void *op, const struct op_io *io)
{
    const struct plain *p = op;
    struct cd_args a = p->args;

    a.out = io->y;
    for (int k = 0; k < p->node->n_inputs; k++) {
        a.in_shape = cd_shape_of(&p->in[k]);
        a.x = io->x[k];
        TRY(launch(p, io, CD_KERNEL_concat, &p->in[k], &a));
        a.first += p->in[k].shape.c;
    }
    return ST_OK;
}

static enum status concat_backward(void *op, const struct op_io *io)
{
    const struct plain *p = op;
    struct cd_args a = p->args;

    a.dy = io->dy[0];
    for (int k = 0; k < p->node->n_inputs; k++) {
        a.in_shape = cd_shape_of(&p->in[k]);
        a.out = io->dx[k];
        if (a.out != NULL) {
            TRY(launch(p, io, CD_KERNEL_concat_gradient, &p->in[k], &a));
        }
        a.first += p->in[k].shape.c;
    }
    return ST_OK;
}

static enum status pad_create(void *lib, const struct op_env *env, const struct op_node *node,
                              const struct value_desc *values, struct op_info *info, void **op)
{
    struct plain *p;

    TRY(plain_create(lib, env, node, values, info, op));
    p = *op;
    p->args.window.stride = node->layer->u.pad_channels.stride;
    return ST_OK;
}

static enum status pad_forward(void *op, const struct op_io *io)
{
    return forward(op, io, CD_KERNEL_pad);
}

static enum status pad_backward(void *op, const struct op_io *io)
{
    return backward(op, io, CD_KERNEL_pad_gradient);
}

const struct op_kind cd_concat = {.create = plain_create,
                                  .destroy = plain_destroy,
                                  .forward = concat_forward,
                                  .backward = concat_backward};
const struct op_kind cd_pad_channels = {.create = pad_create,
                                        .destroy = plain_destroy,
                                        .forward = pad_forward,
                                        .backward = pad_backward};

/* --- local response normalisation --- */

static enum status lrn_create(void *lib, const struct op_env *env, const struct op_node *node,
                              const struct value_desc *values, struct op_info *info, void **op)
{
    const struct layer *l = node->layer;
    struct plain *p;

    TRY(plain_create(lib, env, node, values, info, op));
    p = *op;
    p->args.half = l->u.lrn.size / 2;
    p->args.alpha = (float)(l->u.lrn.alpha / (double)l->u.lrn.size);
    p->args.beta = (float)l->u.lrn.beta;
    p->args.lrn_k = (float)l->u.lrn.k;
    info->needs_x = true;
    return ST_OK;
}

static enum status lrn_forward(void *op, const struct op_io *io)
{
    return forward(op, io, CD_KERNEL_lrn);
}

static enum status lrn_backward(void *op, const struct op_io *io)
{
    return backward(op, io, CD_KERNEL_lrn_gradient);
}

const struct op_kind cd_lrn = {.create = lrn_create,
                               .destroy = plain_destroy,
                               .forward = lrn_forward,
                               .backward = lrn_backward};

/* --- dropout, by the same random numbers as on the CPU, in the order of this layout --- */

static enum status dropout_create(void *lib, const struct op_env *env, const struct op_node *node,
                                  const struct value_desc *values, struct op_info *info, void **op)
{
    double rate = node->layer->u.dropout.rate;
    struct plain *p;

    TRY(plain_create(lib, env, node, values, info, op));
    p = *op;
    p->args.scale = (float)(1.0 / (1.0 - rate));
    p->args.keep_below = (uint32_t)((1.0 - rate) * 4294967295.0);
    p->args.seed = env->seed;
    p->args.purpose = RNG_DROPOUT;
    p->args.stream = (uint64_t)env->rank << 52 | (uint64_t)node->output << 38;
    info->kept_bytes = env->batches[0] * value_elements(&p->out);
    info->over_dy = true;
    return ST_OK;
}

static enum status dropout_forward(void *op, const struct op_io *io)
{
    const struct plain *p = op;
    struct cd_args a = p->args;

    a.x = io->x[0];
    a.out = io->y;
    a.kept = io->kept;
    a.now = io->now;
    return launch(p, io, io->training ? CD_KERNEL_dropout : CD_KERNEL_sum, &p->out, &a);
}

static enum status dropout_backward(void *op, const struct op_io *io)
{
    return backward(op, io, CD_KERNEL_dropout_gradient);
}

const struct op_kind cd_dropout = {.create = dropout_create,
                                   .destroy = plain_destroy,
                                   .forward = dropout_forward,
                                   .backward = dropout_backward};
