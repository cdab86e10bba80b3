/* A communicator over emulated links. */
#include <sched.h>
#include <time.h>

#include "base/mem.h"
#include "world.h"

Test(comm, emulated_links_give_right_sums_and_take_their_time)
{
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        for (int k = 0; k < 3; k++) {
            struct world_rank ranks[16];
            struct comm_times t;
            struct world w;
            double took, floor_s;
            world_init(&w, planner_at(i)->name, 2 + k);
            w.cfg.fabric = (char *)"emulate";
            w.cfg.fabric_scale = 0.0005; /* the mesh has links of 1000 bytes a second */
            w.cfg.order = k == 1 ? (char *)"priority" : (char *)"fifo";
            w.cfg.credit_bytes = k == 2 ? 8192 : 0;
            world_start(&w);
            world_run(&w, ranks, 1, world_train);
            t = comm_last_times(w.comm, 0, 0);
            for (int r = 0; r < w.n_ranks; r++) {
                cr_assert_eq(ranks[r].st, ST_OK);
                cr_assert_eq(ranks[r].wrong, 0, "%s P=%d", planner_at(i)->name, w.n_ranks);
            }
            took = t.done_s - t.posted_s;
            floor_s = 40000 * 4 * 0.0005 * plan_link_seconds_per_byte(comm_plan(w.comm, 0), w.topo);
            cr_assert_geq(took, 0.5 * floor_s, "%s P=%d: %g s, the links need %g",
                          planner_at(i)->name, w.n_ranks, took, floor_s);
            world_fini(&w);
        }
    }
    cr_assert_eq(mem_live(), 0);
}

/* The thread that moves the bytes is woken though there is no other core for it: else it would see
 * a post only when it looks by itself, once a second. */
Test(comm, emulated_links_work_on_one_core)
{
    struct world_rank ranks[16];
    struct world w;
    cpu_set_t all, one;
    int core = 0;

    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(core, &all)) {
        core++;
    }
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    world_init(&w, "lp", 2);
    w.cfg.fabric = (char *)"emulate";
    w.cfg.fabric_scale = 0.00001;
    w.cfg.timeout_s = 0.5;
    world_start(&w);
    world_run(&w, ranks, 5, world_train);
    for (int r = 0; r < w.n_ranks; r++) {
        cr_assert_eq(ranks[r].st, ST_OK);
        cr_assert_eq(ranks[r].wrong, 0);
    }
    world_fini(&w);
}

/* Nobody waits while a bucket is under way. */
static enum status post_and_compute(struct world_rank *r)
{
    const struct timespec pause = {0, 3000000};

    for (size_t b = 0; b < N_BUCKETS; b++) {
        TRY(comm_post(r->w->comm, r->rank, b));
        (void)nanosleep(&pause, NULL);
    }
    for (size_t b = 0; b < N_BUCKETS; b++) {
        TRY(comm_wait(r->w->comm, r->rank, b));
    }
    return ST_OK;
}

/* From when the second rank came until rank 0 had the sum. */
static double seconds_of(const struct world *w, size_t b)
{
    struct comm_times t0 = comm_last_times(w->comm, 0, b), t1 = comm_last_times(w->comm, 1, b);

    return t0.done_s - (t0.posted_s > t1.posted_s ? t0.posted_s : t1.posted_s);
}

Test(comm, times_on_emulated_links_are_the_links_own_whenever_somebody_looks)
{
    struct world_rank ranks[16];
    struct world w;
    double first[N_BUCKETS] = {0};

    world_init(&w, "onehop", 2);
    w.cfg.fabric = (char *)"emulate";
    w.cfg.fabric_scale = 0.000005; /* 0.8 ms for the largest bucket */
    world_start(&w);
    for (int step = 0; step < 5; step++) {
        world_run(&w, ranks, 1, post_and_compute);
        for (size_t b = 0; b < N_BUCKETS; b++) {
            double took = w.buckets[b].n > 0 ? seconds_of(&w, b) : 0;
            first[b] = step == 0 ? took : first[b];
            cr_assert_float_eq(took, first[b], 1e-8, "bucket %zu: %.9f s, not %.9f", b, took,
                               first[b]);
        }
    }
    cr_assert_geq(first[0], 2 * 0.5 * 40000 * 4 * w.cfg.fabric_scale / 1000 * 0.999);
    world_fini(&w);
}
