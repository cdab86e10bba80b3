#include "nn/graph_internal.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "nn/tuning_table.h"

/* --- memory: the host's, or the device's --- */

static enum status take(const struct graph *g, size_t bytes, void **out)
{
    const struct device_place *p = g->args.place;

    if (p != NULL) {
        return p->ops->alloc(p->set, p->rank, bytes, out);
    }
    *out = mem_alloc(bytes, 1);
    return *out != NULL ? ST_OK : ST_NOMEM;
}

static void give(const struct graph *g, void *memory)
{
    const struct device_place *p = g->args.place;

    if (p != NULL) {
        p->ops->release(p->set, p->rank, memory);
    } else {
        mem_free(memory);
    }
}

/* --- building --- */

static enum status copy_args(struct graph *g, const struct graph_args *args)
{
    g->args = *args;
    g->batches = mem_alloc(args->n_batches, sizeof *g->batches);
    if (g->batches == NULL) {
        return ST_NOMEM;
    }
    memcpy(g->batches, args->batches, args->n_batches * sizeof *g->batches);
    g->args.batches = g->batches;
    g->env = (struct op_env){.batches = g->batches,
                             .n_batches = args->n_batches,
                             .training = args->training,
                             .compute = args->compute,
                             .tf32 = args->tf32,
                             .n_threads = args->n_threads < 1 ? 1 : args->n_threads,
                             .seed = args->seed,
                             .rank = args->rank,
                             .place = args->place,
                             .tuning = args->tuning};
    return ST_OK;
}

static enum status make_values(struct graph *g)
{
    g->n_values = net_n_layers(g->args.net);
    g->values = mem_alloc((size_t)g->n_values, sizeof *g->values);
    g->value_buffer = mem_alloc((size_t)g->n_values, sizeof *g->value_buffer);
    if (g->values == NULL || g->value_buffer == NULL) {
        return ST_NOMEM;
    }
    for (int i = 0; i < g->n_values; i++) {
        g->values[i].shape = net_layer(g->args.net, i)->out;
        g->value_buffer[i] = NO_BUFFER;
    }
    return ST_OK;
}

/* The nodes of one op library's choice: layouts, then ops. */
static enum status make_ops(struct graph *g)
{
    struct op_node *flat = mem_alloc((size_t)g->n_nodes, sizeof *flat);
    enum status st;

    if (flat == NULL) {
        return ST_NOMEM;
    }
    for (int i = 0; i < g->n_nodes; i++) {
        flat[i] = g->nodes[i].op_node;
    }
    st = g->args.ops->arrange(g->lib, &g->env, flat, g->n_nodes, g->values);
    mem_free(flat);
    for (int i = 0; st == ST_OK && i < g->n_nodes; i++) {
        struct node *n = &g->nodes[i];
        n->kind = g->args.ops->kinds[n->op_node.kind];
        if (n->kind == NULL) {
            return log_fail(ST_UNSUPPORTED, "%s has no operation for layer %s", g->args.ops->name,
                            n->op_node.layer->name);
        }
        st = n->kind->create(g->lib, &g->env, &n->op_node, g->values, &n->info, &n->op);
    }
    return st;
}

/* Means 0, variances 1. */
static void fill_state(const struct graph *g, float *state)
{
    for (int i = 0; i < g->n_nodes; i++) {
        size_t half = g->nodes[i].info.state_n / 2;
        for (size_t k = 0; k < half; k++) {
            state[g->nodes[i].state_offset + half + k] = 1.0f;
        }
    }
}

static enum status make_state(struct graph *g)
{
    const struct device_place *p = g->args.place;
    void *state;
    float *first;
    enum status st;

    for (int l = 0; l < g->n_values; l++) { /* layer order: fused nodes may stand later */
        for (int i = 0; i < g->n_nodes; i++) {
            if (g->nodes[i].op_node.layer == net_layer(g->args.net, l)) {
                g->nodes[i].state_offset = g->state_n;
                g->state_n += g->nodes[i].info.state_n;
            }
        }
    }
    TRY(take(g, g->state_n * sizeof *g->state, &state));
    g->state = state;
    if (p == NULL) {
        fill_state(g, g->state);
        return ST_OK;
    }
    first = mem_alloc(g->state_n, sizeof *first);
    if (first == NULL) {
        return ST_NOMEM;
    }
    fill_state(g, first);
    st = p->ops->copy(p->set, p->stream, g->state, first, g->state_n * sizeof *first);
    st = st == ST_OK ? p->ops->stream_sync(p->set, p->stream) : st;
    mem_free(first);
    return st;
}

static void point_io(struct graph *g, struct node *n)
{
    const struct op_node *o = &n->op_node;
    struct op_io *io = &n->io;

    for (int k = 0; k < o->n_inputs; k++) {
        io->x[k] = graph_buffer(g, g->value_buffer[o->inputs[k]]);
        io->dx[k] = graph_buffer(g, n->dx[k]);
    }
    io->y = graph_buffer(g, g->value_buffer[o->output]);
    io->dy[0] = graph_buffer(g, n->dy[0]);
    io->dy[1] = graph_buffer(g, n->dy[1]);
    io->kept = graph_buffer(g, n->kept);
    io->state = g->state + n->state_offset;
}

static enum status make_memory(struct graph *g)
{
    size_t derived = 0;
    void *memory = NULL, *scratch = NULL;
    enum status st;

    for (int i = 0; i < g->n_nodes; i++) {
        size_t bytes = g->nodes[i].info.derived_bytes;
        derived = bytes > derived ? bytes : derived;
    }
    g->report.workspace += g->scratch_bytes;
    g->report.derived_weights = derived < g->report.workspace ? derived : g->report.workspace;
    g->report.workspace -= g->report.derived_weights;
    st = take(g, g->memory_bytes, &memory);
    g->memory = memory;
    st = st == ST_OK ? take(g, g->scratch_bytes, &scratch) : st;
    g->scratch = scratch;
    if (st == ST_NOMEM) {
        return log_fail(ST_NOMEM,
                        "a replica of %s needs %zu MiB for activations and %zu MiB to work, "
                        "choose a smaller batch",
                        net_name(g->args.net), g->memory_bytes >> 20, g->scratch_bytes >> 20);
    }
    TRY(st);
    for (int i = 0; i < g->n_nodes; i++) {
        point_io(g, &g->nodes[i]);
    }
    return ST_OK;
}

static enum status build(struct graph *g, const struct graph_args *args, int variant,
                         bool *incomplete)
{
    TRY(copy_args(g, args));
    g->env.variant = variant;
    g->env.incomplete = incomplete;
    TRY(args->ops->open(&g->env, &g->lib));
    args->ops->attach(g->lib);
    TRY(make_values(g));
    TRY(graph_fuse(g));
    TRY(make_ops(g));
    TRY(graph_layout_params(g));
    TRY(graph_plan(g));
    TRY(make_state(g));
    TRY(make_memory(g));
    if (args->place != NULL) {
        TRY(graph_stage_init(g));
        TRY(graph_capture_init(g));
    }
    return ST_OK;
}

enum status graph_build(const struct graph_args *args, int variant, bool *incomplete,
                        struct graph **out)
{
    struct graph *g = mem_alloc(1, sizeof *g);
    enum status st;

    if (g == NULL) {
        return ST_NOMEM;
    }
    st = build(g, args, variant, incomplete);
    if (st != ST_OK) {
        graph_destroy(g);
        return st;
    }
    g->env.incomplete = NULL;
    *out = g;
    return ST_OK;
}

enum status graph_create(const struct graph_args *args, struct graph **out)
{
    bool incomplete = false;
    enum status st;

    assert(args->n_batches > 0);
    tuning_lock(args->tuning);
    st = graph_build(args, VARIANT_BEST, &incomplete, out);
    if (st == ST_OK && incomplete && args->place == NULL && tuning_may_time(args->tuning)) {
        graph_destroy(*out);
        st = graph_tune(args);
        if (st == ST_OK) {
            st = graph_build(args, VARIANT_BEST, &incomplete, out);
        }
    }
    tuning_unlock(args->tuning);
    return st;
}

void graph_destroy(struct graph *g)
{
    const struct device_place *p = g != NULL ? g->args.place : NULL;

    if (g == NULL) {
        return;
    }
    if (p != NULL) {
        (void)!p->ops->stream_sync(p->set, p->stream); /* it has waited for all uploads */
    }
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i].kind != NULL) {
            g->nodes[i].kind->destroy(g->nodes[i].op);
        }
    }
    give(g, g->memory);
    give(g, g->scratch);
    give(g, g->state);
    if (p != NULL) {
        graph_capture_fini(g);
        graph_stage_fini(g);
    }
    if (g->lib != NULL) {
        g->args.ops->close(g->lib);
    }
    mem_free(g->batches);
    mem_free(g->values);
    mem_free(g->value_buffer);
    mem_free(g->nodes);
    mem_free(g->buffers);
    mem_free(g->params);
    mem_free(g);
}

/* --- reading --- */

size_t graph_state_n(const struct graph *g)
{
    return g->state_n;
}

float *graph_state(struct graph *g)
{
    return g->state;
}

struct graph_memory graph_memory(const struct graph *g)
{
    return g->report;
}
