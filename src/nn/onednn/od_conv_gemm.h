#ifndef NN_OD_CONV_GEMM_H
#define NN_OD_CONV_GEMM_H

#include "nn/onednn/od.h"

/*
 * Convolution as matrix products on channels-last fp32 values: the windows of a few samples are
 * laid out as the rows of a matrix col[pixels, kernel·kernel·C], which is multiplied with w[O,
 * kernel·kernel·C]. For few channels that do not fill blocks it is the fastest way.
 */
struct conv_gemm {
    struct value_desc in, out;
    size_t kernel_h, kernel_w, stride, pad;
    size_t k;       /* kernel_h·kernel_w·C */
    size_t samples; /* that are laid out at once */
    bool bias, relu;
};

/* False if this convolution is none for it: groups, another layout or type, windows too large. */
bool conv_gemm_init(struct conv_gemm *g, const struct op_node *node, const struct value_desc *in,
                    const struct value_desc *out, size_t n);

/* Bytes of col. */
size_t conv_gemm_scratch(const struct conv_gemm *g);

/* w[O, kernel_h, kernel_w, C]; gradients are overwritten. */
MUST_CHECK dnnl_status_t conv_gemm_forward(const struct conv_gemm *g, const struct od *lib,
                                           size_t n, const float *x, const float *w, const float *b,
                                           float *y, float *col);
MUST_CHECK dnnl_status_t conv_gemm_backward_data(const struct conv_gemm *g, const struct od *lib,
                                                 size_t n, const float *dy, const float *w,
                                                 float *dx, float *col);
MUST_CHECK dnnl_status_t conv_gemm_backward_weights(const struct conv_gemm *g, const struct od *lib,
                                                    size_t n, const float *x, const float *dy,
                                                    float *dw, float *db, float *col);

#endif
