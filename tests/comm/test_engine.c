#include <dirent.h>
#include <pthread.h>
#include <time.h>

#include "base/mem.h"
#include "comm/engine/engine.h"
#include "grid.h"

/* Several collectives of different kinds in flight at once, over and over. */
enum {
    N_RANKS = 2,
    N_JOBS = 5,
    ROUNDS = 40000
};

struct mix {
    struct engine *engine;
    struct program *programs[N_JOBS];
    struct grid_memory memory[N_JOBS];
    float *first[N_JOBS]; /* what a result holds after the first run */
};

struct rank {
    struct mix *mix;
    int rank;
    size_t wrong;
    enum status st;
};

static const char *const backends[N_JOBS] = {"onehop", "ring", "central", "lp", "central-host"};
static const size_t sizes[N_JOBS] = {640, 1, 3300, 7000, 129};

static size_t compare(const struct rank *r, int k)
{
    const struct grid_memory *m = &r->mix->memory[k];
    size_t n, first = program_out_range(m->p, r->rank, &n), wrong = 0;
    bool gets = m->p->collective != COLL_REDUCE || r->rank == 0;

    for (size_t i = 0; gets && i < n; i++) {
        wrong += m->out[r->rank][GRID_GUARD + i] != r->mix->first[k][first + i];
    }
    for (size_t i = 0; gets && i < n; i++) {
        m->out[r->rank][GRID_GUARD + i] = -1; /* so that the next run must write it */
    }
    return wrong;
}

static enum status repeat(struct rank *r)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < N_JOBS; k++) { /* each rank in an order of its own */
            TRY(engine_post(r->mix->engine, r->rank, (size_t)((k + r->rank + round) % N_JOBS)));
        }
        for (int k = 0; k < N_JOBS; k++) {
            TRY(engine_wait(r->mix->engine, r->rank, (size_t)k));
            r->wrong += compare(r, k);
        }
    }
    return ST_OK;
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;

    r->st = repeat(r);
    return NULL;
}

static size_t count_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    cr_assert_not_null(d);
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n;
}

/* The message that every job ends with, worked out without the engine. */
static void expect(struct mix *mix, int k)
{
    const struct program *p = mix->programs[k];
    size_t n, first;

    for (size_t i = 0; i < p->spec.n; i++) {
        float x = p->collective == COLL_BROADCAST ? grid_value(0, i) : 0;
        for (int r = 0; r < N_RANKS; r++) {
            first = program_in_range(p, r, &n);
            if (collective_has_up(p->collective) ||
                (p->collective == COLL_ALLGATHER && i >= first && i < first + n)) {
                x += grid_value(r, i);
            }
        }
        mix->first[k][i] = x;
    }
}

Test(engine, two_hundred_thousand_mixed_collectives_stay_right_and_keep_nothing)
{
    struct topo *t = grid_mesh(N_RANKS);
    struct engine_options opt = {.n_ranks = N_RANKS, .timeout_s = 60};
    struct engine_job jobs[N_JOBS];
    struct plan *plans[N_JOBS];
    struct rank ranks[N_RANKS];
    pthread_t threads[N_RANKS];
    size_t live, bytes, descriptors;
    struct mix mix;

    for (int k = 0; k < N_JOBS; k++) {
        struct program_spec spec = {DTYPE_F32, REDOP_SUM, false, true, sizes[k], 256};
        plans[k] = grid_plan(backends[k], t, (enum collective)k, 0);
        mix.programs[k] = grid_program(plans[k], &spec);
        grid_memory_init(&mix.memory[k], mix.programs[k]);
        mix.first[k] = mem_alloc(sizes[k], sizeof(float));
        cr_assert_not_null(mix.first[k]);
        expect(&mix, k);
        jobs[k] = (struct engine_job){mix.programs[k], mix.memory[k].buffers,
                                      collective_name((enum collective)k), "test"};
    }
    cr_assert_eq(engine_create(&opt, jobs, N_JOBS, &mix.engine), ST_OK);
    live = mem_live();
    bytes = mem_live_bytes();
    descriptors = count_descriptors();
    for (int r = 0; r < N_RANKS; r++) {
        ranks[r] = (struct rank){&mix, r, 0, ST_OK};
        cr_assert_eq(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < N_RANKS; r++) {
        cr_assert_eq(pthread_join(threads[r], NULL), 0);
        cr_assert_eq(ranks[r].st, ST_OK);
        cr_assert_eq(ranks[r].wrong, 0);
    }
    cr_assert(mem_live() == live && mem_live_bytes() == bytes);
    cr_assert_eq(count_descriptors(), descriptors);
    engine_destroy(mix.engine);
    for (int k = 0; k < N_JOBS; k++) {
        grid_memory_fini(&mix.memory[k]);
        mem_free(mix.first[k]);
        program_destroy(mix.programs[k]);
        plan_destroy(plans[k]);
    }
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

/* It matters there what is sent first, which must not depend on who comes first. */
Test(engine, over_links_a_plan_without_chunks_starts_when_all_ranks_are_there)
{
    struct topo *t = grid_mesh(4);
    struct plan *plan = grid_plan("mst", t, COLL_BROADCAST, 0);
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, false, 10, 0};
    struct program *p = grid_program(plan, &spec);
    struct fabric_model links = {.topo = t, .scale = 1e-6};
    struct engine_options opt = {.n_ranks = 4, .timeout_s = 60, .fabric = &links};
    struct grid_memory m;
    struct engine_job job;
    struct engine *e;

    grid_memory_init(&m, p);
    job = (struct engine_job){p, m.buffers, "broadcast", "test"};
    cr_assert_eq(engine_create(&opt, &job, 1, &e), ST_OK);
    cr_assert_eq(engine_post(e, 0, 0), ST_OK);
    cr_assert_eq(engine_post(e, 1, 0), ST_OK);
    for (int k = 0; k < 1000; k++) { /* a message takes 40 ns */
        (void)nanosleep(&(struct timespec){0, 10000}, NULL);
        cr_assert_not(engine_done(e, 1, 0));
    }
    cr_assert_eq(engine_post(e, 2, 0), ST_OK);
    cr_assert_eq(engine_post(e, 3, 0), ST_OK);
    for (int r = 0; r < 4; r++) {
        cr_assert_eq(engine_wait(e, r, 0), ST_OK);
    }
    cr_assert_eq(grid_memory_wrong(&m, 0), 0);
    engine_destroy(e);
    grid_memory_fini(&m);
    program_destroy(p);
    plan_destroy(plan);
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}
