#include "nn/graph_internal.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum status graph_layout_params(struct graph *g)
{
    const size_t align = graph_align(g) / sizeof(float);

    g->params = mem_alloc((size_t)net_n_params(g->args.net), sizeof *g->params);
    if (g->params == NULL) {
        return ST_NOMEM;
    }
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        struct node *n = &g->nodes[i];
        n->first_param = g->n_params;
        for (int k = 0; k < n->op_node.layer->n_params; k++) {
            struct graph_param *p = &g->params[g->n_params++];
            p->param = n->op_node.layer->params[k];
            p->offset = g->arena_n;
            p->n = (n->info.param_n[k] + align - 1) / align * align;
            g->arena_n += p->n;
        }
    }
    assert(g->n_params == net_n_params(g->args.net));
    return ST_OK;
}

size_t graph_arena_n(const struct graph *g)
{
    return g->arena_n;
}

int graph_n_params(const struct graph *g)
{
    return g->n_params;
}

struct graph_param graph_param(const struct graph *g, int i)
{
    assert(i >= 0 && i < g->n_params);
    return g->params[i];
}

const char *graph_param_name(const struct graph *g, int i)
{
    return net_layer(g->args.net, net_param(g->args.net, graph_param(g, i).param)->layer)->name;
}

void graph_bind(struct graph *g, const float *params, float *grads)
{
    for (int i = 0; i < g->n_nodes; i++) {
        struct node *n = &g->nodes[i];
        for (int k = 0; k < n->op_node.layer->n_params; k++) {
            size_t offset = g->params[n->first_param + k].offset;
            n->io.w[k] = params + offset;
            n->io.dw[k] = grads == NULL ? NULL : grads + offset;
        }
    }
}

void graph_params_changed(struct graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        g->nodes[i].io.weights_version++;
    }
}

/* A parameter's place: the node that owns it, which of its parameters it is, and its range. */
struct place {
    const struct node *node;
    int k;
    const struct param *param;
    struct graph_param range;
    size_t canonical; /* where it starts in the canonical order */
};

/* Call `fn` for every parameter, in canonical order. */
static void each_param(const struct graph *g, void (*fn)(void *ctx, const struct place *p),
                       void *ctx)
{
    size_t canonical = 0;

    for (int want = 0; want < g->n_params; want++) {
        const struct param *p = net_param(g->args.net, want);
        for (int i = 0; i < g->n_nodes; i++) {
            const struct node *n = &g->nodes[i];
            for (int k = 0; k < n->op_node.layer->n_params; k++) {
                if (n->op_node.layer->params[k] == want) {
                    struct place at = {n, k, p, g->params[n->first_param + k], canonical};
                    fn(ctx, &at);
                }
            }
        }
        canonical += p->n;
    }
}

static size_t index_in_range(const struct place *p, size_t i)
{
    return p->node->kind->param_index == NULL ? i
                                              : p->node->kind->param_index(p->node->op, p->k, i);
}

struct fill {
    const struct net *net;
    uint64_t seed;
    float *arena;
};

static void fill_param(void *ctx, const struct place *p)
{
    const struct fill *f = ctx;
    float *range = f->arena + p->range.offset;

    memset(range, 0, p->range.n * sizeof *range);
    for (size_t i = 0; i < p->param->n; i++) {
        range[index_in_range(p, i)] = net_init_value(f->net, p->range.param, f->seed, i);
    }
}

void graph_init_params(const struct graph *g, uint64_t seed, float *params)
{
    struct fill f = {g->args.net, seed, params};

    each_param(g, fill_param, &f);
}

struct copy {
    const float *from;
    float *to;
};

static void export_param(void *ctx, const struct place *p)
{
    const struct copy *c = ctx;

    for (size_t i = 0; i < p->param->n; i++) {
        c->to[p->canonical + i] = c->from[p->range.offset + index_in_range(p, i)];
    }
}

static void import_param(void *ctx, const struct place *p)
{
    const struct copy *c = ctx;
    float *range = c->to + p->range.offset;

    memset(range, 0, p->range.n * sizeof *range);
    for (size_t i = 0; i < p->param->n; i++) {
        range[index_in_range(p, i)] = c->from[p->canonical + i];
    }
}

enum status graph_export(const struct graph *g, const float *arena, float *canonical)
{
    struct copy c = {arena, canonical};

    each_param(g, export_param, &c);
    return ST_OK;
}

enum status graph_import(const struct graph *g, const float *canonical, float *arena)
{
    struct copy c = {canonical, arena};

    each_param(g, import_param, &c);
    return ST_OK;
}
