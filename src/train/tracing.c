/* From the config to a trace. */
#include <string.h>

#include "base/mem.h"
#include "train/state.h"

/* Number the layers that have parameters in the order of the arena; their names in `names`. */
static size_t number_layers(struct trainer *t, const char **names)
{
    const struct graph *g = t->ranks[0].graph;
    size_t n = 0;

    for (int i = 0; i < graph_n_params(g); i++) {
        const char *name = graph_param_name(g, i);
        if (n == 0 || strcmp(names[n - 1], name) != 0) {
            names[n++] = name;
        }
        t->layer_of[i] = (int)n - 1;
    }
    return n;
}

enum status tracing_init(struct trainer *t)
{
    const size_t n_params = (size_t)graph_n_params(t->ranks[0].graph);
    struct trace_args args = {.path = t->cfg->log.trace,
                              .n_ranks = t->n_ranks,
                              .first = (uint64_t)t->cfg->log.trace_first,
                              .n_steps = (uint64_t)t->cfg->log.trace_steps,
                              .collective = t->rooted ? "reduce" : "allreduce",
                              .buckets = (const char *const *)t->labels,
                              .n_buckets = t->n_buckets};
    const char **names;
    enum status st;

    if (args.path[0] == '\0') {
        return ST_OK;
    }
    names = mem_alloc(n_params, sizeof *names);
    t->layer_of = mem_alloc(n_params, sizeof *t->layer_of);
    if (names == NULL || t->layer_of == NULL) {
        mem_free(names);
        return ST_NOMEM;
    }
    args.layers = names;
    args.n_layers = number_layers(t, names);
    /* A batch, two passes; post, way, wait and update of each bucket, and its sharing, of two steps
     * where the one before reaches into the last of an epoch; meetings. */
    args.max_events = t->schedule.accum * (1 + 2 * args.n_layers) + 12 * t->n_buckets + 8;
    st = trace_create(&args, &t->trace);
    mem_free(names);
    return st;
}

enum status tracing_recut(struct trainer *t)
{
    return t->trace == NULL ? ST_OK
                            : trace_rename(t->trace, (const char *const *)t->labels, t->n_buckets);
}

void tracing_fini(struct trainer *t)
{
    trace_destroy(t->trace);
    mem_free(t->layer_of);
}
