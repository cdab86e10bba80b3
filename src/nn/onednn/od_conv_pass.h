#ifndef NN_OD_CONV_PASS_H
#define NN_OD_CONV_PASS_H

#include "nn/onednn/od_conv_gemm.h"
#include "nn/onednn/od_conv_stem.h"
#include "nn/onednn/od_conv_winograd.h"

/* For functions with a local `st` and a label `done`. */
#define DNN_TRY(call)                                                                              \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != dnnl_success) {                                                                  \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

enum od_algorithm {
    OD_DIRECT,
    OD_WINOGRAD, /* oneDNN's for fp32, our own for bf16 */
    OD_GEMM,
    OD_ALGORITHMS
};

/* One pass of one convolution for one batch size: what it shall compute ... */
struct conv_request {
    const struct od *lib;
    const struct op_node *node;
    struct value_desc in, out; /* with the layouts to use */
    size_t n;
    enum od_pass pass;
    enum od_algorithm algorithm;
};

/*
 * ... and how: the primitive or matrix products, and where the weights are not laid out like the
 * arena, a reorder.
 */
struct conv_pass {
    dnnl_primitive_t primitive, reorder;
    dnnl_memory_t src, weights, bias, dst, scratchpad;
    dnnl_memory_t arena, reorder_scratchpad;
    size_t weights_bytes, scratchpad_bytes;
    size_t n;
    enum od_algorithm algorithm;
    struct conv_gemm gemm; /* instead of the primitive, if that is NULL; or */
    struct conv_winograd winograd;
    struct conv_stem stem; /* if winograd.n is 0 */
};

struct conv_data {
    const void *src, *dst;
    const float *weights, *bias; /* in the arena */
    char *scratch;               /* [conv_pass_scratch] */
};

/* Whether our own Winograd's algorithm, for bf16, takes this pass; one of the two is initialised.
 */
bool conv_pass_is_winograd(const struct conv_request *q, struct conv_winograd *w,
                           struct conv_stem *s);

/* Dimensions of the weights: OIHW, or GOIHW with groups. Returns their number. */
int conv_weight_dims(const struct op_node *node, dnnl_dims_t dims);

dnnl_data_type_t conv_pass_type(enum graph_dtype dtype);

/* Attributes: scratchpads are ours; with `relu` the result is max(0, result). Destroy after use. */
MUST_CHECK dnnl_status_t conv_pass_attr(bool relu, dnnl_primitive_attr_t *out);

/*
 * Describe a pass. `weights`: the layout that it must use; none: any. dnnl_unimplemented also for
 * reference implementations, unless `allow_ref`.
 */
MUST_CHECK dnnl_status_t conv_pass_describe(const struct conv_request *q,
                                            const struct od_md *weights, bool allow_ref,
                                            dnnl_primitive_desc_t *pd);

/* The descriptor of the weights of `pd`, a description of `pass`. */
MUST_CHECK dnnl_status_t conv_pass_weights(enum od_pass pass, const_dnnl_primitive_desc_t pd,
                                           struct od_md *weights);

/* Build a pass over weights that lie like `arena` (fp32). */
MUST_CHECK dnnl_status_t conv_pass_create(const struct conv_request *q, const struct od_md *arena,
                                          struct conv_pass *out);
void conv_pass_destroy(struct conv_pass *p);
size_t conv_pass_scratch(const struct conv_pass *p);
MUST_CHECK dnnl_status_t conv_pass_run(struct conv_pass *p, enum od_pass pass, const struct od *lib,
                                       const struct conv_data *d);

#endif
