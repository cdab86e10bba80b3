#include "nn/cudnn/cd.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "device/module.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

static const char *version(void)
{
    return "CUDA " ESPALIER_CUDA_VERSION
           ", cuDNN " TEXT(CUDNN_MAJOR) "." TEXT(CUDNN_MINOR) "." TEXT(CUDNN_PATCHLEVEL);
}

/* --- errors --- */

static enum status fail(const struct op_node *node, enum status st, const char *why,
                        const char *call)
{
    struct shape in, out;

    if (node == NULL) {
        return log_fail(st, "CUDA: %s, in %s, run scripts/gpu-check for the state of the GPU", why,
                        call);
    }
    in = net_layer(node->net, node->inputs[0])->out;
    out = node->layer->out;
    return log_fail(st, "CUDA: %s, layer %s from %zux%zux%zu to %zux%zux%zu, in %s%s", why,
                    node->layer->name, in.c, in.h, in.w, out.c, out.h, out.w, call,
                    st == ST_NOMEM ? ", use a smaller batch" : "");
}

enum status cd_fail_cuda(const struct op_node *node, cudaError_t e, const char *call)
{
    (void)cudaGetLastError(); /* so that no later call reports it again */
    return fail(node, e == cudaErrorMemoryAllocation ? ST_NOMEM : ST_INTERNAL,
                cudaGetErrorString(e), call);
}

enum status cd_fail_dnn(const struct op_node *node, cudnnStatus_t e, const char *call)
{
    enum status st = e == CUDNN_STATUS_NOT_SUPPORTED ? ST_UNSUPPORTED : ST_INTERNAL;

    return fail(node, st, cudnnGetErrorString(e), call);
}

enum status cd_fail_blas(const struct op_node *node, cublasStatus_t e, const char *call)
{
    enum status st = e == CUBLAS_STATUS_NOT_SUPPORTED  ? ST_UNSUPPORTED
                     : e == CUBLAS_STATUS_ALLOC_FAILED ? ST_NOMEM
                                                       : ST_INTERNAL;

    return fail(node, st, cublasLtGetStatusString(e), call);
}

/* --- life --- */

static void attach(void *lib)
{
    const struct cd *c = lib;

    (void)!c->place->ops->use(c->place->set, c->place->rank); /* the next call shows a failure */
}

static void close_lib(void *lib)
{
    struct cd *c = lib;

    if (c == NULL) {
        return;
    }
    attach(c);
    if (c->dnn != NULL) {
        (void)cudnnDestroy(c->dnn);
    }
    if (c->blas != NULL) {
        (void)cublasLtDestroy(c->blas);
    }
    mem_free(c);
}

static enum status fill(struct cd *c, const struct op_env *env)
{
    const struct device_place *p = env->place;

    c->place = p;
    c->bf16 = env->compute == GRAPH_BF16;
    TRY(p->ops->use(p->set, p->rank));
    c->stream = p->ops->stream_native(p->set, p->stream);
    TRY_DNN(NULL, cudnnCreate(&c->dnn));
    TRY_DNN(NULL, cudnnSetStream(c->dnn, c->stream));
    TRY_BLAS(NULL, cublasLtCreate(&c->blas));
    return ST_OK;
}

static enum status open_lib(const struct op_env *env, void **lib)
{
    struct cd *c = mem_alloc(1, sizeof *c);
    enum status st;

    if (c == NULL) {
        return ST_NOMEM;
    }
    st = fill(c, env);
    if (st != ST_OK) {
        close_lib(c);
        return st;
    }
    *lib = c;
    return ST_OK;
}

/* All values alike: tensor cores want channels last. */
static enum status arrange(void *lib, const struct op_env *env, const struct op_node *nodes,
                           int n_nodes, struct value_desc *values)
{
    (void)lib;
    for (int i = 0; i < n_nodes; i++) {
        values[nodes[i].output].layout = LAYOUT_NHWC;
        values[nodes[i].output].dtype = env->compute;
    }
    return ST_OK;
}

static void gradient(void *lib, const struct value_desc *v, size_t n, const void *y, const void *a,
                     const void *b, void *g)
{
    struct cd *c = lib;
    struct cd_args args = {.bf16 = c->bf16, .dy = a, .dy2 = b, .y = y, .out = g};
    cudaError_t e = cd_launch(c->stream, CD_KERNEL_gradient, n * value_elements(v), &args);

    if (e != cudaSuccess && c->failed == ST_OK) {
        c->failed = cd_fail_cuda(NULL, e, "a sum of gradients");
    }
}

/* --- bias --- */

size_t cd_sums_bytes(size_t channels)
{
    return cd_round(2 * CD_SLICES * channels * sizeof(float));
}

enum status cd_bias(const struct cd *lib, const struct op_node *node, const void *dy,
                    size_t n_pixels, size_t channels, float *sums, float *dbias)
{
    struct cd_args a = {.bf16 = lib->bf16,
                        .out_shape = {.c = channels},
                        .n_pixels = n_pixels,
                        .dy = dy,
                        .sums = sums,
                        .dbias = dbias};

    TRY_CUDA(node, cd_launch(lib->stream, CD_KERNEL_slice, CD_SLICES * channels, &a));
    TRY_CUDA(node, cd_launch(lib->stream, CD_KERNEL_bias_gradient, channels, &a));
    return ST_OK;
}

extern MODULE_SHOW const struct nn_ops espalier_cuda_nn;

const struct nn_ops espalier_cuda_nn = {
    .name = "cudnn",
    .version = version,
    .open = open_lib,
    .close = close_lib,
    .arrange = arrange,
    .gradient = gradient,
    .attach = attach,
    .kinds =
        {
            [LAYER_INPUT] = &cd_input,
            [LAYER_CONV2D] = &cd_conv,
            [LAYER_BATCH_NORM] = &cd_norm,
            [LAYER_RELU] = &cd_relu,
            [LAYER_MAX_POOL] = &cd_max_pool,
            [LAYER_AVG_POOL] = &cd_avg_pool,
            [LAYER_GLOBAL_POOL] = &cd_global_pool,
            [LAYER_DENSE] = &cd_dense,
            [LAYER_ADD] = &cd_add,
            [LAYER_CONCAT] = &cd_concat,
            [LAYER_LRN] = &cd_lrn,
            [LAYER_DROPOUT] = &cd_dropout,
            [LAYER_PAD_CHANNELS] = &cd_pad_channels,
            [LAYER_SOFTMAX_LOSS] = &cd_loss,
        },
};
