#ifndef NN_CUDNN_CD_H
#define NN_CUDNN_CD_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "nn/cudnn/cd_launch.h"
#include "nn/ops.h"

#if CUDNN_MAJOR < 8
#error "cuDNN 8 or newer is needed"
#endif

/*
 * The op library on a GPU: convolutions are cuDNN's, matrix products cuBLASLt's, and everything
 * that is bound by memory our kernels, which fuse more. All calls go to the stream of the place,
 * and all memory is its device's, but the result of a forward pass. Values are channels-last in the
 * type of the computation; parameters and their gradients are fp32.
 */
struct cd {
    cudnnHandle_t dnn;
    cublasLtHandle_t blas;
    cudaStream_t stream;
    const struct device_place *place; /* of the stream */
    enum cd_type type;
    bool tf32;
    char gpu[256];      /* its name */
    enum status failed; /* of a call that returns nothing; passed up by the next one */
};

enum {
    CD_ALIGN = 256,           /* of parts of scratch memory */
    CD_DENSE_BYTES = 32 << 20 /* work space of a matrix product; what the newest GPUs ask for */
};

/* Log the failure of a library for a node; ST_NOMEM where memory is out, else ST_UNSUPPORTED for
 * what a library does not have and ST_INTERNAL. */
MUST_CHECK enum status cd_fail_cuda(const struct op_node *node, cudaError_t e, const char *call);
MUST_CHECK enum status cd_fail_dnn(const struct op_node *node, cudnnStatus_t e, const char *call);
MUST_CHECK enum status cd_fail_blas(const struct op_node *node, cublasStatus_t e, const char *call);

#define CD_TRY(fail, good, node, call)                                                             \
    do {                                                                                           \
        int cd_e_ = (int)(call);                                                                   \
        if (cd_e_ != (int)(good)) {                                                                \
            return fail(node, cd_e_, #call);                                                       \
        }                                                                                          \
    } while (0)
#define TRY_CUDA(node, call) CD_TRY(cd_fail_cuda, cudaSuccess, node, call)
#define TRY_DNN(node, call) CD_TRY(cd_fail_dnn, CUDNN_STATUS_SUCCESS, node, call)
#define TRY_BLAS(node, call) CD_TRY(cd_fail_blas, CUBLAS_STATUS_SUCCESS, node, call)

extern const struct op_kind cd_input, cd_conv, cd_dense, cd_norm, cd_relu, cd_add, cd_max_pool,
    cd_avg_pool, cd_global_pool, cd_concat, cd_pad_channels, cd_lrn, cd_dropout, cd_loss;

static inline size_t cd_round(size_t bytes)
{
    return (bytes + CD_ALIGN - 1) / CD_ALIGN * CD_ALIGN;
}

static inline struct cd_shape cd_shape_of(const struct value_desc *v)
{
    return (struct cd_shape){v->shape.c, v->shape.h, v->shape.w};
}

/* The `n` weights in the type of the computation: narrowed at the beginning of the scratch memory,
 * which takes so many bytes, or those of the arena. */
size_t cd_weights_bytes(const struct cd *lib, size_t n);
MUST_CHECK enum status cd_weights(const struct cd *lib, const struct op_node *node,
                                  const struct op_io *io, size_t n, const void **w);

/* The sums of gradients of a bias: work space, and dbias[C] from dy, of `n_pixels` pixels. */
size_t cd_sums_bytes(size_t channels);
MUST_CHECK enum status cd_bias(const struct cd *lib, const struct op_node *node, const void *dy,
                               size_t n_pixels, size_t channels, float *sums, float *dbias);

#endif
