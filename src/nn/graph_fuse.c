#include "nn/graph_internal.h"

#include "base/mem.h"

/*
 * From layers to op calls. Fused are
 *     conv + relu, dense + relu, add + relu, norm + relu, norm + add, norm + add + relu
 * where nobody else reads the value in between. A fused call stands where its last input is ready,
 * which for norm + add is the place of the add.
 */

struct fuse {
    const struct net *net;
    int *n_readers; /* by layer */
    int *reader;    /* the last one */
    int *norm_of;   /* by add layer: the norm that it takes in, or -1 */
    bool *done;     /* by layer: part of a node made earlier */
};

static void fuse_fini(struct fuse *f)
{
    mem_free(f->n_readers);
    mem_free(f->reader);
    mem_free(f->norm_of);
    mem_free(f->done);
}

/* Who reads whom, and which norm each add takes in. */
static enum status fuse_init(struct fuse *f, const struct net *net)
{
    size_t n = (size_t)net_n_layers(net);

    *f = (struct fuse){.net = net,
                       .n_readers = mem_alloc(n, sizeof(int)),
                       .reader = mem_alloc(n, sizeof(int)),
                       .norm_of = mem_alloc(n, sizeof(int)),
                       .done = mem_alloc(n, sizeof(bool))};
    if (f->n_readers == NULL || f->reader == NULL || f->norm_of == NULL || f->done == NULL) {
        fuse_fini(f);
        return ST_NOMEM;
    }
    for (int i = 0; i < (int)n; i++) {
        const struct layer *l = net_layer(net, i);
        f->norm_of[i] = -1;
        for (int k = 0; k < l->n_inputs; k++) {
            f->n_readers[l->inputs[k]]++;
            f->reader[l->inputs[k]] = i;
        }
    }
    for (int i = 0; i < (int)n; i++) {
        int r = f->reader[i];
        if (net_layer(net, i)->kind == LAYER_BATCH_NORM && f->n_readers[i] == 1 &&
            net_layer(net, r)->kind == LAYER_ADD && f->norm_of[r] < 0) {
            f->norm_of[r] = i;
            f->done[i] = true;
        }
    }
    return ST_OK;
}

static bool takes_relu(enum layer_kind kind)
{
    return kind == LAYER_CONV2D || kind == LAYER_DENSE || kind == LAYER_ADD ||
           kind == LAYER_BATCH_NORM;
}

/* The node that starts with layer `i`. */
static void fuse_layer(struct fuse *f, int i, struct op_node *o)
{
    const struct layer *l = net_layer(f->net, i);
    int norm = f->norm_of[i];

    *o = (struct op_node){.kind = l->kind, .net = f->net, .layer = l, .output = i};
    o->n_inputs = l->n_inputs;
    for (int k = 0; k < l->n_inputs; k++) {
        o->inputs[k] = l->inputs[k];
    }
    if (norm >= 0) {
        o->kind = LAYER_BATCH_NORM;
        o->layer = net_layer(f->net, norm);
        o->add = true;
        o->inputs[1] = l->inputs[0] == norm ? l->inputs[1] : l->inputs[0];
        o->inputs[0] = o->layer->inputs[0];
    }
    if (takes_relu(o->kind) && f->n_readers[i] == 1 &&
        net_layer(f->net, f->reader[i])->kind == LAYER_RELU) {
        o->relu = true;
        o->output = f->reader[i];
        f->done[o->output] = true;
    }
}

/* Which values depend on a parameter, so which gradients are wanted. */
static enum status want_gradients(struct graph *g)
{
    bool *depends = mem_alloc((size_t)g->n_values, sizeof *depends);

    if (depends == NULL) {
        return ST_NOMEM;
    }
    for (int i = 0; g->args.training && i < g->n_nodes; i++) {
        struct op_node *o = &g->nodes[i].op_node;
        o->wants_dw = o->layer->n_params > 0;
        depends[o->output] = o->wants_dw;
        for (int k = 0; k < o->n_inputs; k++) {
            o->wants_dx[k] = depends[o->inputs[k]];
            depends[o->output] = depends[o->output] || o->wants_dx[k];
        }
        g->nodes[i].has_backward = depends[o->output];
    }
    mem_free(depends);
    return ST_OK;
}

enum status graph_fuse(struct graph *g)
{
    struct fuse f;
    int n = net_n_layers(g->args.net);

    TRY(fuse_init(&f, g->args.net));
    g->nodes = mem_alloc((size_t)n, sizeof *g->nodes);
    if (g->nodes == NULL) {
        fuse_fini(&f);
        return ST_NOMEM;
    }
    for (int i = 0; i < n; i++) {
        if (!f.done[i]) {
            fuse_layer(&f, i, &g->nodes[g->n_nodes++].op_node);
        }
    }
    fuse_fini(&f);
    return want_gradients(g);
}
