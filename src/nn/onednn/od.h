#ifndef NN_OD_H
#define NN_OD_H

#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "nn/kernels/kernels.h"
#include "nn/onednn/od_compat.h"
#include "nn/ops.h"

/*
 * The op library on oneDNN: convolutions, matrix products and reorders are its own, but for
 * Winograd's convolutions in bf16, which it lacks; everything that is bound by memory (norms,
 * poolings, sums) are our kernels, which fuse more. Calls are executed in the thread that drives
 * the graph, on an in-order stream.
 */
struct od {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int n_threads;
    bool blocked;                  /* the processor has the 16-wide blocked convolutions */
    const struct kernels *kern[2]; /* by enum graph_dtype; bf16 may be NULL */
};

extern const struct nn_ops od_ops;

extern const struct op_kind od_input, od_conv, od_dense, od_norm, od_relu, od_add, od_max_pool,
    od_avg_pool, od_global_pool, od_concat, od_pad_channels, od_lrn, od_dropout, od_loss;

/* od_arrange.c; see struct nn_ops */
MUST_CHECK enum status od_arrange(void *lib, const struct op_env *env, const struct op_node *nodes,
                                  int n_nodes, struct value_desc *values);

/* od_flat.c; see struct nn_ops */
void od_gradient(void *lib, const struct value_desc *v, size_t n, const void *y, const void *a,
                 const void *b, void *g);

/* Log that oneDNN refused `what` for a node; ST_NOMEM stays what it is. */
MUST_CHECK enum status od_fail(const struct op_node *node, dnnl_status_t st, const char *what);

/* --- od_parallel.c --- */

/* Call fn(ctx, i) for i in [0, n), spread over the threads of the device. */
void od_parallel(const struct od *lib, size_t n, void (*fn)(void *ctx, size_t i), void *ctx);
void od_set_threads(int n);

/* --- planes of a value (kernels.h) --- */

static inline size_t od_chunks(const struct value_desc *v)
{
    return (v->shape.c + KERNEL_LANES - 1) / KERNEL_LANES;
}

/* Chunk `c` of `v`; never LAYOUT_NCHW, except with one channel or pixel. */
struct plane od_plane(const struct value_desc *v, size_t chunk);

/* Elements before chunk `c` of sample `n`. */
size_t od_plane_offset(const struct value_desc *v, size_t n, size_t chunk);

/* --- single elements, for what need not be fast --- */

static inline float od_get(enum graph_dtype dtype, const void *base, size_t at)
{
    uint32_t bits;
    float f;

    if (dtype == GRAPH_FP32) {
        return ((const float *)base)[at];
    }
    bits = (uint32_t)((const uint16_t *)base)[at] << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline void od_put(enum graph_dtype dtype, void *base, size_t at, float f)
{
    uint32_t bits;

    if (dtype == GRAPH_FP32) {
        ((float *)base)[at] = f;
        return;
    }
    memcpy(&bits, &f, sizeof bits);
    ((uint16_t *)base)[at] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

#endif
