#include "base/mem.h"
#include "nn/onednn/od_conv_pass.h"

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

/* Without timing: blocked, if that wastes less than half of the work. */
static bool blocked_is_good(const struct arrange *a, int group)
{
    bool any = false;

    if (a->last[group] || !a->lib->blocked) {
        return false;
    }
    for (int i = 0; i < a->n_nodes; i++) {
        const struct op_node *o = &a->nodes[i];
        bool plain = a->plain_input && o->inputs[0] == 0;
        double w;
        if (o->kind != LAYER_CONV2D || group_of(a, o->output) != group) {
            continue;
        }
        any = true;
        w = waste(a->values[o->output].shape.c);
        if (!plain) {
            w *= waste(a->values[o->inputs[0]].shape.c);
        }
        if ((!plain && w > 1.5) ||
            !runs_well(a, o, plain ? LAYOUT_NCHW : LAYOUT_BLOCKED, LAYOUT_BLOCKED)) {
            return false;
        }
    }
    return any;
}

static void choose_layouts(struct arrange *a, int n_values)
{
    for (int g = 0; g < n_values; g++) {
        enum value_layout layout;
        if (a->group[g] != g) {
            continue;
        }
        layout = blocked_is_good(a, g) ? LAYOUT_BLOCKED : LAYOUT_NHWC;
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
