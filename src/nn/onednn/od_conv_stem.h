#ifndef NN_OD_CONV_STEM_H
#define NN_OD_CONV_STEM_H

#include "nn/kernels/stem.h"
#include "nn/onednn/od.h"

/*
 * The forward pass or the gradient of the weights of a convolution with stride 2 and at most four
 * channels of canonical bf16, whose results are blocked, by Winograd's algorithm (kernels/stem.h).
 * A few tile rows are worked on at once.
 */
struct conv_stem {
    const struct stem_kernels *kern;
    const struct winograd_kernels *winograd;
    struct value_desc in, out;
    enum od_pass pass;
    size_t n;
    bool relu;
    struct stem shape;
    size_t tile_rows; /* of one sample */
    size_t block;     /* tile rows that are worked on at once */
    size_t n_slices;  /* threads */
};

/* False if this convolution is none for it: another stride, kernel, layout or type; groups; a bias.
 */
bool conv_stem_init(struct conv_stem *s, const struct od *lib, const struct op_node *node,
                    const struct value_desc *in, const struct value_desc *out, size_t n,
                    enum od_pass pass);

size_t conv_stem_scratch(const struct conv_stem *s); /* bytes */

/* `weights`: [O/16][kernel][kernel][C][16 o] in fp32, which is overwritten if it is the gradient;
 * `scratch` starts on a cache line. */
void conv_stem_run(const struct conv_stem *s, const struct od *lib, const void *src,
                   const void *dst, const float *weights, void *scratch);

#endif
