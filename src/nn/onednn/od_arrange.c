#include "base/mem.h"
#include "nn/onednn/od_choose.h"

/*
 * The layout of every value. Values that a layer other than a pooling connects share one (they form
 * a group); poolings read one layout and write another for free. A group is blocked where the
 * convolutions in it have fast blocked implementations and their channels fill the blocks, and
 * channels-last otherwise.
 */
struct arrange {
    const struct od *lib;
    const struct op_env *env;
    const struct op_node *nodes;
    int n_nodes;
    struct value_desc *values;
    int *group;       /* by value: another of its group, or itself */
    bool *last;       /* by group: must be channels-last */
    bool plain_input; /* value 0 is read only by convolutions that may take it as it is */
};

static int group_of(const struct arrange *a, int value)
{
    while (a->group[value] != value) {
        value = a->group[value];
    }
    return value;
}

static void connect(struct arrange *a, int x, int y)
{
    x = group_of(a, x);
    y = group_of(a, y);
    a->group[x] = y;
    a->last[y] = a->last[y] || a->last[x];
}

static bool connects(enum layer_kind kind)
{
    return kind == LAYER_CONV2D || kind == LAYER_BATCH_NORM || kind == LAYER_RELU ||
           kind == LAYER_ADD || kind == LAYER_CONCAT || kind == LAYER_LRN ||
           kind == LAYER_DROPOUT || kind == LAYER_PAD_CHANNELS;
}

/* Who reads the input: only dense layers, only convolutions with few channels, or others? */
static bool only_readers(const struct arrange *a, enum layer_kind kind, size_t max_channels)
{
    for (int i = 0; i < a->n_nodes; i++) {
        const struct op_node *o = &a->nodes[i];
        for (int k = 0; o->kind != LAYER_INPUT && k < o->n_inputs; k++) {
            if (o->inputs[k] == 0 && (o->kind != kind || a->values[0].shape.c > max_channels ||
                                      (kind == LAYER_CONV2D && o->layer->u.conv.groups > 1))) {
                return false;
            }
        }
    }
    return true;
}

static void make_groups(struct arrange *a)
{
    for (int i = 0; i < a->n_nodes; i++) {
        const struct op_node *o = &a->nodes[i];
        if (o->kind == LAYER_DENSE || o->kind == LAYER_GLOBAL_POOL) {
            a->last[group_of(a, o->output)] = true; /* vectors */
        }
        for (int k = 0; connects(o->kind) && k < o->n_inputs; k++) {
            if (o->kind == LAYER_CONCAT && a->values[o->inputs[k]].shape.c % KERNEL_LANES != 0) {
                a->last[group_of(a, o->output)] = true; /* parts must fill their blocks */
            }
            if (o->inputs[k] != 0 || !a->plain_input) {
                connect(a, o->inputs[k], o->output);
            }
        }
    }
}

/* Whether oneDNN runs every pass of convolution `o` with these layouts, without a reference. */
static bool runs_well(const struct arrange *a, const struct op_node *o, enum value_layout in,
                      enum value_layout out)
{
    struct conv_request q = {.lib = a->lib,
                             .node = o,
                             .in = a->values[o->inputs[0]],
                             .out = a->values[o->output],
                             .n = a->env->batches[0]};

    q.in.layout = in;
    q.out.layout = out;
    for (enum od_pass p = OD_FORWARD; p < OD_PASSES; p++) {
        dnnl_primitive_desc_t pd;
        if ((p == OD_BACKWARD_DATA && !o->wants_dx[0]) ||
            (p == OD_BACKWARD_WEIGHTS && !o->wants_dw)) {
            continue;
        }
        q.pass = p;
        if (conv_pass_describe(&q, NULL, false, &pd) != dnnl_success) {
            return false;
        }
        dnnl_primitive_desc_destroy(pd);
    }
    return true;
}

/* How much larger `c` channels are in blocks. */
static double waste(size_t c)
{
    return (double)((c + KERNEL_LANES - 1) / KERNEL_LANES * KERNEL_LANES) / (double)c;
}

/* The layouts of the operands of `o` if its group has `layout`. */
static void operands(const struct arrange *a, const struct op_node *o, enum value_layout layout,
                     struct value_desc *in, struct value_desc *out)
{
    *in = a->values[o->inputs[0]];
    *out = a->values[o->output];
    out->layout = layout;
    in->layout =
        a->plain_input && o->inputs[0] == 0 && layout == LAYOUT_BLOCKED ? LAYOUT_NCHW : layout;
}

static bool layout_is_possible(const struct arrange *a, int group, enum value_layout layout)
{
    if (layout == LAYOUT_BLOCKED && (a->last[group] || !a->lib->blocked)) {
        return false;
    }
    for (int i = 0; i < a->n_nodes; i++) {
        const struct op_node *o = &a->nodes[i];
        struct value_desc in, out;
        if (o->kind == LAYER_CONV2D && group_of(a, o->output) == group) {
            operands(a, o, layout, &in, &out);
            if (!runs_well(a, o, in.layout, out.layout)) {
                return false;
            }
        }
    }
    return true;
}

static bool has_convolution(const struct arrange *a, int group)
{
    for (int i = 0; i < a->n_nodes; i++) {
        if (a->nodes[i].kind == LAYER_CONV2D && group_of(a, a->nodes[i].output) == group) {
            return true;
        }
    }
    return false;
}

/* The time of the layers of a group. False if it was not measured. */
static bool cost_of(const struct arrange *a, int group, enum value_layout layout, int64_t *ns)
{
    *ns = 0;
    for (int i = 0; i < a->n_nodes; i++) {
        const struct op_node *o = &a->nodes[i];
        struct value_desc in, out;
        if (connects(o->kind) && group_of(a, o->output) == group) {
            operands(a, o, layout, &in, &out);
            if (!od_add_cost(a->env, a->lib, o, &in, &out, ns)) {
                return false;
            }
        }
    }
    return true;
}

/* Without times: blocked, if that wastes less than half of the work of every convolution. */
static bool blocked_is_likely(const struct arrange *a, int group)
{
    for (int i = 0; i < a->n_nodes; i++) {
        const struct op_node *o = &a->nodes[i];
        if (o->kind == LAYER_CONV2D && group_of(a, o->output) == group &&
            !(a->plain_input && o->inputs[0] == 0) &&
            waste(a->values[o->output].shape.c) * waste(a->values[o->inputs[0]].shape.c) > 1.5) {
            return false;
        }
    }
    return true;
}

static enum value_layout choose_layout(const struct arrange *a, int group)
{
    int64_t blocked, last;

    if (!has_convolution(a, group) || !layout_is_possible(a, group, LAYOUT_BLOCKED)) {
        return LAYOUT_NHWC;
    }
    if (!layout_is_possible(a, group, LAYOUT_NHWC)) {
        return LAYOUT_BLOCKED;
    }
    if (a->env->variant != VARIANT_BEST) {
        return a->env->variant == OD_VARIANT_LAST || a->env->variant == OD_VARIANT_GEMM
                   ? LAYOUT_NHWC
                   : LAYOUT_BLOCKED;
    }
    if (cost_of(a, group, LAYOUT_BLOCKED, &blocked) && cost_of(a, group, LAYOUT_NHWC, &last)) {
        return blocked <= last ? LAYOUT_BLOCKED : LAYOUT_NHWC;
    }
    *a->env->incomplete = true;
    return blocked_is_likely(a, group) ? LAYOUT_BLOCKED : LAYOUT_NHWC;
}

static void choose_layouts(struct arrange *a, int n_values)
{
    for (int g = 0; g < n_values; g++) {
        enum value_layout layout;
        if (a->group[g] != g) {
            continue;
        }
        layout = choose_layout(a, g);
        for (int v = 0; v < n_values; v++) {
            if (group_of(a, v) == g) {
                a->values[v].layout = layout;
            }
        }
    }
    if (!a->plain_input) {
        return;
    }
    a->values[0].layout = LAYOUT_NCHW;
    for (int i = 0; i < a->n_nodes; i++) {
        const struct op_node *o = &a->nodes[i];
        if (o->kind == LAYER_CONV2D && o->inputs[0] == 0 &&
            a->values[o->output].layout == LAYOUT_NHWC) {
            a->values[0].layout = LAYOUT_NHWC;
        }
    }
}

/* Activations are of the computing type, but dense layers take any and give the loss fp32. */
static void choose_types(struct arrange *a, int n_values)
{
    for (int v = 0; v < n_values; v++) {
        a->values[v].dtype = a->env->compute;
    }
    for (int i = 0; i < a->n_nodes; i++) {
        const struct op_node *o = &a->nodes[i];
        if (o->kind == LAYER_SOFTMAX_LOSS) {
            a->values[o->output].dtype = GRAPH_FP32;
        }
        for (int k = 0; o->kind == LAYER_DENSE && k < a->n_nodes; k++) {
            if (a->nodes[k].kind == LAYER_SOFTMAX_LOSS && a->nodes[k].inputs[0] == o->output) {
                a->values[o->output].dtype = GRAPH_FP32;
            }
        }
    }
}

/* Convolutions on the input with different layouts behind them: then it takes part in groups. */
static bool one_group_reads_input(const struct arrange *a)
{
    int group = -1;

    for (int i = 0; i < a->n_nodes; i++) {
        const struct op_node *o = &a->nodes[i];
        if (o->kind == LAYER_CONV2D && o->inputs[0] == 0) {
            if (group >= 0 && group_of(a, o->output) != group) {
                return false;
            }
            group = group_of(a, o->output);
        }
    }
    return true;
}

enum status od_arrange(void *lib, const struct op_env *env, const struct op_node *nodes,
                       int n_nodes, struct value_desc *values)
{
    int n_values = net_n_layers(nodes[0].net);
    bool dense;
    struct arrange a = {.lib = lib,
                        .env = env,
                        .nodes = nodes,
                        .n_nodes = n_nodes,
                        .values = values,
                        .group = mem_alloc((size_t)n_values, sizeof(int)),
                        .last = mem_alloc((size_t)n_values, sizeof(bool))};

    if (a.group == NULL || a.last == NULL) {
        mem_free(a.group);
        mem_free(a.last);
        return ST_NOMEM;
    }
    for (int v = 0; v < n_values; v++) {
        a.group[v] = v;
    }
    choose_types(&a, n_values);
    dense = only_readers(&a, LAYER_DENSE, SIZE_MAX);
    a.plain_input = dense || only_readers(&a, LAYER_CONV2D, 4);
    make_groups(&a);
    if (a.plain_input && !dense && !one_group_reads_input(&a)) {
        a.plain_input = false;
        make_groups(&a); /* only adds connections */
    }
    choose_layouts(&a, n_values);
    if (dense) {
        values[0].dtype = GRAPH_FP32;
    }
    mem_free(a.group);
    mem_free(a.last);
    return ST_OK;
}
