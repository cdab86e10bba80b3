/* A communicator that leaves its buckets to NCCL: every way to fail ends all ranks. */
#include "nccl_world.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "nccl_double.h"

static int count_of(const char *name)
{
    void *symbol = nccl_double_symbol(name);
    nccl_double_count *count;

    memcpy(&count, &symbol, sizeof count);
    return count();
}

/* For what the watching thread does meanwhile. */
static bool comes(const struct comm *c, enum status want)
{
    const double end_s = clock_now_s() + 5;

    while (comm_check(c) != want && clock_now_s() < end_s) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return comm_check(c) == want;
}

static void expect_failing_call(const char *function)
{
    struct nccl_world w;

    nccl_world_init(&w, 3);
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    setenv("ESPALIER_NCCL_DOUBLE", function, 1);
    cr_assert_eq(comm_post(w.comm, 0, 1), ST_OK);
    cr_assert_eq(comm_post(w.comm, 2, 1), ST_OK);
    cr_assert_eq(comm_post(w.comm, 1, 1), ST_INTERNAL);
    cr_assert_eq(comm_wait(w.comm, 0, 1), ST_PEER);
    cr_assert_eq(comm_post(w.comm, 0, 0), ST_PEER);
    cr_assert_eq(comm_check(w.comm), ST_PEER);
    cr_assert_eq(count_of("nccl_double_aborts"), 3);
    nccl_world_fini(&w);
}

Test(comm_nccl_faults, a_group_does_not_begin, .init = cr_redirect_stderr)
{
    expect_failing_call("start");
    MESSAGE("ncclGroupStart failed", "said by the double");
}

Test(comm_nccl_faults, a_call_fails, .init = cr_redirect_stderr)
{
    expect_failing_call("call");
    MESSAGE("allreduce failed", "said by the double");
}

Test(comm_nccl_faults, a_group_does_not_end, .init = cr_redirect_stderr)
{
    expect_failing_call("end");
    MESSAGE("allreduce failed", "said by the double");
}

static enum status wait_fails(void *set, void *stream, void *event)
{
    (void)set;
    (void)stream;
    (void)event;
    return nccl_world_stuck ? ST_INTERNAL : ST_OK;
}

Test(comm_nccl_faults, a_device_fails, .init = cr_redirect_stderr)
{
    struct nccl_world w;

    nccl_world_init(&w, 2);
    w.device.wait = wait_fails;
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    nccl_world_stuck = true;
    cr_assert_eq(comm_post(w.comm, 0, 1), ST_OK);
    cr_assert_eq(comm_post(w.comm, 1, 1), ST_INTERNAL);
    cr_assert_eq(comm_wait(w.comm, 0, 1), ST_PEER);
    cr_assert_eq(comm_check(w.comm), ST_PEER);
    cr_assert_eq(count_of("nccl_double_aborts"), 2);
    nccl_world_fini(&w);
}

/* All ranks have come, and the bytes do not move. */
static void expect_abort(struct nccl_world *w)
{
    for (int r = 0; r < w->n_ranks; r++) {
        cr_assert_eq(comm_post(w->comm, r, 3), ST_OK);
    }
    for (int r = 0; r < w->n_ranks; r++) {
        enum status st = comm_wait(w->comm, r, 3); /* the host goes on, unless it was slow */
        cr_assert(st == ST_OK || st == ST_PEER);
    }
    cr_assert(comes(w->comm, ST_PEER));
    cr_assert_eq(count_of("nccl_double_aborts"), w->n_ranks);
    cr_assert_eq(comm_post(w->comm, 0, 0), ST_PEER);
}

static enum status done_where_posted(void *set, void *event, bool *out)
{
    (void)set;
    *out = !nccl_world_stuck ||
           *(const double *)event > 0; /* see device_cpu.c: the time, when recorded */
    return ST_OK;
}

Test(comm_nccl_faults, an_error_on_the_way_aborts, .init = cr_redirect_stderr)
{
    struct nccl_world w;

    nccl_world_init(&w, 3);
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    nccl_world_stuck = true;
    setenv("ESPALIER_NCCL_DOUBLE", "async", 1);
    expect_abort(&w);
    nccl_world_fini(&w);
    MESSAGE("a collective failed", "said by the double");
}

/* Places on the lanes are never reached, those on the ranks' streams are. */
static enum status record_but_lanes(void *set, void *stream, void *event)
{
    (void)set;
    *(double *)event = stream != NULL && *(const char *)stream == 'r' ? 1 : -1;
    return ST_OK;
}

Test(comm_nccl_faults, a_time_out_aborts_all_that_share_the_lanes, .init = cr_redirect_stderr)
{
    struct nccl_world w;
    struct comm_args args;
    struct comm *sharing = NULL;

    nccl_world_init(&w, 2);
    w.cfg.timeout_s = 0.05;
    w.device.done = done_where_posted;
    w.device.record = record_but_lanes;
    for (int r = 0; r < 2; r++) {
        *(char *)w.places[r].stream = 'r';
    }
    w.args.kind = COMM_REDUCE;
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    args = w.args;
    args.kind = COMM_BROADCAST;
    args.beside = w.comm;
    cr_assert_eq(comm_create(&args, &sharing), ST_OK);
    cr_assert_eq(count_of("nccl_double_inits"), 2, "one communicator for each rank");
    nccl_world_stuck = true;
    expect_abort(&w);
    cr_assert_eq(comm_check(sharing), ST_PEER);
    (void)!comm_post(sharing, 1, 0); /* nothing has been started yet */
    cr_assert_eq(comm_post(sharing, 0, 0), ST_PEER);
    comm_destroy(sharing);
    nccl_world_fini(&w);
    MESSAGE("NCCL 2.28.9: reduce of bucket 3 (conv1) timed out after 0.05 s", "all 2 ranks",
            "timeout_s");
}

Test(comm_nccl_faults, a_rank_that_computes_for_long_is_no_time_out)
{
    struct nccl_world w;

    nccl_world_init(&w, 2);
    w.cfg.timeout_s = 0.02;
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    nccl_world_stuck = true; /* also the places where the ranks post */
    for (int r = 0; r < 2; r++) {
        cr_assert_eq(comm_post(w.comm, r, 0), ST_OK);
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    cr_assert_eq(comm_check(w.comm), ST_OK);
    nccl_world_stuck = false;
    cr_assert_eq(comm_wait(w.comm, 0, 0), ST_OK);
    nccl_world_fini(&w);
}

/* A device that is as far behind as the host lets it be: a use of a bucket is over when the host
 * waits for it, to use its marks again at once. */
static enum status record_as_under_way(void *set, void *stream, void *event)
{
    (void)set;
    atomic_store((atomic_int *)event, *(const char *)stream != 'r'); /* on the lanes */
    return ST_OK;
}

static enum status done_when_waited_for(void *set, void *event, bool *out)
{
    (void)set;
    *out = !nccl_world_stuck || atomic_load((atomic_int *)event) == 0;
    return ST_OK;
}

static enum status sync_ends_it(void *set, void *event)
{
    (void)set;
    atomic_store((atomic_int *)event, 0);
    return ST_OK;
}

Test(comm_nccl_faults, a_bucket_that_is_always_under_way_is_no_time_out)
{
    struct nccl_world w;
    double end_s;

    nccl_world_init(&w, 2);
    w.cfg.timeout_s = 1;
    w.device.record = record_as_under_way;
    w.device.done = done_when_waited_for;
    w.device.event_sync = sync_ends_it;
    for (int r = 0; r < 2; r++) {
        *(char *)w.places[r].stream = 'r';
    }
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    nccl_world_stuck = true;
    end_s = clock_now_s() + 1.5;
    while (clock_now_s() < end_s) {
        for (int r = 0; r < 2; r++) {
            cr_assert_eq(comm_post(w.comm, r, 0), ST_OK);
        }
        for (int r = 0; r < 2; r++) {
            cr_assert_eq(comm_wait(w.comm, r, 0), ST_OK);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    nccl_world_stuck = false;
    nccl_world_fini(&w);
}

Test(comm_nccl_faults, a_rank_that_does_not_come, .init = cr_redirect_stderr)
{
    struct nccl_world w;

    nccl_world_init(&w, 3);
    w.cfg.timeout_s = 0.05;
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    cr_assert_eq(comm_post(w.comm, 0, 3), ST_OK);
    cr_assert_eq(comm_post(w.comm, 2, 3), ST_OK);
    cr_assert_eq(comm_wait(w.comm, 0, 3), ST_TIMEOUT);
    cr_assert_eq(comm_wait(w.comm, 2, 3), ST_PEER);
    cr_assert_eq(comm_post(w.comm, 1, 3), ST_PEER);
    nccl_world_fini(&w);
    MESSAGE("allreduce of bucket 3 (conv1) timed out", "waiting for rank 1,");
}

Test(comm_nccl_faults, a_rank_that_gives_up, .init = cr_redirect_stderr)
{
    struct nccl_world w;

    nccl_world_init(&w, 2);
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    cr_assert_eq(comm_post(w.comm, 0, 0), ST_OK);
    cr_assert(comm_abort(w.comm, 1, ST_INPUT));
    cr_assert_eq(comm_wait(w.comm, 0, 0), ST_PEER);
    cr_assert_eq(comm_post(w.comm, 1, 0), ST_PEER);
    nccl_world_fini(&w);
}

Test(comm_nccl_faults, every_failing_allocation_is_reported)
{
    struct nccl_world w;
    enum status st = ST_NOMEM;
    size_t live;

    nccl_world_init(&w, 3);
    live = mem_live();
    for (size_t k = 1; st != ST_OK; k++) {
        w.comm = NULL;
        mem_fail_at(k);
        st = comm_create(&w.args, &w.comm);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        cr_assert(st == ST_OK || mem_live() == live, "failure %zu leaks", k);
    }
    nccl_world_fini(&w);
}
