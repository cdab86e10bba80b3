#ifndef NN_OD_CONV_WINOGRAD_H
#define NN_OD_CONV_WINOGRAD_H

#include "nn/kernels/winograd.h"
#include "nn/onednn/od.h"

/*
 * One pass of a 3x3 convolution with stride 1 on blocked bf16 values by Winograd's F(2x2, 3x3)
 * (kernels/winograd.h). Tile rows of the batch, all samples one after the other, are taken a block
 * at a time, so that what is worked on stays in a core's own cache.
 */
struct conv_winograd {
    const struct winograd_kernels *kern;
    struct value_desc from, to; /* where windows and tiles are */
    enum od_pass pass;
    size_t n, pad;
    bool relu;
    size_t tile_rows, tiles; /* of one sample, of one tile row */
    size_t block;            /* tile rows that are worked on at once */
    bool whole;              /* what is summed over is transformed at once, not a block at a time */
    size_t n_slices;         /* threads */
};

/* False if this convolution is none for it: another kernel, stride, layout or type; groups; a bias.
 */
bool conv_winograd_init(struct conv_winograd *w, const struct od *lib, const struct op_node *node,
                        const struct value_desc *in, const struct value_desc *out, size_t n,
                        enum od_pass pass);

size_t conv_winograd_scratch(const struct conv_winograd *w); /* bytes */

/*
 * `src`, `dst`: of the layer, values or gradients; `weights`: [O/16][C/16][3][3][16 c][16 o] in
 * fp32, the gradient of which is overwritten; `scratch` starts on a cache line.
 */
void conv_winograd_run(const struct conv_winograd *w, const struct od *lib, const void *src,
                       const void *dst, const float *weights, void *scratch);

#endif
