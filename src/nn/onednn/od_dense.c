#include <string.h>

#include "base/mem.h"
#include "nn/onednn/od.h"

/*
 * Dense layers by oneDNN's sgemm, in fp32 also when activations are bf16. The arena holds
 * w[units, K] with K in the order of the input's layout, so that no activation is reordered;
 * weights of padding are zero.
 */
struct dense {
    const struct od *lib;
    const struct op_node *node;
    struct value_desc in, out;
    size_t units, k; /* k: elements of an input sample in memory */
    size_t x_bytes, y_bytes;
};

static void dense_destroy(void *op)
{
    mem_free(op);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static enum status dense_create(void *lib, const struct op_env *env, const struct op_node *node,
                                const struct value_desc *values, struct op_info *info, void **op)
{
    struct dense *d = mem_alloc(1, sizeof *d);

    if (d == NULL) {
        return ST_NOMEM;
    }
    *op = d;
    d->lib = lib;
    d->node = node;
    d->in = values[node->inputs[0]];
    d->out = values[node->output];
    d->units = node->layer->u.dense.units;
    d->k = value_elements(&d->in);
    /* bf16 operands are widened in scratch memory. */
    d->x_bytes = d->in.dtype == GRAPH_BF16 ? aligned(env->batches[0] * d->k * sizeof(float)) : 0;
    d->y_bytes =
        d->out.dtype == GRAPH_BF16 ? aligned(env->batches[0] * d->units * sizeof(float)) : 0;
    info->needs_x = node->wants_dw;
    info->scratch_bytes[0] = info->scratch_bytes[1] = d->x_bytes + d->y_bytes;
    info->param_n[0] = d->units * d->k;
    info->param_n[1] = d->units;
    return ST_OK;
}

static enum status gemm(const struct dense *d, char ta, char tb, size_t m, size_t n, size_t k,
                        const float *a, size_t lda, const float *b, size_t ldb, float *c)
{
    dnnl_status_t st = dnnl_sgemm(ta, tb, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, a,
                                  (dnnl_dim_t)lda, b, (dnnl_dim_t)ldb, 0.0f, c, (dnnl_dim_t)n);

    return st == dnnl_success ? ST_OK : od_fail(d->node, st, "matrix product");
}

/* `x` as floats: itself, or widened into `scratch`. */
static const float *floats(const struct dense *d, const struct value_desc *v, size_t n,
                           const void *x, float *scratch)
{
    if (v->dtype == GRAPH_FP32) {
        return x;
    }
    d->lib->kern[GRAPH_BF16]->widen(n * value_elements(v), x, scratch);
    return scratch;
}

static float *scratch_x(const struct op_io *io)
{
    return io->scratch;
}

static float *scratch_y(const struct dense *d, const struct op_io *io)
{
    return (float *)(void *)((char *)io->scratch + d->x_bytes);
}

static enum status dense_forward(void *op, const struct op_io *io)
{
    const struct dense *d = op;
    bool bf16 = d->out.dtype == GRAPH_BF16;
    const float *x = floats(d, &d->in, io->n, io->x[0], scratch_x(io));
    float *y = bf16 ? scratch_y(d, io) : io->y;

    TRY(gemm(d, 'N', 'T', io->n, d->units, d->k, x, d->k, io->w[0], d->k, y));
    if (d->node->layer->u.dense.bias || d->node->relu) {
        d->lib->kern[GRAPH_FP32]->bias_rows(
            io->n, d->units, d->node->layer->u.dense.bias ? io->w[1] : NULL, d->node->relu, y);
    }
    if (bf16) {
        d->lib->kern[GRAPH_BF16]->narrow(io->n * d->units, y, io->y);
    }
    return ST_OK;
}

static enum status dense_backward_weights(void *op, const struct op_io *io)
{
    const struct dense *d = op;
    const float *x = floats(d, &d->in, io->n, io->x[0], scratch_x(io));
    const float *dy = floats(d, &d->out, io->n, io->dy[0], scratch_y(d, io));

    if (d->node->layer->u.dense.bias) {
        d->lib->kern[GRAPH_FP32]->sum_rows(io->n, d->units, dy, io->dw[1]);
    }
    return gemm(d, 'T', 'N', d->units, d->k, io->n, dy, d->units, x, d->k, io->dw[0]);
}

static enum status dense_backward(void *op, const struct op_io *io)
{
    const struct dense *d = op;
    bool bf16 = d->in.dtype == GRAPH_BF16;
    const float *dy = floats(d, &d->out, io->n, io->dy[0], scratch_y(d, io));
    float *dx = bf16 ? scratch_x(io) : io->dx[0];

    TRY(gemm(d, 'N', 'N', io->n, d->k, d->units, dy, d->units, io->w[0], d->k, dx));
    if (bf16) {
        d->lib->kern[GRAPH_BF16]->narrow(io->n * d->k, dx, io->dx[0]);
    }
    return ST_OK;
}

static size_t dense_param_index(const void *op, int k, size_t i)
{
    const struct dense *d = op;
    size_t n_in = d->in.shape.c * d->in.shape.h * d->in.shape.w;

    return k > 0 ? i : i / n_in * d->k + value_index(&d->in, i % n_in);
}

const struct op_kind od_dense = {.create = dense_create,
                                 .destroy = dense_destroy,
                                 .forward = dense_forward,
                                 .backward_weights = dense_backward_weights,
                                 .backward = dense_backward,
                                 .param_index = dense_param_index};
