/* Ranks that do not come, that give up, and what cannot be created. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/caught.h"
#include "world.h"

static enum status late(struct world_rank *r)
{
    if (r->rank == 2) {
        return ST_OK; /* never posts */
    }
    TRY(comm_post(r->w->comm, r->rank, 0));
    return comm_wait(r->w->comm, r->rank, 0);
}

/* Run `body` with what it writes to stderr in `text`. */
static void run_logged(struct world *w, struct world_rank *ranks,
                       enum status (*body)(struct world_rank *), char *text, size_t size)
{
    struct caught c = caught_begin(STDERR_FILENO);

    world_run(w, ranks, 1, body);
    caught_end(c, text, size);
}

Test(comm, a_rank_that_does_not_come_is_named_on_time)
{
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        struct world_rank ranks[16];
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
        cr_assert_not(comm_abort(w.comm, 2, ST_PEER));
        cr_assert_eq(comm_post(w.comm, 2, 1), ST_TIMEOUT);
        world_fini(&w);
    }
}

static enum status abort_one(struct world_rank *r)
{
    if (r->rank == 1) {
        usleep(20000); /* let the others fall asleep */
        cr_assert(comm_abort(r->w->comm, 1, ST_NONFINITE));
        return ST_NONFINITE;
    }
    TRY(comm_post(r->w->comm, r->rank, 0));
    return comm_wait(r->w->comm, r->rank, 0);
}

Test(comm, an_abort_wakes_and_stops_every_rank)
{
    struct world_rank ranks[16];
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
    cr_assert_not(comm_abort(w.comm, 0, ST_INTERNAL), "only the first one is the cause");
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
    args = world_args(&w);
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
        args = world_args(&w);
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
