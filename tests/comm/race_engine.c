/*
 * Ranks that post flat jobs of one and of several operations each, go away, come back and wait,
 * with every way in which the engine shares out the work: more threads than cores, a core for every
 * rank (so that ranks keep their shares, let them go and store without fences), and workers. A
 * driver for ThreadSanitizer. Exits with 0 if every sum was right.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"
#include "comm/engine/engine.h"

enum {
    N_RANKS = 4,
    N_JOBS = 4,
    STEPS = 200
};

static const size_t sizes[N_JOBS] = {700, 3, 20000, 64}; /* the third in several operations */

struct world {
    struct topo *topo;
    struct plan *plan;
    struct program *programs[N_JOBS];
    struct program_buffers buffers[N_JOBS][N_RANKS];
    float *data[N_JOBS][N_RANKS];
    struct engine *engine;
    int n_ranks;
};

struct rank {
    struct world *w;
    int rank;
    size_t wrong;
    enum status st;
};

static float value(int rank, size_t step, size_t i)
{
    return (float)((i + step) % 97 * (size_t)(rank + 1));
}

static size_t count_wrong(const struct world *w, int rank, size_t job, size_t step)
{
    size_t all = (size_t)w->n_ranks * (size_t)(w->n_ranks + 1) / 2, wrong = 0;

    for (size_t i = 0; i < sizes[job]; i++) {
        wrong += w->data[job][rank][i] != (float)((i + step) % 97 * all);
    }
    return wrong;
}

/* Nothing, some microseconds of work, or a sleep in which the others find that this one is away. */
static void go_away(const struct rng *rng, size_t draw)
{
    struct timespec nap = {0, 200000};
    volatile size_t n = 0;

    switch (rng_below(rng, draw, 16)) {
    case 0:
        (void)nanosleep(&nap, NULL);
        break;
    case 1:
    case 2:
        for (size_t k = 0; k < 3000; k++) {
            n = n + k;
        }
        break;
    default:
        break;
    }
}

/* All jobs in flight at once. */
static enum status step(struct rank *r, const struct rng *rng, size_t k)
{
    struct world *w = r->w;

    for (size_t i = 0; i < N_JOBS; i++) { /* each rank in an order of its own */
        size_t job = (i + (size_t)r->rank + k) % N_JOBS;
        for (size_t e = 0; e < sizes[job]; e++) {
            w->data[job][r->rank][e] = value(r->rank, k, e);
        }
        TRY(engine_post(w->engine, r->rank, job));
        go_away(rng, (k * N_JOBS + i) * 2);
    }
    for (size_t job = 0; job < N_JOBS; job++) {
        TRY(engine_wait(w->engine, r->rank, job));
        r->wrong += count_wrong(w, r->rank, job, k);
        go_away(rng, (k * N_JOBS + job) * 2 + 1);
    }
    return ST_OK;
}

/* One job at a time, so all must take them in the same order. */
static enum status step_in_order(struct rank *r, size_t k)
{
    struct world *w = r->w;

    for (size_t job = 0; job < N_JOBS; job++) {
        for (size_t e = 0; e < sizes[job]; e++) {
            w->data[job][r->rank][e] = value(r->rank, k, e);
        }
        TRY(engine_post(w->engine, r->rank, job));
        TRY(engine_wait(w->engine, r->rank, job));
        r->wrong += count_wrong(w, r->rank, job, k);
    }
    return ST_OK;
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct rng rng = rng_make(7, RNG_TEST, (uint64_t)r->rank);

    for (size_t k = 0; r->st == ST_OK && k < STEPS; k++) {
        r->st = k % 2 == 0 ? step_in_order(r, k) : step(r, &rng, k);
    }
    return NULL;
}

static enum status make(struct world *w, int n_ranks, int n_cores, int n_workers)
{
    struct plan_request q = {.collective = COLL_ALLREDUCE, .n_ranks = n_ranks, .root = -1};
    struct engine_options opt = {
        .n_ranks = n_ranks, .n_workers = n_workers, .n_cores = n_cores, .timeout_s = 300};
    struct engine_job jobs[N_JOBS];

    w->n_ranks = n_ranks;
    TRY(topo_mesh(n_ranks, 1000, 5, &w->topo));
    TRY(plan_create("onehop", w->topo, &q, &w->plan));
    for (size_t j = 0; j < N_JOBS; j++) {
        struct program_spec spec = {.dtype = DTYPE_F32,
                                    .redop = REDOP_SUM,
                                    .in_place = true,
                                    .fuse = true,
                                    .n = sizes[j],
                                    .chunk_bytes = 4096};
        TRY(program_create(w->plan, &spec, &w->programs[j]));
        for (int r = 0; r < n_ranks; r++) {
            w->data[j][r] = mem_alloc(sizes[j], sizeof(float));
            if (w->data[j][r] == NULL) {
                return ST_NOMEM;
            }
            w->buffers[j][r] = (struct program_buffers){.in = w->data[j][r], .out = w->data[j][r]};
        }
        jobs[j] = (struct engine_job){w->programs[j], w->buffers[j], "allreduce", "job"};
    }
    return engine_create(&opt, jobs, N_JOBS, &w->engine);
}

static void destroy(struct world *w)
{
    engine_destroy(w->engine);
    for (size_t j = 0; j < N_JOBS; j++) {
        program_destroy(w->programs[j]);
        for (int r = 0; r < w->n_ranks; r++) {
            mem_free(w->data[j][r]);
        }
    }
    plan_destroy(w->plan);
    topo_destroy(w->topo);
}

/* Returns the number of failures. */
static size_t run(int n_ranks, int n_cores, int n_workers)
{
    struct world w = {0};
    struct rank ranks[N_RANKS];
    pthread_t threads[N_RANKS];
    size_t failures = 0;

    if (make(&w, n_ranks, n_cores, n_workers) != ST_OK) {
        return 1;
    }
    for (int r = 0; r < n_ranks; r++) {
        ranks[r] = (struct rank){&w, r, 0, ST_OK};
        if (pthread_create(&threads[r], NULL, rank_main, &ranks[r]) != 0) {
            exit(EXIT_FAILURE);
        }
    }
    for (int r = 0; r < n_ranks; r++) {
        (void)pthread_join(threads[r], NULL);
        failures += ranks[r].wrong + (ranks[r].st != ST_OK);
    }
    destroy(&w);
    printf("race_engine: %d ranks, %d cores, %d workers: %zu failures\n", n_ranks, n_cores,
           n_workers, failures);
    return failures;
}

int main(void)
{
    size_t failures = 0;

    for (int n_ranks = 1; n_ranks <= N_RANKS; n_ranks++) {
        failures += run(n_ranks, 1, 0) + run(n_ranks, 64, 0) + run(n_ranks, 64, 2);
    }
    return failures == 0 && mem_live() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
