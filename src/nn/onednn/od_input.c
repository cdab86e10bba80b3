#include "base/mem.h"
#include "nn/onednn/od.h"

/* The input: from the caller's canonical fp32 to the layout of value 0, where that is another. */
struct input {
    const struct od *lib;
    const struct op_node *node;
    bool canonical;
    size_t n_batches;
    struct input_batch {
        dnnl_primitive_t reorder;
        dnnl_memory_t from, to;
    } * batches;
};

static void input_destroy(void *op)
{
    struct input *in = op;

    if (in == NULL) {
        return;
    }
    for (size_t i = 0; in->batches != NULL && i < in->n_batches; i++) {
        struct input_batch *b = &in->batches[i];
        if (b->reorder != NULL) {
            dnnl_primitive_destroy(b->reorder);
        }
        if (b->from != NULL) {
            dnnl_memory_destroy(b->from);
        }
        if (b->to != NULL) {
            dnnl_memory_destroy(b->to);
        }
    }
    mem_free(in->batches);
    mem_free(in);
}

static dnnl_status_t create_batch(struct input *in, const struct value_desc *v, size_t n,
                                  struct input_batch *b)
{
    struct value_desc canonical = {v->shape, LAYOUT_NCHW, GRAPH_FP32};
    struct od_md from = {0}, to = {0};
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = od_md_value(&from, &canonical, n, dnnl_f32);

    if (st == dnnl_success) {
        st = od_md_value(&to, v, n, v->dtype == GRAPH_BF16 ? dnnl_bf16 : dnnl_f32);
    }
    if (st == dnnl_success) {
        st = od_reorder_pd(&pd, &from, &to, in->lib->engine, NULL);
    }
    if (st == dnnl_success) {
        st = dnnl_primitive_create(&b->reorder, pd);
    }
    if (st == dnnl_success) {
        st = od_memory_create(&b->from, &from, in->lib->engine);
    }
    if (st == dnnl_success) {
        st = od_memory_create(&b->to, &to, in->lib->engine);
    }
    if (pd != NULL) {
        dnnl_primitive_desc_destroy(pd);
    }
    od_md_fini(&from);
    od_md_fini(&to);
    return st;
}

static enum status input_create(void *lib, const struct op_env *env, const struct op_node *node,
                                const struct value_desc *values, struct op_info *info, void **op)
{
    struct input *in = mem_alloc(1, sizeof *in);

    (void)info;
    if (in == NULL) {
        return ST_NOMEM;
    }
    *op = in;
    in->lib = lib;
    in->node = node;
    in->canonical = value_is_canonical(&values[0]);
    if (in->canonical) {
        return ST_OK;
    }
    in->batches = mem_alloc(env->n_batches, sizeof *in->batches);
    if (in->batches == NULL) {
        return ST_NOMEM;
    }
    in->n_batches = env->n_batches;
    for (size_t i = 0; i < env->n_batches; i++) {
        dnnl_status_t st = create_batch(in, &values[0], env->batches[i], &in->batches[i]);
        if (st != dnnl_success) {
            return od_fail(node, st, "reorder of the input");
        }
    }
    return ST_OK;
}

static enum status input_forward(void *op, const struct op_io *io)
{
    const struct input *in = op;
    dnnl_status_t st;

    if (in->canonical) {
        return ST_OK; /* the layers read the caller's memory */
    }
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, in->batches[io->batch].from},
                              {DNNL_ARG_TO, in->batches[io->batch].to}};
    od_memory_point(args[0].memory, io->x[0]);
    od_memory_point(args[1].memory, io->y);
    st = dnnl_primitive_execute(in->batches[io->batch].reorder, in->lib->stream, 2, args);
    return st == dnnl_success ? ST_OK : od_fail(in->node, st, "reorder of the input to run");
}

const struct op_kind od_input = {
    .create = input_create, .destroy = input_destroy, .forward = input_forward};
