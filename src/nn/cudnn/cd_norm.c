#include "base/mem.h"
#include "nn/cudnn/cd.h"

/* Batch norm, fused with an addition and a ReLU, by kernels of our own: cuDNN fuses them for 16-bit
 * values only. Statistics and sums of gradients are fp32 slices, added up in fp64. */
struct norm {
    const struct cd *lib;
    const struct op_node *node;
    struct value_desc v;
    float eps, momentum;
};

static void norm_destroy(void *op)
{
    mem_free(op);
}

static enum status norm_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    struct norm *b = mem_alloc(1, sizeof *b);

    (void)env;
    if (b == NULL) {
        return ST_NOMEM;
    }
    *op = b;
    b->lib = lib;
    b->node = node;
    b->v = values[node->output];
    b->eps = (float)node->layer->u.norm.eps;
    b->momentum = (float)node->layer->u.norm.momentum;
    info->needs_x = info->takes_two = info->masks = true;
    info->needs_y = node->relu;
    info->over_dy = info->rest_over_dy = true; /* every element is read before it is written */
    info->kept_bytes = 2 * b->v.shape.c * sizeof(float);
    info->scratch_bytes[0] = cd_sums_bytes(b->v.shape.c);
    info->scratch_bytes[1] = cd_sums_bytes(b->v.shape.c) + 2 * b->v.shape.c * sizeof(float);
    info->param_n[0] = info->param_n[1] = b->v.shape.c;
    info->state_n = 2 * b->v.shape.c;
    return ST_OK;
}

/* What all kernels of a call read. */
static struct cd_args arguments(const struct norm *b, const struct op_io *io)
{
    size_t c = b->v.shape.c;

    return (struct cd_args){.type = b->lib->type,
                            .relu = b->node->relu,
                            .out_shape = cd_shape_of(&b->v),
                            .n_pixels = io->n * b->v.shape.h * b->v.shape.w,
                            .x = io->x[0],
                            .gamma = io->w[0],
                            .bias = io->w[1],
                            .mean = io->kept,
                            .inv_std = (float *)io->kept + c,
                            .sums = io->scratch,
                            .state = io->state,
                            .eps = b->eps,
                            .momentum = b->momentum};
}

static enum status norm_forward(void *op, const struct op_io *io)
{
    const struct norm *b = op;
    size_t c = b->v.shape.c;
    cudaStream_t s = b->lib->stream;
    struct cd_args a = arguments(b, io);

    a.x2 = b->node->add ? io->x[1] : NULL;
    a.out = io->y;
    if (io->training) {
        TRY_CUDA(b->node, cd_launch(s, CD_KERNEL_norm_slice, CD_SLICES * c, &a));
        TRY_CUDA(b->node, cd_launch(s, CD_KERNEL_norm_batch, c, &a));
    } else {
        TRY_CUDA(b->node, cd_launch(s, CD_KERNEL_norm_running, c, &a));
    }
    TRY_CUDA(b->node, cd_launch(s, CD_KERNEL_norm_apply, a.n_pixels * c, &a));
    return ST_OK;
}

static enum status norm_backward(void *op, const struct op_io *io)
{
    const struct norm *b = op;
    size_t c = b->v.shape.c;
    cudaStream_t s = b->lib->stream;
    struct cd_args a = arguments(b, io);

    a.dy = io->dy[0];
    a.dy2 = io->dy[1];
    a.y = b->node->relu ? io->y : NULL;
    a.dgamma = io->dw[0];
    a.dbias = io->dw[1];
    a.coefficients = (float *)(void *)((char *)io->scratch + cd_sums_bytes(c));
    a.out = io->dx[0];
    a.out2 = b->node->add ? io->dx[1] : NULL;
    TRY_CUDA(b->node, cd_launch(s, CD_KERNEL_slice, CD_SLICES * c, &a));
    TRY_CUDA(b->node, cd_launch(s, CD_KERNEL_norm_sums, c, &a));
    TRY_CUDA(b->node, cd_launch(s, CD_KERNEL_norm_gradient, a.n_pixels * c, &a));
    return ST_OK;
}

const struct op_kind cd_norm = {.create = norm_create,
                                .destroy = norm_destroy,
                                .forward = norm_forward,
                                .backward = norm_backward};
