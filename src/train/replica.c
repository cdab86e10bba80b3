/* Builds what each rank trains with: a replica on a thread of its own, and its arenas. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "train/layout.h"
#include "train/state.h"

static enum status make_graph(struct rank *r)
{
    const struct trainer *t = r->t;
    struct graph_args args = {
        .net = t->net,
        .ops = t->ops,
        .tuning = t->tuning,
        .batches = t->batches,
        .n_batches = t->n_batches,
        .training = true,
        .compute = precision_compute(t->cfg),
        .tf32 = t->cfg->device.tf32,
        .n_threads = t->n_threads,
        .seed = (uint64_t)t->cfg->train.seed,
        .rank = r->index,
        .place = r->place,
        .capture = strcmp(t->cfg->device.graph, "off") != 0,
    };

    return graph_create(&args, &r->graph);
}

/* The start values are made on the host. */
static enum status make_weights(struct rank *r, size_t n)
{
    const uint64_t seed = (uint64_t)r->t->cfg->train.seed;
    float *host;
    enum status st;

    TRY(arena_alloc(r, n, &r->weights));
    if (r->place == NULL) {
        graph_init_params(r->graph, seed, r->weights);
        return ST_OK;
    }
    host = mem_alloc(n, sizeof *host);
    if (host == NULL) {
        return ST_NOMEM;
    }
    graph_init_params(r->graph, seed, host);
    st = arena_put(r, r->weights, host, n);
    mem_free(host);
    return st;
}

/* Arenas are first written here, by the thread that will use them. */
static enum status make_arenas(struct rank *r)
{
    struct trainer *t = r->t;
    const struct rank *owner = t->shared ? &t->ranks[0] : r;
    const size_t n = graph_arena_n(r->graph);

    if (owner == r) {
        TRY(make_weights(r, n));
        if (t->cfg->optim.momentum != 0) {
            TRY(arena_alloc(r, n, &r->momentum));
        }
    } else {
        r->weights = owner->weights;
        r->momentum = owner->momentum;
    }
    TRY(arena_alloc(r, n, &r->sums));
    if (t->schedule.accum > 1) {
        TRY(arena_alloc(r, n, &r->grads));
    } else {
        r->grads = r->sums;
    }
    if (t->cfg->debug.verify_every > 0) {
        TRY(arena_alloc_host(r, n, &r->kept));
    }
    r->seen = r->sums;
    if (t->cfg->debug.verify_every > 0 && r->place != NULL) {
        r->seen = NULL;
        TRY(arena_alloc_host(r, n, &r->seen));
    }
    graph_bind(r->graph, r->weights, r->grads);
    return ST_OK;
}

static enum status make_poison(struct rank *r)
{
    size_t shape[3];

    for (size_t i = 0; i < r->t->inject.n; i++) {
        if (r->t->inject.faults[i].kind == INJECT_NAN && r->t->inject.faults[i].rank == r->index &&
            r->poisoned == NULL) {
            dataset_shape(r->t->train, shape);
            r->poisoned =
                mem_alloc(r->t->batches[0] * shape[0] * shape[1] * shape[2], sizeof *r->poisoned);
            if (r->poisoned == NULL) {
                return ST_NOMEM;
            }
        }
    }
    return ST_OK;
}

static enum status make_saved_state(struct rank *r)
{
    return r->t->on_nan == ON_NAN_SKIP ? arena_alloc(r, graph_state_n(r->graph), &r->saved_state)
                                       : ST_OK;
}

static void build(struct rank *r)
{
    r->status = make_graph(r);
    if (r->status == ST_OK) {
        r->status = make_arenas(r);
    }
    if (r->status == ST_OK) {
        r->status = make_poison(r);
    }
    if (r->status == ST_OK) {
        r->status = make_saved_state(r);
    }
}

/* Rank 0 times the algorithms while nothing else runs; the others then find its choices. */
static void build_first(void *trainer, int rank)
{
    struct trainer *t = trainer;

    if (rank == 0) {
        build(&t->ranks[0]);
    }
}

static void build_others(void *trainer, int rank)
{
    struct trainer *t = trainer;

    if (rank != 0) {
        build(&t->ranks[rank]);
    }
}

static enum status first_error(const struct trainer *t)
{
    for (int r = 0; r < t->n_ranks; r++) {
        TRY(t->ranks[r].status);
    }
    return ST_OK;
}

static enum status make_loader(const struct rank *r, bool training, struct loader **out)
{
    const struct trainer *t = r->t;
    struct loader_args args = {
        .dataset = training ? t->train : t->test,
        .cfg = &t->cfg->data,
        .schedule = training ? t->schedule : t->test_schedule,
        .rank = r->index,
        .seed = (uint64_t)t->cfg->train.seed,
        .training = training,
    };

    return loader_create(&args, out);
}

/* Started from here and not from the ranks' threads, whose cores they would inherit. */
static enum status make_loaders(struct trainer *t)
{
    for (int r = 0; r < t->n_ranks; r++) {
        TRY(make_loader(&t->ranks[r], true, &t->ranks[r].loader));
        TRY(make_loader(&t->ranks[r], false, &t->ranks[r].test_loader));
    }
    return ST_OK;
}

static enum status make_arrays(struct trainer *t)
{
    t->arenas = mem_alloc((size_t)t->n_ranks, sizeof(float *));
    t->kept = mem_alloc((size_t)t->n_ranks, sizeof(float *));
    t->weights = mem_alloc((size_t)t->n_ranks, sizeof(float *));
    if (t->arenas == NULL || t->kept == NULL || t->weights == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < t->n_ranks; r++) {
        t->arenas[r] = t->ranks[r].sums;
        t->kept[r] = t->ranks[r].kept;
        t->weights[r] = t->ranks[r].weights;
    }
    return ST_OK;
}

static struct comm_args comm_args_of(struct trainer *t)
{
    return (struct comm_args){.cfg = &t->comm_cfg,
                              .topo = t->topo,
                              .n_ranks = t->n_ranks,
                              .arenas = t->arenas,
                              .places = t->places,
                              .buckets = t->buckets,
                              .n_buckets = t->n_buckets,
                              .timed = true,
                              .kind = t->rooted ? COMM_REDUCE : COMM_ALLREDUCE,
                              .root = 0,
                              .sink = {t->fused ? fuse_take : NULL, t}};
}

static enum status make_comm(struct trainer *t)
{
    struct comm_args args = comm_args_of(t);

    TRY(comm_create(&args, &t->comm));
    if (!t->rooted) {
        return ST_OK;
    }
    args.arenas = t->weights;
    args.kind = COMM_BROADCAST;
    args.beside = t->comm;
    return comm_create(&args, &t->sharing);
}

static enum status make_counters(struct trainer *t)
{
    for (int r = 0; r < t->n_ranks; r++) {
        mem_free(t->ranks[r].left);
        t->ranks[r].left = mem_alloc(t->n_buckets, sizeof(int));
        if (t->ranks[r].left == NULL) {
            return ST_NOMEM;
        }
        TRY(due_init(&t->ranks[r]));
        TRY(arena_ranges_init(&t->ranks[r]));
    }
    return ST_OK;
}

enum status replica_build_all(struct trainer *t)
{
    const struct comm_args args = comm_args_of(t);

    TRY(comm_try(&args)); /* before algorithms are timed */
    t->ranks = mem_alloc((size_t)t->n_ranks, sizeof *t->ranks);
    if (t->ranks == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < t->n_ranks; r++) {
        t->ranks[r].t = t;
        t->ranks[r].index = r;
        t->ranks[r].scale = loss_scale_make(t->cfg);
        t->ranks[r].place = t->on_device ? &t->places[r] : NULL;
    }
    TRY(arena_votes_init(t));
    crew_run(t->crew, build_first, t);
    TRY(first_error(t));
    crew_run(t->crew, build_others, t);
    TRY(first_error(t));
    TRY(layout_make(t));
    TRY(make_counters(t));
    TRY(make_arrays(t));
    TRY(make_comm(t));
    return make_loaders(t);
}

static enum status build_recut(struct trainer *t)
{
    TRY(layout_make(t));
    TRY(make_counters(t));
    TRY(tracing_recut(t));
    return make_comm(t);
}

enum status replica_recut(struct trainer *t)
{
    enum status st;

    comm_destroy(t->comm);
    comm_destroy(t->sharing);
    t->comm = NULL;
    t->sharing = NULL;
    for (int r = 0; r < t->n_ranks; r++) {
        due_fini(&t->ranks[r]);
        arena_ranges_fini(&t->ranks[r]);
    }
    layout_release(t);
    st = build_recut(t);
    if (st != ST_OK) {
        layout_release(t); /* the end of the run goes through the buckets that there are */
    }
    return st;
}

static void release(struct trainer *t, struct rank *r)
{
    loader_destroy(r->loader);
    loader_destroy(r->test_loader);
    graph_destroy(r->graph);
    if (r->grads != r->sums) {
        arena_release(r, r->grads);
    }
    if (r->seen != r->sums) {
        arena_release_host(r, r->seen);
    }
    arena_release(r, r->sums);
    if (r->index == 0 || !t->shared) {
        arena_release(r, r->weights);
        arena_release(r, r->momentum);
    }
    arena_release_host(r, r->kept);
    mem_free(r->poisoned);
    arena_release(r, r->saved_state);
    arena_ranges_fini(r);
    mem_free(r->left);
    due_fini(r);
}

void replica_release_all(struct trainer *t)
{
    arena_finish_all(t);
    comm_destroy(t->comm);
    comm_destroy(t->sharing);
    for (int r = 0; t->ranks != NULL && r < t->n_ranks; r++) {
        release(t, &t->ranks[r]);
    }
    arena_votes_fini(t);
    mem_free(t->ranks);
    mem_free(t->arenas);
    mem_free(t->kept);
    mem_free(t->weights);
    layout_release(t);
}
