/* The op library of the sealed devices: the host's, put on streams. */
#include "base/mem.h"
#include "sealed_internal.h"

struct lib {
    void *od;
    struct device_place place;
};

struct op {
    const struct op_kind *kind;
    void *od;
    struct lib *lib;
    bool is_loss;
};

static enum status op_create(void *lib, const struct op_env *env, const struct op_node *node,
                             const struct value_desc *values, struct op_info *info, void **out)
{
    struct op *op = mem_alloc(1, sizeof *op);

    if (op == NULL) {
        return ST_NOMEM;
    }
    *out = op;
    op->kind = sealed_host_ops()->kinds[node->kind];
    op->lib = lib;
    op->is_loss = node->kind == LAYER_SOFTMAX_LOSS;
    return op->kind->create(op->lib->od, env, node, values, info, &op->od);
}

static void op_destroy(void *op)
{
    struct op *o = op;

    if (o != NULL) {
        o->kind->destroy(o->od);
        mem_free(o);
    }
}

static enum status op_put(const struct op *o, const struct op_io *io,
                          enum status (*fn)(void *op, const struct op_io *io), bool is_loss)
{
    struct work w = {
        .kind = CALL,
        .u.call = {.fn = fn, .op = o->od, .io = *io, .is_loss = is_loss, .lib = o->lib->od}};

    sealed_put(o->lib->place.set, o->lib->place.stream, &w);
    return ST_OK;
}

static enum status op_forward(void *op, const struct op_io *io)
{
    const struct op *o = op;

    return op_put(o, io, o->kind->forward, o->is_loss);
}

static enum status op_backward_weights(void *op, const struct op_io *io)
{
    const struct op *o = op;

    return op_put(o, io, o->kind->backward_weights, false);
}

static enum status op_backward(void *op, const struct op_io *io)
{
    const struct op *o = op;

    return op_put(o, io, o->kind->backward, false);
}

static size_t op_param_index(const void *op, int k, size_t i)
{
    const struct op *o = op;

    return o->kind->param_index == NULL ? i : o->kind->param_index(o->od, k, i);
}

static enum status lib_open(const struct op_env *env, void **out)
{
    struct lib *l = mem_alloc(1, sizeof *l);
    enum status st;

    if (l == NULL) {
        return ST_NOMEM;
    }
    l->place = *env->place;
    st = sealed_host_ops()->open(env, &l->od);
    if (st != ST_OK) {
        mem_free(l);
        return st;
    }
    *out = l;
    return ST_OK;
}

static void lib_close(void *lib)
{
    struct lib *l = lib;

    sealed_host_ops()->close(l->od);
    mem_free(l);
}

static enum status lib_arrange(void *lib, const struct op_env *env, const struct op_node *nodes,
                               int n_nodes, struct value_desc *values)
{
    return sealed_host_ops()->arrange(((struct lib *)lib)->od, env, nodes, n_nodes, values);
}

static void lib_gradient(void *lib, const struct value_desc *v, size_t n, const void *y,
                         const void *a, const void *b, void *g)
{
    const struct lib *l = lib;
    struct work w = {
        .kind = CALL,
        .u.call = {.v = v, .io = {.n = n}, .y = y, .a = a, .b = b, .g = g, .lib = l->od}};

    sealed_put(l->place.set, l->place.stream, &w);
}

static void lib_attach(void *lib)
{
    sealed_host_ops()->attach(((struct lib *)lib)->od); /* it is built for so many threads */
}

const struct nn_ops *sealed_ops(void)
{
    static const struct op_kind forward_only = {
        .create = op_create, .destroy = op_destroy, .forward = op_forward};
    static const struct op_kind whole = {.create = op_create,
                                         .destroy = op_destroy,
                                         .forward = op_forward,
                                         .backward = op_backward,
                                         .param_index = op_param_index};
    static const struct op_kind split = {.create = op_create,
                                         .destroy = op_destroy,
                                         .forward = op_forward,
                                         .backward_weights = op_backward_weights,
                                         .backward = op_backward,
                                         .param_index = op_param_index};
    static struct nn_ops table;

    table = (struct nn_ops){.name = "sealed",
                            .version = sealed_host_ops()->version,
                            .open = lib_open,
                            .close = lib_close,
                            .arrange = lib_arrange,
                            .gradient = lib_gradient,
                            .attach = lib_attach};
    for (int k = 0; k < LAYER_KINDS; k++) {
        const struct op_kind *od = sealed_host_ops()->kinds[k];
        table.kinds[k] = od == NULL                     ? NULL
                         : od->backward == NULL         ? &forward_only
                         : od->backward_weights != NULL ? &split
                                                        : &whole;
    }
    return &table;
}
