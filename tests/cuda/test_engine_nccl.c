/*
 * What the engine puts on streams around NCCL's collectives gives the right sums in every order
 * that streams and events allow, whatever order the ranks post in; and no wait can be left out.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "comm/cuda/engine_cuda.h"
#include "grid.h"
#include "nccl_streams.h"
#include "recorder.h"

enum {
    MAX_JOBS = 3,
    N_RUNS = 3,
    N = 23
};

struct world {
    enum collective collective;
    int n_ranks, root;
    int n_jobs;
    bool alike; /* all ranks post in the same order */
    struct topo *topo;
    struct plan *plan;
    struct program *program;
    struct recorder *recorder;
    struct nccl_streams nccl;
    struct device_place places[DEVICE_MAX_REFS];
    struct program_buffers buffers[MAX_JOBS][DEVICE_MAX_REFS];
    struct nccl_lanes *lanes;
    struct engine_cuda *engine;
    size_t wrong;
};

static float value(int rank, size_t i, int job, int run)
{
    return (float)((size_t)(rank + 1) * 3 + i * 5 % 13 + (size_t)job * 7 + (size_t)run * 11);
}

/* Before a post, and after a wait. */
static void produce(void *ctx, int rank, int which)
{
    struct world *w = ctx;
    float *x = w->buffers[which / N_RUNS][rank].out;

    for (size_t i = 0; i < N; i++) {
        x[i] = value(rank, i, which / N_RUNS, which % N_RUNS);
    }
}

static float expected(const struct world *w, int rank, size_t i, int job, int run)
{
    float sum = 0;

    if (w->collective == COLL_BROADCAST) {
        return value(w->root, i, job, run);
    }
    if (w->collective == COLL_REDUCE && rank != w->root) {
        return value(rank, i, job, run);
    }
    for (int r = 0; r < w->n_ranks; r++) {
        sum += value(r, i, job, run);
    }
    return sum;
}

static void consume(void *ctx, int rank, int which)
{
    struct world *w = ctx;
    const float *x = w->buffers[which / N_RUNS][rank].out;

    for (size_t i = 0; i < N; i++) {
        w->wrong += x[i] != expected(w, rank, i, which / N_RUNS, which % N_RUNS);
    }
}

static bool went_wrong(void *ctx)
{
    struct world *w = ctx;
    bool wrong = w->wrong > 0;

    w->wrong = 0;
    return wrong;
}

static void make_lanes(struct world *w)
{
    struct nccl_lanes_args args = {
        .library = NCCL_DOUBLE, .places = w->places, .n_ranks = w->n_ranks, .timeout_s = 5};

    cr_assert_eq(nccl_lanes_create(&args, &w->lanes), ST_OK);
}

static void make_engine(struct world *w)
{
    struct plan_request q = {
        .collective = w->collective, .n_ranks = w->n_ranks, .root = w->root, .n_bytes = 4 * N};
    struct program_spec spec = {.redop = REDOP_SUM, .in_place = true, .n = N};
    struct engine_cuda_options opt = {.device = &w->nccl.ops,
                                      .set = w->recorder,
                                      .n_ranks = w->n_ranks,
                                      .timeout_s = 5,
                                      .lanes = w->lanes,
                                      .root = w->root};
    struct engine_job jobs[MAX_JOBS];

    cr_assert_eq(plan_create_bare("nccl", w->topo, &q, &w->plan), ST_OK);
    cr_assert_eq(program_create(w->plan, &spec, &w->program), ST_OK);
    for (int j = 0; j < w->n_jobs; j++) {
        for (int r = 0; r < w->n_ranks; r++) {
            struct program_buffers *b = &w->buffers[j][r];
            cr_assert_eq(w->nccl.ops.alloc(w->recorder, r, 4 * N, &b->out), ST_OK);
            b->in = b->out;
        }
        jobs[j] = (struct engine_job){w->program, w->buffers[j], "a test", "job"};
    }
    cr_assert_eq(engine_cuda_create(&opt, jobs, (size_t)w->n_jobs, &w->engine), ST_OK);
}

static void world_init(struct world *w, enum collective c, int n_ranks, int n_jobs)
{
    int device_of[RECORDER_MAX_RANKS];
    const struct device_ops ops = recorder_ops(false);

    *w = (struct world){.collective = c, .n_ranks = n_ranks, .root = n_ranks / 2, .n_jobs = n_jobs};
    for (int r = 0; r < n_ranks; r++) {
        device_of[r] = r;
    }
    w->topo = grid_mesh(n_ranks);
    w->recorder = recorder_create(n_ranks, device_of, true);
    nccl_streams_begin(&w->nccl, &ops, w->recorder);
    for (int r = 0; r < n_ranks; r++) {
        w->places[r] =
            (struct device_place){.ops = &w->nccl.ops, .set = w->recorder, .rank = r, .device = r};
        cr_assert_eq(ops.stream_create(w->recorder, r, &w->places[r].stream), ST_OK);
    }
    make_lanes(w);
    make_engine(w);
}

static void world_fini(struct world *w)
{
    engine_cuda_destroy(w->engine);
    nccl_lanes_release(w->lanes);
    nccl_streams_end(&w->nccl);
    for (int r = 0; r < w->n_ranks; r++) {
        w->nccl.ops.stream_destroy(w->recorder, w->places[r].stream);
    }
    cr_assert_eq(recorder_faults(w->recorder), 0);
    program_destroy(w->program);
    plan_destroy(w->plan);
    recorder_destroy(w->recorder);
    topo_destroy(w->topo);
    cr_assert_eq(mem_live(), 0);
}

/* The k-th job that `rank` posts in a run. */
static int posted(const struct world *w, int rank, int run, int k)
{
    return w->alike ? k : (k * (1 + rank % 2) + rank / 2 + run) % w->n_jobs;
}

static void world_issue(struct world *w)
{
    for (int run = 0; run < N_RUNS; run++) {
        for (int k = 0; k < w->n_jobs; k++) {
            for (int r = 0; r < w->n_ranks; r++) {
                const int j = posted(w, r, run, k);
                recorder_call(w->recorder, w->places[r].stream, produce, w, r, j * N_RUNS + run);
                cr_assert_eq(w->nccl.ops.use(w->recorder, r), ST_OK);
                cr_assert_eq(engine_cuda_post(w->engine, r, (size_t)j, w->places[r].stream), ST_OK);
                cr_assert_eq(recorder_device(w->recorder), r);
            }
        }
        for (int j = 0; j < w->n_jobs; j++) {
            for (int r = 0; r < w->n_ranks; r++) {
                cr_assert_eq(engine_cuda_wait(w->engine, r, (size_t)j, w->places[r].stream), ST_OK);
                recorder_call(w->recorder, w->places[r].stream, consume, w, r, j * N_RUNS + run);
            }
        }
    }
    for (int j = 0; j < w->n_jobs; j++) { /* a rank that gets nothing must wait before it writes */
        for (int r = 0; r < w->n_ranks; r++) {
            recorder_call(w->recorder, w->places[r].stream, produce, w, r, j * N_RUNS);
        }
    }
}

static const enum collective all[] = {COLL_ALLREDUCE, COLL_REDUCE, COLL_BROADCAST};

Test(engine_nccl, all_orders_give_the_sums)
{
    for (size_t c = 0; c < 3; c++) {
        for (int p = 1; p <= DEVICE_MAX_REFS; p++) {
            struct world w;
            world_init(&w, all[c], p, MAX_JOBS);
            world_issue(&w);
            for (uint64_t k = 0; k < 40; k++) {
                recorder_play(w.recorder, k, k % 2 == 1);
                cr_assert(!went_wrong(&w), "%s P=%d order %d", collective_name(all[c]), p, (int)k);
            }
            world_fini(&w);
        }
    }
}

/* Also those by which the double makes the streams of a collective one. Where ranks post in
 * different orders, or get no result of their own, waits for one job imply those for others. */
Test(engine_nccl, any_wait_that_is_dropped_is_missed)
{
    for (size_t c = 0; c < 3; c++) {
        for (int p = 2; p <= 4; p++) {
            struct world w;
            size_t n;
            world_init(&w, all[c], p, all[c] == COLL_ALLREDUCE ? MAX_JOBS : 1);
            w.alike = true;
            world_issue(&w);
            n = recorder_n_waits(w.recorder);
            cr_assert_geq(n, (size_t)(2 * p * w.n_jobs * N_RUNS));
            for (size_t k = 0; k < n; k++) {
                cr_assert(recorder_play_without(w.recorder, k, went_wrong, &w),
                          "%s P=%d: nobody misses wait %zu of %zu", collective_name(all[c]), p, k,
                          n);
            }
            world_fini(&w);
        }
    }
}
