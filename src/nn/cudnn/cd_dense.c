#include "base/mem.h"
#include "nn/cudnn/cd.h"

/*
 * Dense layers by cuBLASLt. It counts in columns, so our row-major x[N,K], w[U,K] and y[N,U] are
 * its K x N, K x U and U x N matrices without a copy:
 *
 *     y = w^T x      dx = w dy      dw = x dy^T
 *
 * In fp32, bias and ReLU are added by the product itself. In 16 bits weights are narrowed in
 * scratch memory, gradients of weights come out as fp32, and bias and ReLU are a kernel of ours.
 */
enum pass {
    FORWARD,
    WEIGHTS,
    DATA,
    PASSES
};

/* What the library's heuristics chose for a pass and a batch size, at its first call. */
struct choice {
    cublasLtMatmulAlgo_t algo;
    bool made;
};

struct dense {
    const struct cd *lib;
    struct choice *choices; /* [n_batches, PASSES] */
    const struct op_node *node;
    struct value_desc in, out;
    size_t k, units;
    bool bias;
};

/* An operand: rows and columns as the library counts them. */
struct matrix {
    const void *p;
    cudaDataType_t type;
    size_t rows, cols;
    bool transposed;
};

static void dense_destroy(void *op)
{
    struct dense *d = op;

    if (d != NULL) {
        mem_free(d->choices);
        mem_free(d);
    }
}

static size_t weights_bytes(const struct dense *d)
{
    return cd_weights_bytes(d->lib, d->units * d->k);
}

static enum status dense_create(void *lib, const struct op_env *env, const struct op_node *node,
                                const struct value_desc *values, struct op_info *info, void **op)
{
    struct dense *d = mem_alloc(1, sizeof *d);
    size_t sums;

    if (d == NULL) {
        return ST_NOMEM;
    }
    *op = d;
    d->choices = mem_alloc(env->n_batches * PASSES, sizeof *d->choices);
    if (d->choices == NULL) {
        return ST_NOMEM;
    }
    d->lib = lib;
    d->node = node;
    d->in = values[node->inputs[0]];
    d->out = values[node->output];
    d->k = value_elements(&d->in);
    d->units = node->layer->u.dense.units;
    d->bias = node->layer->u.dense.bias;
    sums = d->bias ? cd_sums_bytes(d->units) : 0;
    info->needs_x = node->wants_dw;
    info->param_n[0] = d->units * d->k;
    info->param_n[1] = d->bias ? d->units : 0;
    info->derived_bytes = weights_bytes(d);
    info->scratch_bytes[0] = weights_bytes(d) + CD_DENSE_BYTES;
    info->scratch_bytes[1] = weights_bytes(d) + CD_DENSE_BYTES + sums;
    return ST_OK;
}

static enum status set(const struct dense *d, cublasLtMatmulDesc_t desc,
                       cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes)
{
    TRY_BLAS(d->node, cublasLtMatmulDescSetAttribute(desc, attribute, value, bytes));
    return ST_OK;
}

static enum status set_operation(const struct dense *d, cublasLtMatmulDesc_t desc,
                                 const struct matrix *a, const struct matrix *b,
                                 cublasLtEpilogue_t epilogue, const float *bias)
{
    cublasOperation_t ta = a->transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t tb = b->transposed ? CUBLAS_OP_T : CUBLAS_OP_N;

    TRY(set(d, desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta));
    TRY(set(d, desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb));
    TRY(set(d, desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (bias != NULL) {
        TRY(set(d, desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    }
    return ST_OK;
}

/* A product: out = a b, each as stored or transposed. */
struct product {
    struct matrix a, b, out;
    cublasLtEpilogue_t epilogue;
    const float *bias;
    void *work;
};

struct layouts {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, out;
};

static enum status set_wish(const struct dense *d, cublasLtMatmulPreference_t wish,
                            cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                            size_t bytes)
{
    TRY_BLAS(d->node, cublasLtMatmulPreferenceSetAttribute(wish, attribute, value, bytes));
    return ST_OK;
}

static enum status choose(const struct dense *d, struct layouts *l, struct choice *choice)
{
    cublasLtMatmulPreferenceOpaque_t wish;
    cublasLtMatmulHeuristicResult_t found;
    uint64_t work = CD_DENSE_BYTES;
    int n = 0;

    TRY_BLAS(d->node, cublasLtMatmulPreferenceInit(&wish));
    TRY(set_wish(d, &wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work, sizeof work));
    TRY_BLAS(d->node, cublasLtMatmulAlgoGetHeuristic(d->lib->blas, &l->desc, &l->a, &l->b, &l->out,
                                                     &l->out, &wish, 1, &found, &n));
    if (n < 1) {
        return cd_fail_blas(d->node, CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
    }
    choice->algo = found.algo;
    choice->made = true;
    return ST_OK;
}

static enum status set_layout(const struct dense *d, const struct matrix *m,
                              cublasLtMatrixLayoutOpaque_t *out)
{
    TRY_BLAS(d->node, cublasLtMatrixLayoutInit(out, m->type, m->rows, m->cols, (int64_t)m->rows));
    return ST_OK;
}

static enum status multiply(const struct dense *d, const struct product *p, struct choice *choice)
{
    const float one = 1.0f, zero = 0.0f;
    cublasComputeType_t compute = d->lib->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    void *out = (void *)p->out.p;
    struct layouts l;

    TRY_BLAS(d->node, cublasLtMatmulDescInit(&l.desc, compute, CUDA_R_32F));
    TRY(set_operation(d, &l.desc, &p->a, &p->b, p->epilogue, p->bias));
    TRY(set_layout(d, &p->a, &l.a));
    TRY(set_layout(d, &p->b, &l.b));
    TRY(set_layout(d, &p->out, &l.out));
    if (!choice->made) {
        TRY(choose(d, &l, choice));
    }
    TRY_BLAS(d->node, cublasLtMatmul(d->lib->blas, &l.desc, &one, p->a.p, &l.a, p->b.p, &l.b, &zero,
                                     out, &l.out, out, &l.out, &choice->algo, p->work,
                                     CD_DENSE_BYTES, d->lib->stream));
    return ST_OK;
}

static struct choice *choice_of(const struct dense *d, const struct op_io *io, enum pass pass)
{
    return &d->choices[io->batch * PASSES + pass];
}

static struct matrix matrix(const struct dense *d, const void *p, size_t rows, size_t cols,
                            bool transposed)
{
    static const cudaDataType_t types[] = {
        [CD_F32] = CUDA_R_32F, [CD_BF16] = CUDA_R_16BF, [CD_F16] = CUDA_R_16F};

    return (struct matrix){p, types[d->lib->type], rows, cols, transposed};
}

static void *work_of(const struct dense *d, const struct op_io *io)
{
    return (char *)io->scratch + weights_bytes(d);
}

static cublasLtEpilogue_t epilogue_of(const struct dense *d)
{
    if (d->lib->type != CD_F32) {
        return CUBLASLT_EPILOGUE_DEFAULT;
    }
    return d->bias ? (d->node->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                   : (d->node->relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT);
}

static enum status dense_forward(void *op, const struct op_io *io)
{
    const struct dense *d = op;
    const float *bias = d->bias ? io->w[1] : NULL;
    struct cd_args a = {.type = d->lib->type,
                        .relu = d->node->relu,
                        .out_shape = {.c = d->units},
                        .x = io->y,
                        .out = io->y,
                        .bias = bias};
    struct product p = {.b = matrix(d, io->x[0], d->k, io->n, false),
                        .out = matrix(d, io->y, d->units, io->n, false),
                        .epilogue = epilogue_of(d),
                        .bias = d->lib->type != CD_F32 ? NULL : bias,
                        .work = work_of(d, io)};
    const void *w;

    TRY(cd_weights(d->lib, d->node, io, d->units * d->k, &w));
    p.a = matrix(d, w, d->k, d->units, true);
    TRY(multiply(d, &p, choice_of(d, io, FORWARD)));
    if (d->lib->type != CD_F32 && (d->bias || d->node->relu)) {
        TRY_CUDA(d->node, cd_launch(d->lib->stream, CD_KERNEL_sum, io->n * d->units, &a));
    }
    return ST_OK;
}

static enum status dense_backward_weights(void *op, const struct op_io *io)
{
    const struct dense *d = op;
    struct product p = {.a = matrix(d, io->x[0], d->k, io->n, false),
                        .b = matrix(d, io->dy[0], d->units, io->n, true),
                        .out = {io->dw[0], CUDA_R_32F, d->k, d->units, false},
                        .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                        .work = work_of(d, io)};
    float *sums = (float *)(void *)((char *)work_of(d, io) + CD_DENSE_BYTES);

    TRY(multiply(d, &p, choice_of(d, io, WEIGHTS)));
    return d->bias ? cd_bias(d->lib, d->node, io->dy[0], io->n, d->units, sums, io->dw[1]) : ST_OK;
}

static enum status dense_backward(void *op, const struct op_io *io)
{
    const struct dense *d = op;
    struct product p = {.b = matrix(d, io->dy[0], d->units, io->n, false),
                        .out = matrix(d, io->dx[0], d->k, io->n, false),
                        .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                        .work = work_of(d, io)};
    const void *w;

    TRY(cd_weights(d->lib, d->node, io, d->units * d->k, &w));
    p.a = matrix(d, w, d->k, d->units, false);
    return multiply(d, &p, choice_of(d, io, DATA));
}

/* [units, C·H·W] to the order of the input's layout. */
static size_t dense_param_index(const void *op, int k, size_t i)
{
    const struct dense *d = op;

    return k == 1 ? i : i / d->k * d->k + value_index(&d->in, i % d->k);
}

const struct op_kind cd_dense = {.create = dense_create,
                                 .destroy = dense_destroy,
                                 .forward = dense_forward,
                                 .backward_weights = dense_backward_weights,
                                 .backward = dense_backward,
                                 .param_index = dense_param_index};
