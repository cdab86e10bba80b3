#include "train/layout.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "train/state.h"

static int layer_of(const struct trainer *t, int i)
{
    return net_param(t->net, graph_param(t->ranks[0].graph, i).param)->layer;
}

/* The ends of the layers' ranges in the arena; what lies between two layers goes to the first. */
static size_t find_cuts(const struct trainer *t, size_t *cuts)
{
    const struct graph *g = t->ranks[0].graph;
    const int n_params = graph_n_params(g);
    size_t n = 0;

    for (int i = 1; i < n_params; i++) {
        if (layer_of(t, i) != layer_of(t, i - 1)) {
            cuts[n++] = graph_param(g, i).offset;
        }
    }
    cuts[n++] = t->n;
    return n;
}

static size_t find_bucket(const struct trainer *t, size_t offset)
{
    size_t b = 0;

    while (offset >= t->buckets[b].offset + t->buckets[b].n) {
        b++;
    }
    return b;
}

/* "fc2" or "fc2 ... conv1" for a bucket of parameters first to last. */
static char *make_label(const struct graph *g, int first, int last)
{
    const char *a = graph_param_name(g, first), *b = graph_param_name(g, last);

    return strcmp(a, b) == 0 ? mem_strdup(a) : mem_printf("%s ... %s", a, b);
}

static enum status label_buckets(struct trainer *t)
{
    const struct graph *g = t->ranks[0].graph;
    const int n_params = graph_n_params(g);
    int last;

    for (int first = 0; first < n_params; first = last + 1) {
        int b = (int)find_bucket(t, graph_param(g, first).offset);
        for (last = first;
             last + 1 < n_params && (int)find_bucket(t, graph_param(g, last + 1).offset) == b;) {
            last++;
        }
        for (int i = first; i <= last; i++) {
            t->bucket_of[i] = b;
        }
        t->labels[b] = make_label(g, first, last);
        if (t->labels[b] == NULL) {
            return ST_NOMEM;
        }
        t->buckets[b].label = t->labels[b];
    }
    return ST_OK;
}

/* One range for neighbours that decay alike; the padding between them is zero and stays so. */
static void make_ranges(struct trainer *t)
{
    const struct graph *g = t->ranks[0].graph;

    for (int i = 0; i < graph_n_params(g); i++) {
        struct graph_param p = graph_param(g, i);
        bool decay =
            t->cfg->optim.decay_norm_bias || net_param(t->net, p.param)->role == PARAM_WEIGHT;
        struct sgd_range *last = t->n_ranges == 0 ? NULL : &t->ranges[t->n_ranges - 1];
        if (last != NULL && last->decay == decay) {
            last->n = p.offset + p.n - last->offset;
        } else {
            t->ranges[t->n_ranges++] = (struct sgd_range){p.offset, p.n, decay};
        }
    }
}

/* [comm] bucket_layers must deal out all layers, and means nothing without buckets = merge. */
static enum status check_layers(const struct trainer *t, size_t n_layers)
{
    const struct config_reals *merged = &t->comm_cfg.bucket_layers;
    double sum = 0;

    for (size_t i = 0; i < merged->n; i++) {
        sum += merged->v[i];
    }
    if (merged->n > 0 && strcmp(t->comm_cfg.buckets, "merge") != 0) {
        return log_fail(ST_INPUT, "[comm] bucket_layers is given and buckets = %s, use merge",
                        t->comm_cfg.buckets);
    }
    if (merged->n > 0 && sum != (double)n_layers) {
        return log_fail(ST_INPUT,
                        "[comm] bucket_layers deals out %.0f layers, the network has %zu with "
                        "parameters, leave the key out to have it found",
                        sum, n_layers);
    }
    return ST_OK;
}

enum status layout_make(struct trainer *t)
{
    const size_t n_params = (size_t)graph_n_params(t->ranks[0].graph);
    size_t *cuts = mem_alloc(n_params + 1, sizeof *cuts);
    size_t n_cuts;
    enum status st;

    t->n = graph_arena_n(t->ranks[0].graph);
    t->buckets = mem_alloc(n_params + 1, sizeof *t->buckets);
    t->labels = mem_alloc(n_params + 1, sizeof *t->labels);
    t->bucket_of = mem_alloc(n_params + 1, sizeof *t->bucket_of);
    t->ranges = mem_alloc(n_params + 1, sizeof *t->ranges);
    if (cuts == NULL || t->buckets == NULL || t->labels == NULL || t->bucket_of == NULL ||
        t->ranges == NULL) {
        mem_free(cuts);
        return ST_NOMEM;
    }
    n_cuts = find_cuts(t, cuts);
    st = check_layers(t, n_cuts);
    t->n_buckets = st == ST_OK ? comm_make_buckets(&t->comm_cfg, cuts, n_cuts, t->buckets) : 0;
    mem_free(cuts);
    TRY(st);
    make_ranges(t);
    return label_buckets(t);
}

void layout_release(struct trainer *t)
{
    for (size_t b = 0; t->labels != NULL && b < t->n_buckets; b++) {
        mem_free(t->labels[b]);
    }
    mem_free(t->labels);
    mem_free(t->buckets);
    mem_free(t->bucket_of);
    mem_free(t->ranges);
    t->labels = NULL;
    t->buckets = NULL;
    t->bucket_of = NULL;
    t->ranges = NULL;
    t->n_buckets = 0;
    t->n_ranges = 0;
}
