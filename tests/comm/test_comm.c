#include "comm/comm.h"

#include <string.h>

#include "base/mem.h"
#include "world.h"

static void train_all(const char *backend, int n_ranks, int steps, int64_t workers, char *order)
{
    struct world_rank ranks[16];
    struct world w;

    world_init(&w, backend, n_ranks);
    w.cfg.workers = workers;
    w.cfg.order = order;
    world_start(&w);
    world_run(&w, ranks, steps, world_train);
    for (int r = 0; r < n_ranks; r++) {
        cr_assert_eq(ranks[r].st, ST_OK);
        cr_assert_eq(ranks[r].wrong, 0, "%s P=%d rank %d", backend, n_ranks, r);
    }
    world_fini(&w);
}

Test(comm, every_backend_sums_buckets_posted_in_any_order)
{
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        for (int k = 0; k < GRID_N_RANKS; k++) {
            train_all(planner_at(i)->name, grid_ranks[k], 3, -1, (char *)"fifo");
        }
        train_all(planner_at(i)->name, 3, 20, 2, (char *)"fifo");
        train_all(planner_at(i)->name, 4, 20, 1, (char *)"priority");
    }
    cr_assert_eq(mem_live(), 0);
}

/* Small steps, so that many follow each other closely. */
static enum status repeat(struct world_rank *r)
{
    struct world *w = r->w;
    const struct comm_bucket *b = &w->buckets[3];

    for (int step = 0; step < r->steps; step++) {
        for (size_t i = b->offset; i < b->offset + b->n; i++) {
            w->arenas[r->rank][i] = world_value(step, r->rank, i);
        }
        w->arenas[r->rank][w->buckets[1].offset] = (float)(step % 1000 + r->rank);
        TRY(comm_post(w->comm, r->rank, 3));
        TRY(comm_post(w->comm, r->rank, 1));
        TRY(comm_wait(w->comm, r->rank, 3));
        r->wrong += world_wrong(w, step, r->rank, b);
        TRY(comm_wait(w->comm, r->rank, 1));
        r->wrong += w->arenas[r->rank][w->buckets[1].offset] !=
                    (float)(step % 1000 * w->n_ranks + w->n_ranks * (w->n_ranks - 1) / 2);
    }
    return ST_OK;
}

Test(comm, ten_thousand_steps_stay_right_and_keep_no_memory)
{
    const char *backends[] = {"onehop", "ring", "central-host"};

    for (size_t i = 0; i < 3; i++) {
        for (int64_t workers = 0; workers < 2; workers++) {
            struct world_rank ranks[16];
            struct world w;
            size_t live;
            world_init(&w, backends[i], 3);
            w.cfg.workers = workers; /* with a worker nothing is run in one piece */
            world_start(&w);
            live = mem_live_bytes();
            world_run(&w, ranks, 10000, repeat);
            for (int r = 0; r < 3; r++) {
                cr_assert_eq(ranks[r].st, ST_OK);
                cr_assert_eq(ranks[r].wrong, 0);
            }
            cr_assert_eq(mem_live_bytes(), live);
            world_fini(&w);
        }
    }
}

/* Inexact values, to compare bits. */
static enum status fractions(struct world_rank *r)
{
    const struct comm_bucket *b = &r->w->buckets[0];

    for (size_t i = 0; i < b->n; i++) {
        r->w->arenas[r->rank][i] = 1.0f / (float)(1 + i % 977 + 13 * (size_t)r->rank);
    }
    TRY(comm_post(r->w->comm, r->rank, 0));
    return comm_wait(r->w->comm, r->rank, 0);
}

Test(comm, results_are_bitwise_equal_on_all_ranks_and_in_every_run)
{
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        struct world_rank ranks[16];
        struct world w, again;
        world_init(&w, planner_at(i)->name, 5);
        world_init(&again, planner_at(i)->name, 5);
        again.cfg.workers = 2;
        again.cfg.chunk_bytes = 260;
        world_start(&w);
        world_start(&again);
        world_run(&w, ranks, 1, fractions);
        world_run(&again, ranks, 1, fractions);
        for (int r = 0; r < 5; r++) {
            cr_assert_eq(memcmp(w.arenas[0], w.arenas[r], w.buckets[0].n * sizeof(float)), 0);
            cr_assert_eq(memcmp(w.arenas[0], again.arenas[r], w.buckets[0].n * sizeof(float)), 0);
        }
        world_fini(&w);
        world_fini(&again);
    }
}

Test(comm, times_are_in_order)
{
    struct world_rank ranks[16];
    struct world w;

    world_init(&w, "ring", 3);
    world_start(&w);
    world_run(&w, ranks, 2, world_train);
    for (int r = 0; r < 3; r++) {
        for (size_t b = 0; b < N_BUCKETS; b++) {
            struct comm_times t = comm_last_times(w.comm, r, b);
            cr_assert(t.posted_s > 0 && t.posted_s <= t.done_s && t.started_s <= t.done_s);
        }
    }
    world_fini(&w);
}

Test(comm, the_description_names_backend_plan_and_buckets)
{
    struct world w;
    char text[2048] = "";
    FILE *f = fmemopen(text, sizeof text, "w");

    world_init(&w, "onehop", 3);
    world_start(&w);
    comm_describe(w.comm, f);
    fclose(f);
    cr_assert_not_null(strstr(text, "onehop, allreduce over 3 devices"), "%s", text);
    cr_assert_not_null(strstr(text, "3 trees, depth 1"), "%s", text);
    cr_assert_not_null(strstr(text, "5 of 0 B to 156 KiB"), "%s", text);
    cr_assert_str_eq(comm_plan(w.comm, 1)->backend, "onehop");
    world_fini(&w);
}

/* --- reduce and broadcast: with a root --- */

static enum status once(struct world_rank *r)
{
    struct world *w = r->w;

    for (size_t i = 0; i < w->n; i++) {
        w->arenas[r->rank][i] = world_value(0, r->rank, i);
    }
    for (size_t b = 0; b < N_BUCKETS; b++) {
        TRY(comm_post(w->comm, r->rank, b));
    }
    for (size_t b = 0; b < N_BUCKETS; b++) {
        TRY(comm_wait(w->comm, r->rank, b));
    }
    return ST_OK;
}

Test(comm, reduces_to_a_root_and_broadcasts_from_it)
{
    static const char *const backends[] = {"central", "mst", "be", "lp"};

    for (size_t k = 0; k < 4; k++) {
        for (int root = 0; root < 4; root += 3) {
            for (int kind = COMM_REDUCE; kind <= COMM_BROADCAST; kind++) {
                struct world w;
                struct world_rank ranks[16];
                struct comm_args args;

                world_init(&w, backends[k], 4);
                args = world_args(&w);
                args.kind = (enum comm_kind)kind;
                args.root = root;
                cr_assert_eq(comm_create(&args, &w.comm), ST_OK, "%s", backends[k]);
                world_run(&w, ranks, 1, once);
                for (int r = 0; r < 4; r++) {
                    size_t wrong = 0;
                    cr_assert_eq(ranks[r].st, ST_OK);
                    for (size_t i = 0; i < w.n; i++) {
                        float sum = 0, own = world_value(0, r, i);
                        for (int q = 0; q < 4; q++) {
                            sum += world_value(0, q, i);
                        }
                        wrong += w.arenas[r][i] != (kind == COMM_BROADCAST ? world_value(0, root, i)
                                                    : r == root            ? sum
                                                                           : own);
                    }
                    cr_assert_eq(wrong, 0, "%s, root %d, kind %d, rank %d", backends[k], root, kind,
                                 r);
                }
                world_fini(&w);
            }
        }
    }
}
