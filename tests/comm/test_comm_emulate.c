/* A communicator over emulated links. */
#include <sched.h>

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
