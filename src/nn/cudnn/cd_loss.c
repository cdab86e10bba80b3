#include "base/mem.h"
#include "nn/cudnn/cd.h"

/*
 * Softmax cross-entropy; see onednn/od_loss.c for what counts as correct. The losses of the samples
 * are added on the device in fp64, in their order, and the sum is written to the host's memory, so
 * that the host need not wait for it here.
 */
struct loss {
    const struct cd *lib;
    const struct op_node *node;
    struct value_desc in;
};

static void loss_destroy(void *op)
{
    mem_free(op);
}

static enum status loss_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    struct loss *l = mem_alloc(1, sizeof *l);
    size_t n = env->batches[0];

    if (l == NULL) {
        return ST_NOMEM;
    }
    *op = l;
    l->lib = lib;
    l->node = node;
    l->in = values[node->inputs[0]];
    info->kept_bytes = n * value_elements(&l->in) * sizeof(float);
    info->scratch_bytes[0] = n * sizeof(struct cd_loss_row);
    return ST_OK;
}

static struct cd_args arguments(const struct loss *l, const struct op_io *io)
{
    return (struct cd_args){.type = l->lib->type,
                            .out_shape = {.c = value_elements(&l->in)},
                            .n_samples = io->n,
                            .x = io->x[0],
                            .labels = io->labels,
                            .probabilities = io->kept,
                            .losses = io->scratch,
                            .loss_sum = &io->result->loss_sum,
                            .top1 = &io->result->top1,
                            .top5 = &io->result->top5,
                            .now = io->now};
}

static enum status loss_forward(void *op, const struct op_io *io)
{
    const struct loss *l = op;
    struct cd_args a = arguments(l, io);

    TRY_CUDA(l->node, cd_launch(l->lib->stream, CD_KERNEL_loss, io->n, &a));
    TRY_CUDA(l->node, cd_launch(l->lib->stream, CD_KERNEL_loss_total, 1, &a));
    return l->lib->failed;
}

static enum status loss_backward(void *op, const struct op_io *io)
{
    const struct loss *l = op;
    struct cd_args a = arguments(l, io);

    a.out = io->dx[0];
    TRY_CUDA(l->node, cd_launch(l->lib->stream, CD_KERNEL_loss_gradient,
                                io->n * value_elements(&l->in), &a));
    return ST_OK;
}

const struct op_kind cd_loss = {.create = loss_create,
                                .destroy = loss_destroy,
                                .forward = loss_forward,
                                .backward = loss_backward};
