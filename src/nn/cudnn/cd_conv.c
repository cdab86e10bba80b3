#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "nn/cudnn/cd_contest.h"

/*
 * Convolutions by cuDNN's functions for layers, which versions 8 and 9 have alike. The arena holds
 * w[O,H,W,I], the order of channels-last filters. For each pass and batch size, of the algorithms
 * that cuDNN's heuristics propose and that give the same bits every time, the fastest is taken. In
 * 16 bits, weights are narrowed and their gradients widened in scratch memory.
 */
enum pass {
    FORWARD,
    DATA,
    FILTER,
    PASSES
};

struct conv_batch {
    size_t n;
    cudnnTensorDescriptor_t x, y;
    struct cd_candidate chosen[PASSES];
};

struct conv {
    const struct cd *lib;
    const struct op_node *node;
    struct value_desc in, out;
    size_t kernel_h, kernel_w, group_c; /* group_c: input channels that a filter reads */
    size_t n_weights;
    bool bias;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t desc;
    struct conv_batch *batches;
    size_t n_batches;
    size_t work_bytes; /* the largest */
};

static const size_t MAX_WORK_BYTES = (size_t)1 << 30;

static const float one = 1.0f, zero = 0.0f;

static void conv_destroy(void *op)
{
    struct conv *c = op;

    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->n_batches; i++) {
        if (c->batches[i].x != NULL) {
            (void)cudnnDestroyTensorDescriptor(c->batches[i].x);
        }
        if (c->batches[i].y != NULL) {
            (void)cudnnDestroyTensorDescriptor(c->batches[i].y);
        }
    }
    if (c->w != NULL) {
        (void)cudnnDestroyFilterDescriptor(c->w);
    }
    if (c->desc != NULL) {
        (void)cudnnDestroyConvolutionDescriptor(c->desc);
    }
    mem_free(c->batches);
    mem_free(c);
}

static cudnnDataType_t type_of(const struct conv *c)
{
    static const cudnnDataType_t types[] = {
        [CD_F32] = CUDNN_DATA_FLOAT, [CD_BF16] = CUDNN_DATA_BFLOAT16, [CD_F16] = CUDNN_DATA_HALF};

    return types[c->lib->type];
}

static enum status describe_value(const struct conv *c, const struct value_desc *v, size_t n,
                                  cudnnTensorDescriptor_t *out)
{
    TRY_DNN(c->node, cudnnCreateTensorDescriptor(out));
    TRY_DNN(c->node, cudnnSetTensor4dDescriptor(*out, CUDNN_TENSOR_NHWC, type_of(c), (int)n,
                                                (int)v->shape.c, (int)v->shape.h, (int)v->shape.w));
    return ST_OK;
}

static enum status describe(struct conv *c)
{
    const struct layer *l = c->node->layer;
    int pad = (int)l->u.conv.pad, stride = (int)l->u.conv.stride;
    /* Products of fp32 stay fp32 unless TF32 is asked for; 16 bits go to tensor cores. */
    cudnnMathType_t math = c->lib->type != CD_F32 ? CUDNN_TENSOR_OP_MATH
                           : c->lib->tf32         ? CUDNN_DEFAULT_MATH
                                                  : CUDNN_FMA_MATH;

    TRY_DNN(c->node, cudnnCreateFilterDescriptor(&c->w));
    TRY_DNN(c->node,
            cudnnSetFilter4dDescriptor(c->w, type_of(c), CUDNN_TENSOR_NHWC, (int)c->out.shape.c,
                                       (int)c->group_c, (int)c->kernel_h, (int)c->kernel_w));
    TRY_DNN(c->node, cudnnCreateConvolutionDescriptor(&c->desc));
    TRY_DNN(c->node, cudnnSetConvolution2dDescriptor(c->desc, pad, pad, stride, stride, 1, 1,
                                                     CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    TRY_DNN(c->node, cudnnSetConvolutionGroupCount(c->desc, (int)l->u.conv.groups));
    TRY_DNN(c->node, cudnnSetConvolutionMathType(c->desc, math));
    return ST_OK;
}

/* --- the passes --- */

/* A convolution of a batch size. Its memory is x, w and y, or their gradients. */
struct job {
    const struct conv *c;
    const struct conv_batch *b;
};

static cudnnStatus_t run_forward(const void *ctx, int algorithm, void *const m[3], void *work,
                                 size_t bytes)
{
    const struct job *t = ctx;

    return cudnnConvolutionForward(t->c->lib->dnn, &one, t->b->x, m[0], t->c->w, m[1], t->c->desc,
                                   (cudnnConvolutionFwdAlgo_t)algorithm, work, bytes, &zero,
                                   t->b->y, m[2]);
}

static cudnnStatus_t run_data(const void *ctx, int algorithm, void *const m[3], void *work,
                              size_t bytes)
{
    const struct job *t = ctx;

    return cudnnConvolutionBackwardData(t->c->lib->dnn, &one, t->c->w, m[1], t->b->y, m[2],
                                        t->c->desc, (cudnnConvolutionBwdDataAlgo_t)algorithm, work,
                                        bytes, &zero, t->b->x, m[0]);
}

static cudnnStatus_t run_filter(const void *ctx, int algorithm, void *const m[3], void *work,
                                size_t bytes)
{
    const struct job *t = ctx;

    return cudnnConvolutionBackwardFilter(t->c->lib->dnn, &one, t->b->x, m[0], t->b->y, m[2],
                                          t->c->desc, (cudnnConvolutionBwdFilterAlgo_t)algorithm,
                                          work, bytes, &zero, t->c->w, m[1]);
}

static const struct {
    const char *name, *call;
    cudnnStatus_t (*run)(const void *ctx, int algorithm, void *const memory[3], void *work,
                         size_t work_bytes);
} passes[] = {
    [FORWARD] = {"forward", "cudnnConvolutionForward", run_forward},
    [DATA] = {"data", "cudnnConvolutionBackwardData", run_data},
    [FILTER] = {"filter", "cudnnConvolutionBackwardFilter", run_filter},
};

/* --- the choice of algorithms --- */

/* The fastest of those that succeed, fit and are deterministic. */
static enum status contest(struct conv *c, struct conv_batch *b, const struct op_env *env,
                           enum pass pass, const struct cd_candidate *all, int n)
{
    static const char *const types[] = {[CD_F32] = "fp32", [CD_BF16] = "bf16", [CD_F16] = "fp16"};
    const struct layer *l = c->node->layer;
    const struct shape *in = &c->in.shape, *out = &c->out.shape;
    const size_t elem = c->lib->type == CD_F32 ? sizeof(float) : sizeof(uint16_t);
    const struct job job = {c, b};
    struct cd_contest k = {.lib = c->lib, .env = env, .run = passes[pass].run, .ctx = &job};
    int best;

    if (n == 0) {
        return cd_fail_dnn(c->node, CUDNN_STATUS_NOT_SUPPORTED,
                           "the choice of a deterministic algorithm");
    }
    k.bytes[0] = value_bytes(&c->in, b->n);
    k.bytes[1] = c->n_weights * elem;
    k.bytes[2] = value_bytes(&c->out, b->n);
    (void)snprintf(k.key, sizeof k.key,
                   "%.60s | cuDNN %zu | %s %s batch %zu | %zux%zux%zu > %zux%zux%zu kernel %zux%zu "
                   "stride %zu pad %zu groups %zu",
                   c->lib->gpu, cudnnGetVersion(), passes[pass].name,
                   c->lib->tf32 ? "tf32" : types[c->lib->type], b->n, in->c, in->h, in->w, out->c,
                   out->h, out->w, c->kernel_h, c->kernel_w, (size_t)l->u.conv.stride,
                   (size_t)l->u.conv.pad, (size_t)l->u.conv.groups);
    TRY(cd_contest_best(&k, all, n, &best));
    b->chosen[pass] = all[best];
    c->work_bytes = all[best].work_bytes > c->work_bytes ? all[best].work_bytes : c->work_bytes;
    return ST_OK;
}

/*
 * The heuristics' choices that can be taken, best first; the three passes differ in types only.
 * What the heuristics say of the work space holds for a math type that may not be the descriptor's,
 * so `get_bytes`, a call that sets the work_bytes of all[n] for its algorithm, asks for it anew.
 */
#define CANDIDATES(perf, n_perf, all, n, get_bytes)                                                \
    do {                                                                                           \
        for (int k_ = 0; k_ < (n_perf); k_++) {                                                    \
            (all)[n] = (struct cd_candidate){.algorithm = (int)(perf)[k_].algo};                   \
            if ((perf)[k_].status == CUDNN_STATUS_SUCCESS &&                                       \
                (perf)[k_].determinism == CUDNN_DETERMINISTIC &&                                   \
                (get_bytes) == CUDNN_STATUS_SUCCESS && (all)[n].work_bytes <= MAX_WORK_BYTES) {    \
                (n)++;                                                                             \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static enum status choose_forward(struct conv *c, struct conv_batch *b, const struct op_env *env)
{
    cudnnConvolutionFwdAlgoPerf_t perf[CD_CANDIDATES];
    struct cd_candidate all[CD_CANDIDATES];
    int n_perf = 0, n = 0;

    TRY_DNN(c->node, cudnnGetConvolutionForwardAlgorithm_v7(c->lib->dnn, b->x, c->w, c->desc, b->y,
                                                            CD_CANDIDATES, &n_perf, perf));
    CANDIDATES(perf, n_perf, all, n,
               cudnnGetConvolutionForwardWorkspaceSize(c->lib->dnn, b->x, c->w, c->desc, b->y,
                                                       (cudnnConvolutionFwdAlgo_t)all[n].algorithm,
                                                       &all[n].work_bytes));
    return contest(c, b, env, FORWARD, all, n);
}

static enum status choose_data(struct conv *c, struct conv_batch *b, const struct op_env *env)
{
    cudnnConvolutionBwdDataAlgoPerf_t perf[CD_CANDIDATES];
    struct cd_candidate all[CD_CANDIDATES];
    int n_perf = 0, n = 0;

    TRY_DNN(c->node, cudnnGetConvolutionBackwardDataAlgorithm_v7(
                         c->lib->dnn, c->w, b->y, c->desc, b->x, CD_CANDIDATES, &n_perf, perf));
    CANDIDATES(perf, n_perf, all, n,
               cudnnGetConvolutionBackwardDataWorkspaceSize(
                   c->lib->dnn, c->w, b->y, c->desc, b->x,
                   (cudnnConvolutionBwdDataAlgo_t)all[n].algorithm, &all[n].work_bytes));
    return contest(c, b, env, DATA, all, n);
}

static enum status choose_filter(struct conv *c, struct conv_batch *b, const struct op_env *env)
{
    cudnnConvolutionBwdFilterAlgoPerf_t perf[CD_CANDIDATES];
    struct cd_candidate all[CD_CANDIDATES];
    int n_perf = 0, n = 0;

    TRY_DNN(c->node, cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                         c->lib->dnn, b->x, b->y, c->desc, c->w, CD_CANDIDATES, &n_perf, perf));
    CANDIDATES(perf, n_perf, all, n,
               cudnnGetConvolutionBackwardFilterWorkspaceSize(
                   c->lib->dnn, b->x, b->y, c->desc, c->w,
                   (cudnnConvolutionBwdFilterAlgo_t)all[n].algorithm, &all[n].work_bytes));
    return contest(c, b, env, FILTER, all, n);
}

static enum status make_batch(struct conv *c, const struct op_env *env, size_t n,
                              struct conv_batch *b)
{
    b->n = n;
    TRY(describe_value(c, &c->in, n, &b->x));
    TRY(describe_value(c, &c->out, n, &b->y));
    TRY(choose_forward(c, b, env));
    if (c->node->wants_dx[0]) {
        TRY(choose_data(c, b, env));
    }
    if (c->node->wants_dw) {
        TRY(choose_filter(c, b, env));
    }
    return ST_OK;
}

/* Parts of the scratch memory. */
static size_t weights_bytes(const struct conv *c)
{
    return cd_weights_bytes(c->lib, c->n_weights);
}

static char *work_of(const struct conv *c, const struct op_io *io)
{
    return (char *)io->scratch + weights_bytes(c);
}

static enum status conv_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    struct conv *c = mem_alloc(1, sizeof *c);
    const struct layer *l = node->layer;
    size_t sums;

    if (c == NULL) {
        return ST_NOMEM;
    }
    *op = c;
    c->lib = lib;
    c->node = node;
    c->in = values[node->inputs[0]];
    c->out = values[node->output];
    c->kernel_h = l->u.conv.kernel_h;
    c->kernel_w = l->u.conv.kernel_w;
    c->group_c = c->in.shape.c / l->u.conv.groups;
    c->n_weights = c->out.shape.c * c->group_c * c->kernel_h * c->kernel_w;
    c->bias = l->u.conv.bias;
    c->batches = mem_alloc(env->n_batches, sizeof *c->batches);
    if (c->batches == NULL) {
        return ST_NOMEM;
    }
    TRY(describe(c));
    for (; c->n_batches < env->n_batches;) {
        struct conv_batch *b = &c->batches[c->n_batches++];
        TRY(make_batch(c, env, env->batches[c->n_batches - 1], b));
    }
    sums = c->bias ? cd_sums_bytes(c->out.shape.c) : 0;
    info->needs_x = node->wants_dw;
    info->param_n[0] = c->n_weights;
    info->param_n[1] = c->bias ? c->out.shape.c : 0;
    info->derived_bytes = weights_bytes(c);
    info->scratch_bytes[0] = weights_bytes(c) + c->work_bytes;
    info->scratch_bytes[1] = weights_bytes(c) + (c->work_bytes > sums ? c->work_bytes : sums);
    return ST_OK;
}

static enum status run_pass(const struct conv *c, const struct op_io *io, enum pass pass,
                            void *const memory[3])
{
    const struct conv_batch *b = &c->batches[io->batch];
    const struct cd_candidate *k = &b->chosen[pass];
    const struct job job = {c, b};
    cudnnStatus_t e = passes[pass].run(&job, k->algorithm, memory, work_of(c, io), k->work_bytes);

    return e == CUDNN_STATUS_SUCCESS ? ST_OK : cd_fail_dnn(c->node, e, passes[pass].call);
}

static enum status conv_forward(void *op, const struct op_io *io)
{
    const struct conv *c = op;
    struct cd_args a = {.type = c->lib->type,
                        .relu = c->node->relu,
                        .out_shape = cd_shape_of(&c->out),
                        .x = io->y,
                        .out = io->y,
                        .bias = c->bias ? io->w[1] : NULL};
    const void *w;

    TRY(cd_weights(c->lib, c->node, io, c->n_weights, &w));
    TRY(run_pass(c, io, FORWARD, (void *[]){(void *)io->x[0], (void *)w, io->y}));
    if (c->bias || c->node->relu) {
        TRY_CUDA(c->node,
                 cd_launch(c->lib->stream, CD_KERNEL_sum, io->n * value_elements(&c->out), &a));
    }
    return ST_OK;
}

static enum status conv_backward_weights(void *op, const struct op_io *io)
{
    const struct conv *c = op;
    struct cd_args widen = {.type = c->lib->type, .x = io->scratch, .out = io->dw[0]};
    void *dw = c->lib->type != CD_F32 ? io->scratch : (void *)io->dw[0];
    size_t pixels = io->n * c->out.shape.h * c->out.shape.w;

    TRY(run_pass(c, io, FILTER, (void *[]){(void *)io->x[0], dw, (void *)io->dy[0]}));
    if (c->lib->type != CD_F32) {
        TRY_CUDA(c->node, cd_launch(c->lib->stream, CD_KERNEL_widen, c->n_weights, &widen));
    }
    return c->bias ? cd_bias(c->lib, c->node, io->dy[0], pixels, c->out.shape.c,
                             (float *)(void *)work_of(c, io), io->dw[1])
                   : ST_OK;
}

static enum status conv_backward(void *op, const struct op_io *io)
{
    const struct conv *c = op;
    const void *w;

    TRY(cd_weights(c->lib, c->node, io, c->n_weights, &w));
    return run_pass(c, io, DATA, (void *[]){io->dx[0], (void *)w, (void *)io->dy[0]});
}

/* OIHW to OHWI. */
static size_t conv_param_index(const void *op, int k, size_t i)
{
    const struct conv *c = op;
    size_t pixels = c->kernel_h * c->kernel_w, o, in, p;

    if (k == 1) {
        return i;
    }
    p = i % pixels;
    in = i / pixels % c->group_c;
    o = i / pixels / c->group_c;
    return (o * pixels + p) * c->group_c + in;
}

const struct op_kind cd_conv = {.create = conv_create,
                                .destroy = conv_destroy,
                                .forward = conv_forward,
                                .backward_weights = conv_backward_weights,
                                .backward = conv_backward,
                                .param_index = conv_param_index};
