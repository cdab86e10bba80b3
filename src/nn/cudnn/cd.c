#include "nn/cudnn/cd.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "device/module.h"

extern MODULE_SHOW const struct module_info espalier_module;

static const char *version(void)
{
    return espalier_module.built_with;
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

/* Version 9 tells kinds of errors apart, by numbers that follow that of their category. */
static bool is_unsupported(cudnnStatus_t e)
{
#ifdef CUDNN_STATUS_CATEGORY
    return CUDNN_STATUS_CATEGORY((int)e) == CUDNN_STATUS_NOT_SUPPORTED;
#else
    return e == CUDNN_STATUS_NOT_SUPPORTED;
#endif
}

static bool is_nomem(cudnnStatus_t e)
{
#ifdef CUDNN_STATUS_CATEGORY
    return e == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           e == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
#else
    return e == CUDNN_STATUS_ALLOC_FAILED;
#endif
}

enum status cd_fail_dnn(const struct op_node *node, cudnnStatus_t e, const char *call)
{
    enum status st = is_unsupported(e) ? ST_UNSUPPORTED : is_nomem(e) ? ST_NOMEM : ST_INTERNAL;

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

_Static_assert((int)CD_F32 == (int)GRAPH_FP32 && (int)CD_BF16 == (int)GRAPH_BF16 &&
                   (int)CD_F16 == (int)GRAPH_FP16,
               "types of values are the same");

/* bf16 and TF32 came with compute capability 8. */
static enum status check_type(const struct cd *c)
{
    int device = 0, major = 0, minor = 0;

    TRY_CUDA(NULL, cudaGetDevice(&device));
    TRY_CUDA(NULL, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    TRY_CUDA(NULL, cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    if (major < 8 && (c->type == CD_BF16 || c->tf32)) {
        return log_fail(ST_UNSUPPORTED,
                        "cuda:%d has compute capability %d.%d and computes no %s, which needs 8.0, "
                        "use [device] compute = fp16 or fp32",
                        device, major, minor, c->tf32 ? "TF32" : "bf16");
    }
    return ST_OK;
}

static enum status name_gpu(struct cd *c)
{
    struct cudaDeviceProp properties;
    int device = 0;

    TRY_CUDA(NULL, cudaGetDevice(&device));
    TRY_CUDA(NULL, cudaGetDeviceProperties(&properties, device)); /* its name is in all versions */
    (void)snprintf(c->gpu, sizeof c->gpu, "%s", properties.name);
    return ST_OK;
}

static enum status fill(struct cd *c, const struct op_env *env)
{
    const struct device_place *p = env->place;

    c->place = p;
    c->type = (enum cd_type)env->compute;
    c->tf32 = env->tf32;
    TRY(p->ops->use(p->set, p->rank));
    c->stream = p->ops->stream_native(p->set, p->stream);
    TRY(check_type(c));
    TRY(name_gpu(c));
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
    struct cd_args args = {.type = c->type, .dy = a, .dy2 = b, .y = y, .out = g};
    cudaError_t e = cd_launch(c->stream, CD_KERNEL_gradient, n * value_elements(v), &args);

    if (e != cudaSuccess && c->failed == ST_OK) {
        c->failed = cd_fail_cuda(NULL, e, "a sum of gradients");
    }
}

/* --- weights and bias --- */

size_t cd_weights_bytes(const struct cd *lib, size_t n)
{
    return lib->type != CD_F32 ? cd_round(n * sizeof(uint16_t)) : 0;
}

enum status cd_weights(const struct cd *lib, const struct op_node *node, const struct op_io *io,
                       size_t n, const void **w)
{
    struct cd_args a = {.type = lib->type, .x = io->w[0], .out = io->scratch};

    *w = lib->type != CD_F32 ? io->scratch : (const void *)io->w[0];
    if (lib->type != CD_F32) {
        TRY_CUDA(node, cd_launch(lib->stream, CD_KERNEL_narrow, n, &a));
    }
    return ST_OK;
}

size_t cd_sums_bytes(size_t channels)
{
    return cd_round(2 * CD_SLICES * channels * sizeof(float));
}

enum status cd_bias(const struct cd *lib, const struct op_node *node, const void *dy,
                    size_t n_pixels, size_t channels, float *sums, float *dbias)
{
    struct cd_args a = {.type = lib->type,
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
