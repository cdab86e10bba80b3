#ifndef NN_CUDNN_CD_ARGS_H
#define NN_CUDNN_CD_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/op_now.h"

/* The operands of the kernels of cd_kernel.h; each uses what its comment names. */
enum {
    CD_SLICES = 256 /* of sums over all pixels */
};

enum cd_type { /* of values and their gradients; the same numbers as enum graph_dtype */
    CD_F32,
    CD_BF16,
    CD_F16
};

struct cd_shape {
    size_t c, h, w;
};

struct cd_window {
    size_t kernel_h, kernel_w, stride, pad;
    bool count_padding;
};

struct cd_loss_row {
    float loss;
    uint32_t better; /* classes that are better than the label; UINT32_MAX: the label's is a NaN */
};

struct cd_args {
    enum cd_type type;
    bool relu;
    struct cd_shape in_shape, out_shape;
    struct cd_window window;
    size_t n_pixels; /* N·H·W */
    const void *x, *x2, *y, *dy, *dy2;
    void *out, *out2;
    const float *bias, *gamma; /* parameters of each channel; bias: beta of a norm */
    float *dbias, *dgamma;
    float *sums;                          /* [2, CD_SLICES, C] */
    float *mean, *inv_std, *coefficients; /* [C], [C], [2, C] */
    float *state;                         /* [2, C] */
    float eps, momentum;
    uint8_t *kept;
    uint64_t seed, stream; /* of random numbers; the step completes the stream */
    const struct op_now *now;
    uint32_t purpose, keep_below;
    float scale;
    size_t first; /* channel */
    size_t half;
    float alpha, beta, lrn_k;
    const int32_t *labels;
    float *probabilities;       /* [N, C] */
    struct cd_loss_row *losses; /* [N] */
    double *loss_sum;           /* [1] and the correct samples [1] */
    size_t *top1, *top5;
    size_t n_samples; /* N */
};

/* The kernels, by item: elements, channels, or samples. */
/* clang-format off */
#define CD_KERNELS(X) \
    X(input) \
    X(narrow) \
    X(widen) \
    X(sum) \
    X(gradient) \
    X(dropout) \
    X(dropout_gradient) \
    X(concat) \
    X(concat_gradient) \
    X(pad) \
    X(pad_gradient) \
    X(max_pool) \
    X(max_pool_gradient) \
    X(avg_pool) \
    X(avg_pool_gradient) \
    X(lrn) \
    X(lrn_gradient) \
    X(slice) \
    X(norm_slice) \
    X(bias_gradient) \
    X(norm_batch) \
    X(norm_running) \
    X(norm_apply) \
    X(norm_sums) \
    X(norm_gradient) \
    X(loss) \
    X(loss_total) \
    X(loss_gradient)
/* clang-format on */

enum cd_kernel {
#define X(name) CD_KERNEL_##name,
    CD_KERNELS(X)
#undef X
};

#endif
