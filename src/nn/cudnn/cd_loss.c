#include "base/mem.h"
#include "nn/cudnn/cd.h"

/*
 * Softmax cross-entropy; see onednn/od_loss.c for what counts as correct. The losses of the samples
 * come to the host and are added there in fp64, in their order: the one place of a pass where the
 * host waits for the device.
 */
struct loss {
    const struct cd *lib;
    const struct op_node *node;
    struct value_desc in;
    size_t labels_bytes;      /* of what is kept, before the probabilities */
    struct cd_loss_row *rows; /* of the host */
};

static void loss_destroy(void *op)
{
    struct loss *l = op;

    if (l != NULL) {
        (void)cudaFreeHost(l->rows); /* takes NULL */
        mem_free(l);
    }
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
    l->labels_bytes = cd_round(n * sizeof(int32_t));
    TRY_CUDA(node, cudaHostAlloc((void **)&l->rows, n * sizeof *l->rows, cudaHostAllocPortable));
    info->kept_bytes = l->labels_bytes + n * value_elements(&l->in) * sizeof(float);
    info->scratch_bytes[0] = n * sizeof *l->rows;
    return ST_OK;
}

static struct cd_args arguments(const struct loss *l, const struct op_io *io)
{
    return (struct cd_args){.bf16 = l->lib->bf16,
                            .out_shape = {.c = value_elements(&l->in)},
                            .x = io->x[0],
                            .labels = io->kept,
                            .probabilities = (float *)(void *)((char *)io->kept + l->labels_bytes),
                            .losses = io->scratch,
                            .scale = io->scale};
}

static enum status loss_forward(void *op, const struct op_io *io)
{
    const struct loss *l = op;
    cudaStream_t s = l->lib->stream;
    struct cd_args a = arguments(l, io);

    TRY_CUDA(l->node, cudaMemcpyAsync(io->kept, io->labels, io->n * sizeof *io->labels,
                                      cudaMemcpyHostToDevice, s));
    TRY_CUDA(l->node, cd_launch(s, CD_KERNEL_loss, io->n, &a));
    TRY_CUDA(l->node, cudaMemcpyAsync(l->rows, io->scratch, io->n * sizeof *l->rows,
                                      cudaMemcpyDeviceToHost, s));
    TRY_CUDA(l->node, cudaStreamSynchronize(s));
    for (size_t i = 0; i < io->n; i++) {
        io->result->loss_sum += (double)l->rows[i].loss;
        io->result->top1 += l->rows[i].better < 1;
        io->result->top5 += l->rows[i].better < 5;
    }
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
