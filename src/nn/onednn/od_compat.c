#include "nn/onednn/od_compat.h"

#include <string.h>

#define OD_TRY(call)                                                                               \
    do {                                                                                           \
        dnnl_status_t od_try_ = (call);                                                            \
        if (od_try_ != dnnl_success) {                                                             \
            return od_try_;                                                                        \
        }                                                                                          \
    } while (0)

#if DNNL_VERSION_MAJOR >= 3

void od_md_fini(struct od_md *m)
{
    if (m->handle != NULL) {
        dnnl_memory_desc_destroy(m->handle);
        m->handle = NULL;
    }
}

bool od_md_is_set(const struct od_md *m)
{
    return m->handle != NULL;
}

size_t od_md_size(const struct od_md *m)
{
    return dnnl_memory_desc_get_size(m->handle);
}

bool od_md_equal(const struct od_md *a, const struct od_md *b)
{
    return dnnl_memory_desc_equal(a->handle, b->handle) != 0;
}

dnnl_status_t od_md_copy(struct od_md *to, const struct od_md *from)
{
    od_md_fini(to);
    return dnnl_memory_desc_clone(&to->handle, from->handle);
}

dnnl_status_t od_md_tag(struct od_md *m, int n_dims, const dnnl_dims_t dims, dnnl_data_type_t type,
                        dnnl_format_tag_t tag)
{
    od_md_fini(m);
    return dnnl_memory_desc_create_with_tag(&m->handle, n_dims, dims, type, tag);
}

dnnl_status_t od_md_query(struct od_md *m, const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    const_dnnl_memory_desc_t found = dnnl_primitive_desc_query_md(pd, what, 0);

    od_md_fini(m);
    return found == NULL ? dnnl_unimplemented : dnnl_memory_desc_clone(&m->handle, found);
}

bool od_md_format(const struct od_md *m, struct od_format *f)
{
    const dnnl_dims_t *dims, *strides, *blocks, *block_dims;
    dnnl_format_kind_t kind;
    int n_blocks;

    *f = (struct od_format){0};
    if (dnnl_memory_desc_query(m->handle, dnnl_query_format_kind, &kind) != dnnl_success ||
        kind != dnnl_blocked ||
        dnnl_memory_desc_query(m->handle, dnnl_query_ndims_s32, &f->n_dims) != dnnl_success ||
        dnnl_memory_desc_query(m->handle, dnnl_query_dims, &dims) != dnnl_success ||
        dnnl_memory_desc_query(m->handle, dnnl_query_strides, &strides) != dnnl_success ||
        dnnl_memory_desc_query(m->handle, dnnl_query_inner_nblks_s32, &n_blocks) != dnnl_success ||
        dnnl_memory_desc_query(m->handle, dnnl_query_inner_blks, &blocks) != dnnl_success ||
        dnnl_memory_desc_query(m->handle, dnnl_query_inner_idxs, &block_dims) != dnnl_success) {
        return false;
    }
    f->n_blocks = n_blocks;
    memcpy(f->dims, *dims, sizeof(dnnl_dims_t));
    memcpy(f->strides, *strides, sizeof(dnnl_dims_t));
    memcpy(f->blocks, *blocks, sizeof(dnnl_dims_t));
    memcpy(f->block_dims, *block_dims, sizeof(dnnl_dims_t));
    return true;
}

dnnl_status_t od_memory_create(dnnl_memory_t *mem, const struct od_md *m, dnnl_engine_t engine)
{
    return dnnl_memory_create(mem, m->handle, engine, DNNL_MEMORY_NONE);
}

dnnl_status_t od_reorder_pd(dnnl_primitive_desc_t *pd, const struct od_md *from,
                            const struct od_md *to, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr)
{
    return dnnl_reorder_primitive_desc_create(pd, from->handle, engine, to->handle, engine, attr);
}

dnnl_status_t od_conv_pd(dnnl_primitive_desc_t *pd, enum od_pass pass, const struct od_conv_spec *s,
                         dnnl_engine_t engine, const_dnnl_primitive_attr_t attr)
{
    switch (pass) {
    case OD_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(
            pd, engine, dnnl_forward_training, s->algorithm, s->src.handle, s->weights.handle,
            s->bias.handle, s->dst.handle, s->strides, NULL, s->padding, s->padding, attr);
    case OD_BACKWARD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            pd, engine, s->algorithm, s->src.handle, s->weights.handle, s->dst.handle, s->strides,
            NULL, s->padding, s->padding, NULL, attr);
    case OD_BACKWARD_WEIGHTS:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            pd, engine, s->algorithm, s->src.handle, s->weights.handle, s->bias.handle,
            s->dst.handle, s->strides, NULL, s->padding, s->padding, NULL, attr);
    case OD_PASSES:
        break;
    }
    return dnnl_invalid_arguments;
}

dnnl_status_t od_append_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f);
}

#else

void od_md_fini(struct od_md *m)
{
    m->set = false;
}

bool od_md_is_set(const struct od_md *m)
{
    return m->set;
}

size_t od_md_size(const struct od_md *m)
{
    return dnnl_memory_desc_get_size(&m->desc);
}

bool od_md_equal(const struct od_md *a, const struct od_md *b)
{
    return dnnl_memory_desc_equal(&a->desc, &b->desc) != 0;
}

dnnl_status_t od_md_copy(struct od_md *to, const struct od_md *from)
{
    *to = *from;
    return dnnl_success;
}

dnnl_status_t od_md_tag(struct od_md *m, int n_dims, const dnnl_dims_t dims, dnnl_data_type_t type,
                        dnnl_format_tag_t tag)
{
    m->set = true;
    return dnnl_memory_desc_init_by_tag(&m->desc, n_dims, dims, type, tag);
}

dnnl_status_t od_md_query(struct od_md *m, const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    const dnnl_memory_desc_t *found = dnnl_primitive_desc_query_md(pd, what, 0);

    if (found == NULL) {
        return dnnl_unimplemented;
    }
    m->desc = *found;
    m->set = true;
    return dnnl_success;
}

bool od_md_format(const struct od_md *m, struct od_format *f)
{
    const dnnl_blocking_desc_t *b = &m->desc.format_desc.blocking;

    if (m->desc.format_kind != dnnl_blocked) {
        return false;
    }
    *f = (struct od_format){.n_dims = m->desc.ndims, .n_blocks = b->inner_nblks};
    memcpy(f->dims, m->desc.dims, sizeof(dnnl_dims_t));
    memcpy(f->strides, b->strides, sizeof(dnnl_dims_t));
    memcpy(f->blocks, b->inner_blks, sizeof(dnnl_dims_t));
    memcpy(f->block_dims, b->inner_idxs, sizeof(dnnl_dims_t));
    return true;
}

dnnl_status_t od_memory_create(dnnl_memory_t *mem, const struct od_md *m, dnnl_engine_t engine)
{
    return dnnl_memory_create(mem, &m->desc, engine, DNNL_MEMORY_NONE);
}

dnnl_status_t od_reorder_pd(dnnl_primitive_desc_t *pd, const struct od_md *from,
                            const struct od_md *to, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr)
{
    return dnnl_reorder_primitive_desc_create(pd, &from->desc, engine, &to->desc, engine, attr);
}

dnnl_status_t od_conv_pd(dnnl_primitive_desc_t *pd, enum od_pass pass, const struct od_conv_spec *s,
                         dnnl_engine_t engine, const_dnnl_primitive_attr_t attr)
{
    const dnnl_memory_desc_t *bias = s->bias.set ? &s->bias.desc : NULL;
    dnnl_convolution_desc_t d;

    switch (pass) {
    case OD_FORWARD:
        OD_TRY(dnnl_convolution_forward_desc_init(
            &d, dnnl_forward_training, s->algorithm, &s->src.desc, &s->weights.desc, bias,
            &s->dst.desc, s->strides, s->padding, s->padding));
        break;
    case OD_BACKWARD_DATA:
        OD_TRY(dnnl_convolution_backward_data_desc_init(&d, s->algorithm, &s->src.desc,
                                                        &s->weights.desc, &s->dst.desc, s->strides,
                                                        s->padding, s->padding));
        break;
    case OD_BACKWARD_WEIGHTS:
        OD_TRY(dnnl_convolution_backward_weights_desc_init(&d, s->algorithm, &s->src.desc,
                                                           &s->weights.desc, bias, &s->dst.desc,
                                                           s->strides, s->padding, s->padding));
        break;
    case OD_PASSES:
        return dnnl_invalid_arguments;
    }
    return dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
}

dnnl_status_t od_append_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
}

#endif

dnnl_status_t od_md_value(struct od_md *m, const struct value_desc *v, size_t n,
                          dnnl_data_type_t type)
{
    static const dnnl_format_tag_t tags[] = {
        [LAYOUT_NCHW] = dnnl_nchw, [LAYOUT_NHWC] = dnnl_nhwc, [LAYOUT_BLOCKED] = dnnl_nChw16c};
    dnnl_dims_t dims = {(dnnl_dim_t)n, (dnnl_dim_t)v->shape.c, (dnnl_dim_t)v->shape.h,
                        (dnnl_dim_t)v->shape.w};

    return od_md_tag(m, 4, dims, type, tags[v->layout]);
}

size_t od_format_index(const struct od_format *f, const dnnl_dim_t *at)
{
    dnnl_dim_t outer[DNNL_MAX_NDIMS], inner = 0, stride = 1;

    memcpy(outer, at, (size_t)f->n_dims * sizeof *at);
    for (int b = f->n_blocks - 1; b >= 0; b--) {
        dnnl_dim_t *o = &outer[f->block_dims[b]];
        inner += *o % f->blocks[b] * stride;
        *o /= f->blocks[b];
        stride *= f->blocks[b];
    }
    for (int d = 0; d < f->n_dims; d++) {
        inner += outer[d] * f->strides[d];
    }
    return (size_t)inner;
}

void od_memory_point(dnnl_memory_t mem, const void *data)
{
    void *now = NULL;

    if (mem != NULL && (dnnl_memory_get_data_handle(mem, &now) != dnnl_success || now != data)) {
        (void)dnnl_memory_set_data_handle(mem, (void *)data); /* cannot fail for host memory */
    }
}
