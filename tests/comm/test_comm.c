#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/plan_json.h"
#include "grid.h"
#include "tests/caught.h"

/* --- A communicator with its arenas --- */

enum {
    N_BUCKETS = 5
};

struct world {
    struct config_comm cfg;
    struct topo *topo;
    struct comm *comm;
    struct comm_bucket buckets[N_BUCKETS];
    float *arenas[16];
    size_t n;
    int n_ranks;
};

static struct config_comm config_of(const char *backend)
{
    return (struct config_comm){.backend = (char *)(uintptr_t)backend,
                                .overlap = true,
                                .buckets = (char *)"size",
                                .bucket_bytes = 1 << 20,
                                .first_bucket_bytes = 1 << 18,
                                .timeout_s = 60,
                                .topology = (char *)"",
                                .plan = (char *)"",
                                .wire = (char *)"fp32",
                                .fabric = (char *)"memory",
                                .fabric_scale = 1,
                                .workers = -1,
                                .order = (char *)"fifo",
                                .sync = (char *)"allreduce"};
}

/* Buckets of very different sizes, an empty one among them. */
static void world_init(struct world *w, const char *backend, int n_ranks)
{
    size_t sizes[N_BUCKETS] = {40000, 1, 0, 17, 2011};

    w->cfg = config_of(backend);
    w->n_ranks = n_ranks;
    w->topo = grid_mesh(n_ranks);
    w->n = 0;
    for (size_t b = 0; b < N_BUCKETS; b++) {
        w->buckets[b] = (struct comm_bucket){w->n, sizes[b], "conv1"};
        w->n += sizes[b];
    }
    for (int r = 0; r < n_ranks; r++) {
        w->arenas[r] = mem_alloc(w->n, sizeof(float));
        cr_assert_not_null(w->arenas[r]);
    }
}

static struct comm_args args_of(struct world *w)
{
    return (struct comm_args){.cfg = &w->cfg,
                              .topo = w->topo,
                              .n_ranks = w->n_ranks,
                              .arenas = w->arenas,
                              .buckets = w->buckets,
                              .n_buckets = N_BUCKETS,
                              .timed = true};
}

static void world_start(struct world *w)
{
    struct comm_args args = args_of(w);

    cr_assert_eq(comm_create(&args, &w->comm), ST_OK);
}

static void world_fini(struct world *w)
{
    comm_destroy(w->comm);
    for (int r = 0; r < w->n_ranks; r++) {
        mem_free(w->arenas[r]);
    }
    topo_destroy(w->topo);
}

/* --- Ranks as threads --- */

struct rank {
    struct world *w;
    int rank, steps;
    size_t wrong;
    enum status st;
    enum status (*body)(struct rank *);
};

static void *rank_main(void *arg)
{
    struct rank *r = arg;

    r->st = r->body(r);
    return NULL;
}

static void run_ranks(struct world *w, struct rank *ranks, int steps,
                      enum status (*body)(struct rank *))
{
    pthread_t threads[16];

    for (int r = 0; r < w->n_ranks; r++) {
        ranks[r] = (struct rank){.w = w, .rank = r, .steps = steps, .body = body};
        cr_assert_eq(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < w->n_ranks; r++) {
        cr_assert_eq(pthread_join(threads[r], NULL), 0);
    }
}

static float value(int step, int rank, size_t i)
{
    return grid_value(rank, i + (size_t)step);
}

static size_t count_wrong(const struct world *w, int step, int rank, const struct comm_bucket *b)
{
    size_t wrong = 0;

    for (size_t i = b->offset; i < b->offset + b->n; i++) {
        float sum = 0;
        for (int r = 0; r < w->n_ranks; r++) {
            sum += value(step, r, i);
        }
        wrong += w->arenas[rank][i] != sum;
    }
    return wrong;
}

/* Every rank posts and waits in an order of its own. */
static enum status train(struct rank *r)
{
    struct world *w = r->w;

    for (int step = 0; step < r->steps; step++) {
        for (size_t k = 0; k < N_BUCKETS; k++) {
            const struct comm_bucket *b = &w->buckets[(k + (size_t)r->rank) % N_BUCKETS];
            for (size_t i = b->offset; i < b->offset + b->n; i++) {
                w->arenas[r->rank][i] = value(step, r->rank, i);
            }
            TRY(comm_post(w->comm, r->rank, (size_t)(b - w->buckets)));
        }
        for (size_t k = 0; k < N_BUCKETS; k++) {
            size_t b = (k + 2 * (size_t)r->rank) % N_BUCKETS;
            TRY(comm_wait(w->comm, r->rank, b));
            cr_assert(comm_done(w->comm, r->rank, b));
            r->wrong += count_wrong(w, step, r->rank, &w->buckets[b]);
        }
    }
    return ST_OK;
}

static void train_all(const char *backend, int n_ranks, int steps, int64_t workers, char *order)
{
    struct rank ranks[16];
    struct world w;

    world_init(&w, backend, n_ranks);
    w.cfg.workers = workers;
    w.cfg.order = order;
    world_start(&w);
    run_ranks(&w, ranks, steps, train);
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
static enum status repeat(struct rank *r)
{
    struct world *w = r->w;
    const struct comm_bucket *b = &w->buckets[3];

    for (int step = 0; step < r->steps; step++) {
        for (size_t i = b->offset; i < b->offset + b->n; i++) {
            w->arenas[r->rank][i] = value(step, r->rank, i);
        }
        w->arenas[r->rank][w->buckets[1].offset] = (float)(step % 1000 + r->rank);
        TRY(comm_post(w->comm, r->rank, 3));
        TRY(comm_post(w->comm, r->rank, 1));
        TRY(comm_wait(w->comm, r->rank, 3));
        r->wrong += count_wrong(w, step, r->rank, b);
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
            struct rank ranks[16];
            struct world w;
            size_t live;
            world_init(&w, backends[i], 3);
            w.cfg.workers = workers; /* with a worker nothing is run in one piece */
            world_start(&w);
            live = mem_live_bytes();
            run_ranks(&w, ranks, 10000, repeat);
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
static enum status fractions(struct rank *r)
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
        struct rank ranks[16];
        struct world w, again;
        world_init(&w, planner_at(i)->name, 5);
        world_init(&again, planner_at(i)->name, 5);
        again.cfg.workers = 2;
        again.cfg.chunk_bytes = 260;
        world_start(&w);
        world_start(&again);
        run_ranks(&w, ranks, 1, fractions);
        run_ranks(&again, ranks, 1, fractions);
        for (int r = 0; r < 5; r++) {
            cr_assert_eq(memcmp(w.arenas[0], w.arenas[r], w.buckets[0].n * sizeof(float)), 0);
            cr_assert_eq(memcmp(w.arenas[0], again.arenas[r], w.buckets[0].n * sizeof(float)), 0);
        }
        world_fini(&w);
        world_fini(&again);
    }
}

/* --- Faults --- */

static enum status late(struct rank *r)
{
    if (r->rank == 2) {
        return ST_OK; /* never posts */
    }
    TRY(comm_post(r->w->comm, r->rank, 0));
    return comm_wait(r->w->comm, r->rank, 0);
}

/* Run `body` with what it writes to stderr in `text`. */
static void run_logged(struct world *w, struct rank *ranks, enum status (*body)(struct rank *),
                       char *text, size_t size)
{
    struct caught c = caught_begin(STDERR_FILENO);

    run_ranks(w, ranks, 1, body);
    caught_end(c, text, size);
}

Test(comm, a_rank_that_does_not_come_is_named_on_time)
{
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        struct rank ranks[16];
        struct world w;
        char text[2048];
        double begin, took;
        world_init(&w, planner_at(i)->name, 4);
        w.cfg.timeout_s = 0.15;
        world_start(&w);
        begin = clock_now_s();
        run_logged(&w, ranks, late, text, sizeof text);
        took = clock_now_s() - begin;
        for (int r = 0; r < 4; r++) {
            /* A rank may have all it needs, as the leaves of a reduce; in an allreduce none has. */
            cr_assert_eq(ranks[r].st, r == 2 ? ST_OK : ST_TIMEOUT);
        }
        cr_assert(took >= 0.15 && took < 5, "%g s", took);
        cr_assert_not_null(strstr(text, "allreduce of bucket 0 (conv1)"), "%s", text);
        cr_assert_not_null(strstr(text, "waiting for rank 2"), "%s", text);
        cr_assert_null(strchr(strchr(text, '\n') + 1, '\n'), "said more than once: %s", text);
        cr_assert_eq(comm_post(w.comm, 2, 1), ST_TIMEOUT);
        world_fini(&w);
    }
}

static enum status abort_one(struct rank *r)
{
    if (r->rank == 1) {
        usleep(20000); /* let the others fall asleep */
        comm_abort(r->w->comm, 1, ST_NONFINITE);
        return ST_NONFINITE;
    }
    TRY(comm_post(r->w->comm, r->rank, 0));
    return comm_wait(r->w->comm, r->rank, 0);
}

Test(comm, an_abort_wakes_and_stops_every_rank)
{
    struct rank ranks[16];
    struct world w;
    char text[2048];
    double begin = clock_now_s();

    world_init(&w, "onehop", 5);
    world_start(&w);
    run_logged(&w, ranks, abort_one, text, sizeof text);
    cr_assert_lt(clock_now_s() - begin, 10); /* the time-out is 60 s */
    for (int r = 0; r < 5; r++) {
        cr_assert_eq(ranks[r].st, r == 1 ? ST_NONFINITE : ST_PEER);
    }
    cr_assert_not_null(strstr(text, "rank 1 cannot go on (non-finite loss)"), "%s", text);
    cr_assert_eq(comm_post(w.comm, 0, 1), ST_PEER);
    cr_assert_eq(comm_wait(w.comm, 0, 1), ST_PEER);
    world_fini(&w);
}

Test(comm, posting_twice_is_refused)
{
    struct world w;

    world_init(&w, "ring", 2);
    world_start(&w);
    cr_assert_eq(comm_post(w.comm, 0, 0), ST_OK);
    cr_assert_eq(comm_post(w.comm, 0, 0), ST_BADARG);
    world_fini(&w);
}

Test(comm, bad_configurations_are_refused)
{
    struct world w;
    struct comm_args args;
    struct comm *c = NULL;

    world_init(&w, "rign", 2);
    args = args_of(&w);
    cr_assert_eq(comm_create(&args, &c), ST_INPUT);
    w.cfg.backend = (char *)"ring";
    w.cfg.timeout_s = 0;
    cr_assert_eq(comm_create(&args, &c), ST_INPUT);
    w.cfg.timeout_s = 1;
    args.n_ranks = 3;
    cr_assert_eq(comm_create(&args, &c), ST_INPUT);
    cr_assert_null(c);
    w.comm = NULL;
    world_fini(&w);
}

Test(comm, every_failing_allocation_is_reported_without_a_leak)
{
    const char *backends[] = {"onehop", "central-host"};

    for (size_t i = 0; i < 2; i++) {
        struct world w;
        struct comm_args args;
        enum status st = ST_NOMEM;
        size_t live;
        world_init(&w, backends[i], 3);
        w.cfg.workers = 1;
        args = args_of(&w);
        live = mem_live();
        for (size_t k = 1; st != ST_OK; k++) {
            mem_fail_at(k);
            st = comm_create(&args, &w.comm);
            mem_fail_at(0);
            cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
            cr_assert(st == ST_OK || mem_live() == live, "failure %zu leaks", k);
        }
        world_fini(&w);
        cr_assert_eq(mem_live(), 0);
    }
}

Test(comm, times_are_in_order)
{
    struct rank ranks[16];
    struct world w;

    world_init(&w, "ring", 3);
    world_start(&w);
    run_ranks(&w, ranks, 2, train);
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

/* --- Backends chosen by cost, plans from files, emulated links --- */

Test(comm, auto_picks_by_size_and_says_why)
{
    struct rank ranks[16];
    struct world w;
    char text[4096] = "";
    FILE *f = fmemopen(text, sizeof text, "w");

    world_init(&w, "auto", 4);
    world_start(&w);
    run_ranks(&w, ranks, 3, train);
    for (int r = 0; r < 4; r++) {
        cr_assert(ranks[r].st == ST_OK && ranks[r].wrong == 0);
    }
    comm_describe(w.comm, f);
    fclose(f);
    for (size_t b = 0; b < N_BUCKETS; b++) { /* the one that runs is the one that is named */
        char line[64];
        snprintf(line, sizeof line, ": %s, ", comm_plan(w.comm, b)->backend);
        cr_assert_not_null(strstr(text, line), "%s", text);
    }
    cr_assert_not_null(strstr(text, "up to 4.0 KiB: "), "%s", text);
    cr_assert_not_null(strstr(text, "us predicted, then "), "%s", text);
    cr_assert_null(planner_find("auto"));
    world_fini(&w);
}

Test(comm, a_plan_file_is_what_runs)
{
    char path[] = "/tmp/espalier-plan-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    struct rank ranks[16];
    struct world w;
    struct comm_args args;
    struct plan *plan;

    world_init(&w, "central", 3);
    plan = grid_plan("ring", w.topo, COLL_ALLREDUCE, -1);
    cr_assert_eq(plan_json_write(plan, w.topo, f), ST_OK);
    cr_assert_eq(fclose(f), 0);
    plan_destroy(plan);
    w.cfg.plan = path;
    world_start(&w);
    cr_assert_str_eq(comm_plan(w.comm, 0)->backend, "ring");
    run_ranks(&w, ranks, 2, train);
    for (int r = 0; r < 3; r++) {
        cr_assert(ranks[r].st == ST_OK && ranks[r].wrong == 0);
    }
    comm_destroy(w.comm);
    w.comm = NULL;
    plan = grid_plan("ring", w.topo, COLL_REDUCE, 0); /* not for training */
    f = fopen(path, "w");
    cr_assert_eq(plan_json_write(plan, w.topo, f), ST_OK);
    cr_assert_eq(fclose(f), 0);
    plan_destroy(plan);
    args = args_of(&w);
    cr_assert_eq(comm_create(&args, &w.comm), ST_INPUT);
    cr_assert_eq(unlink(path), 0);
    world_fini(&w);
}

Test(comm, emulated_links_give_right_sums_and_take_their_time)
{
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        for (int k = 0; k < 3; k++) {
            struct rank ranks[16];
            struct comm_times t;
            struct world w;
            double took, floor_s;
            world_init(&w, planner_at(i)->name, 2 + k);
            w.cfg.fabric = (char *)"emulate";
            w.cfg.fabric_scale = 0.0005; /* the mesh has links of 1000 bytes a second */
            w.cfg.order = k == 1 ? (char *)"priority" : (char *)"fifo";
            w.cfg.credit_bytes = k == 2 ? 8192 : 0;
            world_start(&w);
            run_ranks(&w, ranks, 1, train);
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
    struct rank ranks[16];
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
    run_ranks(&w, ranks, 5, train);
    for (int r = 0; r < w.n_ranks; r++) {
        cr_assert_eq(ranks[r].st, ST_OK);
        cr_assert_eq(ranks[r].wrong, 0);
    }
    world_fini(&w);
}

/* --- Buckets --- */

Test(buckets, are_cut_by_size_layer_or_not_at_all)
{
    struct config_comm cfg = config_of("ring");
    size_t cuts[] = {10, 10, 300, 340, 1000, 1001};
    struct comm_bucket b[6];

    cfg.first_bucket_bytes = 40;
    cfg.bucket_bytes = 1200;
    cr_assert_eq(comm_make_buckets(&cfg, cuts, 6, b), 4);
    cr_assert(b[0].offset == 0 && b[0].n == 10);
    cr_assert(b[1].offset == 10 && b[1].n == 330);
    cr_assert(b[2].offset == 340 && b[2].n == 660);
    cr_assert(b[3].offset == 1000 && b[3].n == 1);
    cfg.buckets = (char *)"layer";
    cr_assert_eq(comm_make_buckets(&cfg, cuts, 6, b), 5); /* a layer without parameters has none */
    cr_assert(b[1].offset == 10 && b[1].n == 290);
    cfg.buckets = (char *)"one";
    cr_assert_eq(comm_make_buckets(&cfg, cuts, 6, b), 1);
    cr_assert(b[0].offset == 0 && b[0].n == 1001);
    cr_assert_eq(comm_make_buckets(&cfg, cuts, 0, b), 0);
}

/* --- reduce and broadcast: with a root */

static enum status once(struct rank *r)
{
    struct world *w = r->w;

    for (size_t i = 0; i < w->n; i++) {
        w->arenas[r->rank][i] = value(0, r->rank, i);
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
                struct rank ranks[16];
                struct comm_args args;

                world_init(&w, backends[k], 4);
                args = args_of(&w);
                args.kind = (enum comm_kind)kind;
                args.root = root;
                cr_assert_eq(comm_create(&args, &w.comm), ST_OK, "%s", backends[k]);
                run_ranks(&w, ranks, 1, once);
                for (int r = 0; r < 4; r++) {
                    size_t wrong = 0;
                    cr_assert_eq(ranks[r].st, ST_OK);
                    for (size_t i = 0; i < w.n; i++) {
                        float sum = 0, own = value(0, r, i);
                        for (int q = 0; q < 4; q++) {
                            sum += value(0, q, i);
                        }
                        wrong += w.arenas[r][i] != (kind == COMM_BROADCAST ? value(0, root, i)
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
