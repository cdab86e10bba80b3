#ifndef NN_OD_COMPAT_H
#define NN_OD_COMPAT_H

#include <stdbool.h>
#include <stddef.h>

#include <oneapi/dnnl/dnnl.h>

#include "nn/ops.h"

/*
 * What differs between oneDNN 2.x (descriptors are structs, primitives are described in two steps)
 * and 3.x (descriptors are handles). Nothing else includes version checks.
 */

/* A memory descriptor; zeroed is "none". Release with od_md_fini. */
struct od_md {
#if DNNL_VERSION_MAJOR >= 3
    dnnl_memory_desc_t handle;
#else
    bool set;
    dnnl_memory_desc_t desc;
#endif
};

void od_md_fini(struct od_md *m);
bool od_md_is_set(const struct od_md *m);
size_t od_md_size(const struct od_md *m); /* bytes */
bool od_md_equal(const struct od_md *a, const struct od_md *b);
MUST_CHECK dnnl_status_t od_md_copy(struct od_md *to, const struct od_md *from);
MUST_CHECK dnnl_status_t od_md_tag(struct od_md *m, int n_dims, const dnnl_dims_t dims,
                                   dnnl_data_type_t type, dnnl_format_tag_t tag);
/* `n` samples of a value; `any_layout`: the library chooses. */
MUST_CHECK dnnl_status_t od_md_value(struct od_md *m, const struct value_desc *v, size_t n,
                                     dnnl_data_type_t type);
/* A descriptor that a primitive chose. */
MUST_CHECK dnnl_status_t od_md_query(struct od_md *m, const_dnnl_primitive_desc_t pd,
                                     dnnl_query_t what);

/* The place of an element: strides of the outer dimensions and the blocks inside, outermost first.
 */
struct od_format {
    int n_dims, n_blocks;
    dnnl_dims_t dims, strides, blocks, block_dims;
};

/* False if the layout is opaque. */
bool od_md_format(const struct od_md *m, struct od_format *f);
size_t od_format_index(const struct od_format *f, const dnnl_dim_t *at);

MUST_CHECK dnnl_status_t od_memory_create(dnnl_memory_t *mem, const struct od_md *m,
                                          dnnl_engine_t engine);
/* Let `mem` be at `data`; does nothing if it is there already. */
void od_memory_point(dnnl_memory_t mem, const void *data);

MUST_CHECK dnnl_status_t od_reorder_pd(dnnl_primitive_desc_t *pd, const struct od_md *from,
                                       const struct od_md *to, dnnl_engine_t engine,
                                       const_dnnl_primitive_attr_t attr);

enum od_pass {
    OD_FORWARD,
    OD_BACKWARD_DATA,
    OD_BACKWARD_WEIGHTS,
    OD_PASSES
};

struct od_conv_spec {
    dnnl_alg_kind_t algorithm;
    struct od_md src, weights, bias, dst; /* of data or gradients; bias may be none */
    dnnl_dims_t strides, padding;
};

MUST_CHECK dnnl_status_t od_conv_pd(dnnl_primitive_desc_t *pd, enum od_pass pass,
                                    const struct od_conv_spec *s, dnnl_engine_t engine,
                                    const_dnnl_primitive_attr_t attr);
MUST_CHECK dnnl_status_t od_append_relu(dnnl_post_ops_t ops);

#endif
