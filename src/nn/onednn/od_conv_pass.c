#include "nn/onednn/od_conv_pass.h"

/* The reorder between the arena and the layout of the primitive, in the pass's direction. */
static dnnl_status_t make_reorder(const struct conv_request *q, const struct od_md *arena,
                                  const struct od_md *weights, struct conv_pass *p)
{
    bool out = q->pass == OD_BACKWARD_WEIGHTS;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = NULL;
    struct od_md scratch = {0};
    dnnl_status_t st;

    DNN_TRY(conv_pass_attr(false, &attr));
    DNN_TRY(od_reorder_pd(&pd, out ? weights : arena, out ? arena : weights, q->lib->engine, attr));
    DNN_TRY(dnnl_primitive_create(&p->reorder, pd));
    DNN_TRY(od_memory_create(&p->arena, arena, q->lib->engine));
    DNN_TRY(od_md_query(&scratch, pd, dnnl_query_scratchpad_md));
    DNN_TRY(od_memory_create(&p->reorder_scratchpad, &scratch, q->lib->engine));
    p->weights_bytes = (od_md_size(weights) + 63) / 64 * 64;
    p->scratchpad_bytes = od_md_size(&scratch);
done:
    od_md_fini(&scratch);
    if (attr != NULL) {
        dnnl_primitive_attr_destroy(attr);
    }
    if (pd != NULL) {
        dnnl_primitive_desc_destroy(pd);
    }
    return st;
}

static dnnl_status_t make_memories(const struct conv_request *q, const_dnnl_primitive_desc_t pd,
                                   struct conv_pass *p)
{
    struct od_md m = {0};
    dnnl_engine_t engine = q->lib->engine;
    dnnl_data_type_t type = conv_pass_type(q->out.dtype);
    dnnl_dims_t bias = {(dnnl_dim_t)q->out.shape.c};
    dnnl_status_t st;

    DNN_TRY(od_md_value(&m, &q->in, q->n, type));
    DNN_TRY(od_memory_create(&p->src, &m, engine));
    DNN_TRY(od_md_value(&m, &q->out, q->n, type));
    DNN_TRY(od_memory_create(&p->dst, &m, engine));
    if (q->node->layer->u.conv.bias) {
        DNN_TRY(od_md_tag(&m, 1, bias, dnnl_f32, dnnl_a));
        DNN_TRY(od_memory_create(&p->bias, &m, engine));
    }
    DNN_TRY(od_md_query(&m, pd, dnnl_query_scratchpad_md));
    DNN_TRY(od_memory_create(&p->scratchpad, &m, engine));
    if (od_md_size(&m) > p->scratchpad_bytes) {
        p->scratchpad_bytes = od_md_size(&m);
    }
done:
    od_md_fini(&m);
    return st;
}

/* The arena's own layout if the primitive takes it, else its favourite, else a reference. */
static dnnl_status_t describe_best(const struct conv_request *q, const struct od_md *arena,
                                   dnnl_primitive_desc_t *pd)
{
    dnnl_status_t st = dnnl_unimplemented;

    if (q->pass != OD_BACKWARD_DATA && q->out.dtype == GRAPH_FP32) {
        st = conv_pass_describe(q, arena, false, pd);
    }
    if (st != dnnl_success) {
        st = conv_pass_describe(q, NULL, false, pd);
    }
    return st == dnnl_success || q->algorithm != OD_DIRECT ? st
                                                           : conv_pass_describe(q, NULL, true, pd);
}

/* What works on fp32 weights in the order `tag`, with `scratch_bytes` beside them. */
static dnnl_status_t create_own(const struct conv_request *q, const struct od_md *arena,
                                dnnl_format_tag_t tag, size_t scratch_bytes, struct conv_pass *out)
{
    struct od_md weights = {0};
    dnnl_dims_t dims;
    dnnl_status_t st;

    DNN_TRY(od_md_tag(&weights, conv_weight_dims(q->node, dims), dims, dnnl_f32, tag));
    if (!od_md_equal(&weights, arena)) {
        DNN_TRY(make_reorder(q, arena, &weights, out));
        DNN_TRY(od_memory_create(&out->weights, &weights, q->lib->engine));
    }
    if (scratch_bytes > out->scratchpad_bytes) {
        out->scratchpad_bytes = scratch_bytes;
    }
done:
    od_md_fini(&weights);
    return st;
}

bool conv_pass_is_winograd(const struct conv_request *q, struct conv_winograd *w,
                           struct conv_stem *s)
{
    return conv_winograd_init(w, q->lib, q->node, &q->in, &q->out, q->n, q->pass) ||
           conv_stem_init(s, q->lib, q->node, &q->in, &q->out, q->n, q->pass);
}

static dnnl_status_t create_winograd(const struct conv_request *q, const struct od_md *arena,
                                     struct conv_pass *out)
{
    if (!conv_pass_is_winograd(q, &out->winograd, &out->stem)) {
        return dnnl_unimplemented;
    }
    if (out->winograd.n > 0) {
        return create_own(q, arena, dnnl_OIhw16i16o, conv_winograd_scratch(&out->winograd), out);
    }
    return create_own(q, arena, dnnl_Ohwi16o, conv_stem_scratch(&out->stem), out);
}

static dnnl_status_t create_gemm(const struct conv_request *q, const struct od_md *arena,
                                 struct conv_pass *out)
{
    if (!conv_gemm_init(&out->gemm, q->node, &q->in, &q->out, q->n)) {
        return dnnl_unimplemented;
    }
    return create_own(q, arena, dnnl_ohwi, conv_gemm_scratch(&out->gemm), out);
}

dnnl_status_t conv_pass_create(const struct conv_request *q, const struct od_md *arena,
                               struct conv_pass *out)
{
    dnnl_primitive_desc_t pd = NULL;
    struct od_md weights = {0};
    dnnl_status_t st;

    out->algorithm = q->algorithm;
    out->n = q->n;
    if (q->algorithm == OD_GEMM) {
        return create_gemm(q, arena, out);
    }
    if (q->algorithm == OD_WINOGRAD && q->out.dtype == GRAPH_BF16) {
        return create_winograd(q, arena, out);
    }
    DNN_TRY(describe_best(q, arena, &pd));
    DNN_TRY(conv_pass_weights(q->pass, pd, &weights));
    if (!od_md_equal(&weights, arena)) {
        DNN_TRY(make_reorder(q, arena, &weights, out));
    }
    DNN_TRY(make_memories(q, pd, out));
    DNN_TRY(od_memory_create(&out->weights, &weights, q->lib->engine));
    DNN_TRY(dnnl_primitive_create(&out->primitive, pd));
done:
    od_md_fini(&weights);
    if (pd != NULL) {
        dnnl_primitive_desc_destroy(pd);
    }
    return st;
}

void conv_pass_destroy(struct conv_pass *p)
{
    dnnl_memory_t memories[] = {p->src,        p->weights,           p->bias, p->dst, p->arena,
                                p->scratchpad, p->reorder_scratchpad};

    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
        if (memories[i] != NULL) {
            dnnl_memory_destroy(memories[i]);
        }
    }
    if (p->primitive != NULL) {
        dnnl_primitive_destroy(p->primitive);
    }
    if (p->reorder != NULL) {
        dnnl_primitive_destroy(p->reorder);
    }
    *p = (struct conv_pass){0};
}

size_t conv_pass_scratch(const struct conv_pass *p)
{
    return p->weights_bytes + p->scratchpad_bytes;
}

static dnnl_status_t run_reorder(struct conv_pass *p, enum od_pass pass, const struct od *lib)
{
    bool out = pass == OD_BACKWARD_WEIGHTS;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, out ? p->weights : p->arena},
                              {DNNL_ARG_TO, out ? p->arena : p->weights},
                              {DNNL_ARG_SCRATCHPAD, p->reorder_scratchpad}};

    return dnnl_primitive_execute(p->reorder, lib->stream, 3, args);
}

static dnnl_status_t run_own(const struct conv_pass *p, enum od_pass pass, const struct od *lib,
                             const struct conv_data *d)
{
    const float *w = p->reorder == NULL ? d->weights : (const float *)(const void *)d->scratch;
    float *col = (float *)(void *)(d->scratch + p->weights_bytes);

    if (p->algorithm == OD_WINOGRAD && p->winograd.n > 0) {
        conv_winograd_run(&p->winograd, lib, d->src, d->dst, w, col);
        return dnnl_success;
    }
    if (p->algorithm == OD_WINOGRAD) {
        conv_stem_run(&p->stem, lib, d->src, d->dst, w, col);
        return dnnl_success;
    }
    switch (pass) {
    case OD_FORWARD:
        return conv_gemm_forward(&p->gemm, lib, p->n, d->src, w, d->bias, (float *)d->dst, col);
    case OD_BACKWARD_DATA:
        return conv_gemm_backward_data(&p->gemm, lib, p->n, d->dst, w, (float *)d->src, col);
    case OD_BACKWARD_WEIGHTS:
        return conv_gemm_backward_weights(&p->gemm, lib, p->n, d->src, d->dst, (float *)w,
                                          (float *)d->bias, col);
    case OD_PASSES:
        break;
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t run_primitive(const struct conv_pass *p, enum od_pass pass,
                                   const struct od *lib, const struct conv_data *d)
{
    static const int names[OD_PASSES][4] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_BIAS},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_BIAS}};
    dnnl_exec_arg_t args[] = {{names[pass][0], p->src},
                              {names[pass][1], p->weights},
                              {names[pass][2], p->dst},
                              {DNNL_ARG_SCRATCHPAD, p->scratchpad},
                              {names[pass][3], p->bias}};
    bool bias = p->bias != NULL && pass != OD_BACKWARD_DATA;

    od_memory_point(p->src, d->src);
    od_memory_point(p->dst, d->dst);
    od_memory_point(p->weights, p->reorder != NULL ? (const void *)d->scratch : d->weights);
    od_memory_point(p->scratchpad, d->scratch + p->weights_bytes);
    od_memory_point(p->bias, bias ? d->bias : NULL);
    return dnnl_primitive_execute(p->primitive, lib->stream, bias ? 5 : 4, args);
}

dnnl_status_t conv_pass_run(struct conv_pass *p, enum od_pass pass, const struct od *lib,
                            const struct conv_data *d)
{
    dnnl_status_t st;

    if (p->reorder != NULL) {
        od_memory_point(p->weights, d->scratch);
        od_memory_point(p->arena, d->weights);
        od_memory_point(p->reorder_scratchpad, d->scratch + p->weights_bytes);
    }
    if (p->reorder != NULL && pass != OD_BACKWARD_WEIGHTS) {
        DNN_TRY(run_reorder(p, pass, lib));
    }
    DNN_TRY(p->primitive == NULL ? run_own(p, pass, lib, d) : run_primitive(p, pass, lib, d));
    if (p->reorder != NULL && pass == OD_BACKWARD_WEIGHTS) {
        DNN_TRY(run_reorder(p, pass, lib));
    }
done:
    return st;
}
