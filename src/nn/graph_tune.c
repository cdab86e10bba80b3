#include "nn/graph_internal.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "nn/tuning_table.h"

/*
 * Timing in the sequence: what a layer costs depends on what its neighbours leave in the caches, so
 * whole training steps of the network are run, and every call is clocked within them. The fastest
 * of a few steps counts, which other processes disturb least.
 */

enum {
    MIN_STEPS = 3,
    MAX_STEPS = 20
};

static const double enough_s = 0.5; /* of steps per variant */

struct trial {
    struct graph *graph;
    float *params, *grads, *x;
    int32_t *labels;
    int64_t *best; /* [n_nodes][OP_CALLS] */
};

static void trial_fini(struct trial *t)
{
    graph_destroy(t->graph);
    mem_free(t->params);
    mem_free(t->grads);
    mem_free(t->x);
    mem_free(t->labels);
    mem_free(t->best);
    *t = (struct trial){0};
}

/* Any numbers of a usual size; only the time is of interest. */
static void fill(float *p, size_t n, float size)
{
    uint32_t r = 1;

    for (size_t i = 0; i < n; i++) {
        r = r * 1664525u + 1013904223u;
        p[i] = size * ((float)(r >> 8) / (float)(1 << 23) - 1.0f);
    }
}

static enum status trial_init(struct trial *t, const struct graph_args *args, int variant)
{
    struct shape in = net_layer(args->net, 0)->out;
    bool incomplete = false;
    size_t n_x = args->batches[0] * in.c * in.h * in.w;

    *t = (struct trial){0};
    TRY(graph_build(args, variant, &incomplete, &t->graph));
    t->params = mem_alloc(graph_arena_n(t->graph), sizeof(float));
    t->grads = mem_alloc(graph_arena_n(t->graph), sizeof(float));
    t->x = mem_alloc(n_x, sizeof(float));
    t->labels = mem_alloc(args->batches[0], sizeof(int32_t));
    t->best = mem_alloc((size_t)t->graph->n_nodes * OP_CALLS, sizeof *t->best);
    if (t->params == NULL || t->grads == NULL || t->x == NULL || t->labels == NULL ||
        t->best == NULL) {
        return ST_NOMEM;
    }
    fill(t->params, graph_arena_n(t->graph), 0.05f);
    fill(t->x, n_x, 1.0f);
    graph_bind(t->graph, t->params, t->grads);
    return ST_OK;
}

static enum status trial_step(struct trial *t)
{
    struct graph *g = t->graph;
    struct graph_result r;

    TRY(graph_forward(g, t->x, t->labels, g->batches[0], g->args.training, 0, NULL, &r));
    if (g->args.training) {
        TRY(graph_backward(g, 1.0f, NULL));
    }
    for (int i = 0; i < g->n_nodes; i++) {
        for (int c = 0; c < OP_CALLS; c++) {
            int64_t *best = &t->best[i * OP_CALLS + c], spent = g->nodes[i].spent_ns[c];
            *best = *best == 0 || spent < *best ? spent : *best;
            g->nodes[i].spent_ns[c] = 0;
        }
    }
    return ST_OK;
}

/* The mean of all calls with one key; the times before `i` with the same key have been entered. */
static int64_t mean_of_key(const struct trial *t, const char *key, int first, int call)
{
    const struct graph *g = t->graph;
    char other[TUNING_KEY_BYTES];
    int64_t sum = 0, n = 0;

    for (int i = first; i < g->n_nodes; i++) {
        const struct node *k = &g->nodes[i];
        if (g->args.ops->key(&g->env, &k->op_node, g->values, (enum op_call)call,
                             k->info.algorithm[call], other, sizeof other) &&
            strcmp(other, key) == 0) {
            sum += t->best[i * OP_CALLS + call];
            n++;
        }
    }
    return sum / n;
}

static enum status enter_times(const struct trial *t)
{
    const struct graph *g = t->graph;
    char key[TUNING_KEY_BYTES];

    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *k = &g->nodes[i];
        for (int c = 0; c < OP_CALLS; c++) {
            if (t->best[i * OP_CALLS + c] > 0 &&
                g->args.ops->key(&g->env, &k->op_node, g->values, (enum op_call)c,
                                 k->info.algorithm[c], key, sizeof key)) {
                TRY(tuning_put(g->args.tuning, key, mean_of_key(t, key, i, c)));
            }
        }
    }
    return ST_OK;
}

/* Whether a variant would tell nothing new: all its calls have been timed. */
static bool is_known(const struct trial *t)
{
    const struct graph *g = t->graph;
    char key[TUNING_KEY_BYTES];
    int64_t ns;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *k = &g->nodes[i];
        for (int c = 0; c < OP_CALLS; c++) {
            if (g->args.ops->key(&g->env, &k->op_node, g->values, (enum op_call)c,
                                 k->info.algorithm[c], key, sizeof key) &&
                !tuning_find(g->args.tuning, key, &ns)) {
                return false;
            }
        }
    }
    return true;
}

static enum status run_trial(const struct graph_args *args, int variant)
{
    struct trial t;
    enum status st = trial_init(&t, args, variant);
    double start;

    if (st == ST_OK && is_known(&t)) {
        trial_fini(&t);
        return ST_OK;
    }
    tuning_announce(args->tuning);
    if (st == ST_OK) {
        st = trial_step(&t); /* touches everything once, untimed */
        t.graph->timed = true;
    }
    start = clock_now_s();
    for (int i = 0;
         st == ST_OK && i < MAX_STEPS && (i < MIN_STEPS || clock_now_s() - start < enough_s); i++) {
        st = trial_step(&t);
    }
    if (st == ST_OK) {
        st = enter_times(&t);
    }
    trial_fini(&t);
    return st;
}

enum status graph_tune(const struct graph_args *args)
{
    for (int v = 0; v < args->ops->n_variants; v++) {
        TRY(run_trial(args, v));
    }
    tuning_save(args->tuning);
    return ST_OK;
}
