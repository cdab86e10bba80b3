#include "nn/onednn/od_conv_pass.h"

#include <string.h>

int conv_weight_dims(const struct op_node *node, dnnl_dims_t dims)
{
    const struct layer *l = node->layer;
    dnnl_dim_t groups = (dnnl_dim_t)l->u.conv.groups;
    dnnl_dim_t o = (dnnl_dim_t)l->out.c;
    dnnl_dim_t i = (dnnl_dim_t)net_layer(node->net, l->inputs[0])->out.c / groups;
    int n = 0;

    if (groups > 1) {
        dims[n++] = groups;
        o /= groups;
    }
    dims[n++] = o;
    dims[n++] = i;
    dims[n++] = (dnnl_dim_t)l->u.conv.kernel_h;
    dims[n++] = (dnnl_dim_t)l->u.conv.kernel_w;
    return n;
}

dnnl_data_type_t conv_pass_type(enum graph_dtype dtype)
{
    return dtype == GRAPH_BF16 ? dnnl_bf16 : dnnl_f32;
}

dnnl_status_t conv_pass_attr(bool relu, dnnl_primitive_attr_t *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t st;

    DNN_TRY(dnnl_primitive_attr_create(&attr));
    DNN_TRY(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    if (relu) {
        DNN_TRY(dnnl_post_ops_create(&ops));
        DNN_TRY(od_append_relu(ops));
        DNN_TRY(dnnl_primitive_attr_set_post_ops(attr, ops));
    }
    *out = attr;
    attr = NULL;
done:
    if (ops != NULL) {
        dnnl_post_ops_destroy(ops);
    }
    if (attr != NULL) {
        dnnl_primitive_attr_destroy(attr);
    }
    return st;
}

static dnnl_status_t make_spec(const struct conv_request *q, const struct od_md *weights,
                               struct od_conv_spec *s)
{
    const struct layer *l = q->node->layer;
    bool gradient = q->pass == OD_BACKWARD_WEIGHTS; /* of weights and bias: fp32 */
    dnnl_data_type_t type = conv_pass_type(q->out.dtype);
    dnnl_dims_t dims, bias = {(dnnl_dim_t)l->out.c};
    int n_dims = conv_weight_dims(q->node, dims);
    dnnl_status_t st;

    s->algorithm = q->algorithm == OD_WINOGRAD && q->out.dtype == GRAPH_FP32
                       ? dnnl_convolution_winograd
                       : dnnl_convolution_direct;
    s->strides[0] = s->strides[1] = (dnnl_dim_t)l->u.conv.stride;
    s->padding[0] = s->padding[1] = (dnnl_dim_t)l->u.conv.pad;
    DNN_TRY(od_md_value(&s->src, &q->in, q->n, type));
    DNN_TRY(od_md_value(&s->dst, &q->out, q->n, type));
    if (weights != NULL) {
        DNN_TRY(od_md_copy(&s->weights, weights));
    } else {
        DNN_TRY(
            od_md_tag(&s->weights, n_dims, dims, gradient ? dnnl_f32 : type, dnnl_format_tag_any));
    }
    if (l->u.conv.bias && q->pass != OD_BACKWARD_DATA) {
        DNN_TRY(od_md_tag(&s->bias, 1, bias, dnnl_f32, dnnl_a));
    }
done:
    return st;
}

static void spec_fini(struct od_conv_spec *s)
{
    od_md_fini(&s->src);
    od_md_fini(&s->dst);
    od_md_fini(&s->weights);
    od_md_fini(&s->bias);
}

static bool is_reference(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           name != NULL && strncmp(name, "ref", 3) == 0;
}

dnnl_status_t conv_pass_describe(const struct conv_request *q, const struct od_md *weights,
                                 bool allow_ref, dnnl_primitive_desc_t *pd)
{
    struct od_conv_spec spec = {0};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t st;

    *pd = NULL;
    DNN_TRY(make_spec(q, weights, &spec));
    DNN_TRY(conv_pass_attr(q->node->relu && q->pass == OD_FORWARD, &attr));
    DNN_TRY(od_conv_pd(pd, q->pass, &spec, q->lib->engine, attr));
    if (!allow_ref && is_reference(*pd)) {
        dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
        st = dnnl_unimplemented;
    }
done:
    if (attr != NULL) {
        dnnl_primitive_attr_destroy(attr);
    }
    spec_fini(&spec);
    return st;
}

dnnl_status_t conv_pass_weights(enum od_pass pass, const_dnnl_primitive_desc_t pd,
                                struct od_md *weights)
{
    return od_md_query(weights, pd,
                       pass == OD_BACKWARD_WEIGHTS ? dnnl_query_diff_weights_md
                                                   : dnnl_query_weights_md);
}
