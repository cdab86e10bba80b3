#include "base/log.h"
#include "base/mem.h"
#include "nn/onednn/od_choose.h"

/*
 * Convolutions. The arena holds the weights as the forward pass of the largest batch wants them
 * (for bf16: as their fp32 gradient is written). The layouts of other passes are made from it in
 * scratch memory when they run: each is read once per step, so keeping them would save nothing.
 */
struct conv {
    const struct od *lib;
    const struct op_node *node;
    struct od_md arena;
    struct od_format format;
    dnnl_dims_t dims;
    int n_dims;
    size_t n_batches;
    enum od_algorithm algorithm[OD_PASSES]; /* for all batches, or direct where one has it not */
    struct conv_pass *passes;               /* [n_batches][OD_PASSES] */
};

static struct conv_pass *pass_of(const struct conv *c, size_t batch, enum od_pass pass)
{
    return &c->passes[batch * OD_PASSES + pass];
}

static void conv_destroy(void *op)
{
    struct conv *c = op;

    if (c == NULL) {
        return;
    }
    for (size_t i = 0; c->passes != NULL && i < c->n_batches * OD_PASSES; i++) {
        conv_pass_destroy(&c->passes[i]);
    }
    od_md_fini(&c->arena);
    mem_free(c->passes);
    mem_free(c);
}

static struct conv_request request(const struct conv *c, const struct value_desc *values, size_t n,
                                   enum od_pass pass)
{
    return (struct conv_request){.lib = c->lib,
                                 .node = c->node,
                                 .in = values[c->node->inputs[0]],
                                 .out = values[c->node->output],
                                 .n = n,
                                 .pass = pass,
                                 .algorithm = c->algorithm[pass]};
}

static dnnl_status_t choose_arena(struct conv *c, const struct op_env *env,
                                  const struct value_desc *values)
{
    bool bf16 = values[c->node->output].dtype == GRAPH_BF16;
    struct conv_request q =
        request(c, values, env->batches[0], bf16 ? OD_BACKWARD_WEIGHTS : OD_FORWARD);
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = conv_pass_describe(&q, NULL, false, &pd);

    if (st != dnnl_success) {
        st = conv_pass_describe(&q, NULL, true, &pd);
    }
    if (st != dnnl_success) {
        return st;
    }
    st = conv_pass_weights(q.pass, pd, &c->arena);
    dnnl_primitive_desc_destroy(pd);
    if (st == dnnl_success && !od_md_format(&c->arena, &c->format)) {
        st = od_md_tag(&c->arena, c->n_dims, c->dims, dnnl_f32,
                       c->n_dims == 5 ? dnnl_goihw : dnnl_oihw);
        (void)od_md_format(&c->arena, &c->format);
    }
    return st;
}

static void choose_algorithms(struct conv *c, const struct op_env *env,
                              const struct value_desc *values, struct op_info *info)
{
    static const enum op_call calls[OD_PASSES] = {CALL_FORWARD, CALL_BACKWARD,
                                                  CALL_BACKWARD_WEIGHTS};

    for (enum od_pass p = OD_FORWARD; p < OD_PASSES; p++) {
        struct conv_request q = request(c, values, env->batches[0], p);
        if (p == OD_FORWARD || (p == OD_BACKWARD_DATA ? c->node->wants_dx[0] : c->node->wants_dw)) {
            c->algorithm[p] = od_choose_algorithm(env, &q);
            info->algorithm[calls[p]] = c->algorithm[p];
        }
    }
}

static enum status create_pass(struct conv *c, const struct conv_request *want,
                               struct conv_pass *made, struct op_info *info)
{
    static const char *const names[OD_PASSES] = {"convolution forward", "convolution backward data",
                                                 "convolution backward weights"};
    size_t *scratch = &info->scratch_bytes[want->pass == OD_FORWARD ? 0 : 1];
    struct conv_request q = *want;
    dnnl_status_t st = conv_pass_create(&q, &c->arena, made);

    if (st == dnnl_unimplemented && q.algorithm != OD_DIRECT) {
        conv_pass_destroy(made);
        q.algorithm = OD_DIRECT;
        st = conv_pass_create(&q, &c->arena, made);
    }
    if (st != dnnl_success) {
        return od_fail(c->node, st, names[q.pass]);
    }
    if (conv_pass_scratch(made) > *scratch) {
        *scratch = conv_pass_scratch(made);
    }
    if (made->weights_bytes > info->derived_bytes) {
        info->derived_bytes = made->weights_bytes;
    }
    return ST_OK;
}

static enum status create_passes(struct conv *c, const struct op_env *env,
                                 const struct value_desc *values, struct op_info *info)
{
    dnnl_status_t st;

    choose_algorithms(c, env, values, info);
    st = choose_arena(c, env, values);
    if (st != dnnl_success) {
        return od_fail(c->node, st, "convolution");
    }
    for (size_t b = 0; b < env->n_batches; b++) {
        for (enum od_pass p = OD_FORWARD; p < OD_PASSES; p++) {
            struct conv_request q = request(c, values, env->batches[b], p);
            if (p == OD_FORWARD ||
                (p == OD_BACKWARD_DATA ? c->node->wants_dx[0] : c->node->wants_dw)) {
                TRY(create_pass(c, &q, pass_of(c, b, p), info));
            }
        }
    }
    return ST_OK;
}

static enum status conv_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    struct conv *c = mem_alloc(1, sizeof *c);

    if (c == NULL) {
        return ST_NOMEM;
    }
    *op = c;
    c->lib = lib;
    c->node = node;
    c->n_batches = env->n_batches;
    c->n_dims = conv_weight_dims(node, c->dims);
    c->passes = mem_alloc(env->n_batches * OD_PASSES, sizeof *c->passes);
    if (c->passes == NULL) {
        return ST_NOMEM;
    }
    info->needs_x = node->wants_dw;
    TRY(create_passes(c, env, values, info));
    info->param_n[0] = od_md_size(&c->arena) / sizeof(float);
    info->param_n[1] = node->layer->out.c;
    return ST_OK;
}

static enum status run(struct conv *c, const struct op_io *io, enum od_pass pass,
                       const struct conv_data *d)
{
    dnnl_status_t st = conv_pass_run(pass_of(c, io->batch, pass), pass, c->lib, d);

    return st == dnnl_success ? ST_OK : od_fail(c->node, st, "convolution to run");
}

static enum status conv_forward(void *op, const struct op_io *io)
{
    struct conv_data d = {io->x[0], io->y, io->w[0], io->w[1], io->scratch};

    return run(op, io, OD_FORWARD, &d);
}

static enum status conv_backward_weights(void *op, const struct op_io *io)
{
    struct conv_data d = {io->x[0], io->dy[0], io->dw[0], io->dw[1], io->scratch};

    return run(op, io, OD_BACKWARD_WEIGHTS, &d);
}

static enum status conv_backward(void *op, const struct op_io *io)
{
    struct conv_data d = {io->dx[0], io->dy[0], io->w[0], NULL, io->scratch};

    return run(op, io, OD_BACKWARD_DATA, &d);
}

static size_t conv_param_index(const void *op, int k, size_t i)
{
    const struct conv *c = op;
    dnnl_dims_t at;

    if (k > 0) {
        return i;
    }
    for (int d = c->n_dims - 1; d >= 0; d--) {
        at[d] = (dnnl_dim_t)(i % (size_t)c->dims[d]);
        i /= (size_t)c->dims[d];
    }
    return od_format_index(&c->format, at);
}

const struct op_kind od_conv = {.create = conv_create,
                                .destroy = conv_destroy,
                                .forward = conv_forward,
                                .backward_weights = conv_backward_weights,
                                .backward = conv_backward,
                                .param_index = conv_param_index};
