/* When buckets were on devices, in virtual time: by the engine's own streams and by NCCL's. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/cuda/device_clock.h"
#include "grid.h"
#include "nccl_double.h"
#include "nccl_streams.h"
#include "timeline.h"

enum {
    P = 2,
    N = 64
};

static const double NEAR_S = 0.1; /* the host's time goes on meanwhile, and is looked at twice */

struct world {
    struct timeline *t;
    struct nccl_streams nccl;
    struct device_place places[P];
    struct config_comm cfg;
    struct topo *topo;
    struct comm_bucket buckets[2];
    float *arenas[P];
    struct comm *comm;
    double begin_s; /* the host's clock, when the devices' were made */
};

static void world_init_for(struct world *w, const char *backend, enum comm_kind kind)
{
    struct device_ops ops = timeline_ops();
    struct comm_args args = {.cfg = &w->cfg,
                             .n_ranks = P,
                             .arenas = w->arenas,
                             .places = w->places,
                             .buckets = w->buckets,
                             .n_buckets = 2,
                             .timed = true,
                             .kind = kind};

    *w = (struct world){.t = timeline_create(),
                        .buckets = {{0, N, "conv2"}, {N, N, "conv1"}},
                        .cfg = {.backend = (char *)(uintptr_t)backend,
                                .nccl = (char *)NCCL_DOUBLE,
                                .nccl_log = (char *)"",
                                .chunks = (char *)"",
                                .chunk_bytes = 1 << 20,
                                .timeout_s = 60,
                                .plan = (char *)"",
                                .wire = (char *)"fp32",
                                .fabric = (char *)"memory",
                                .order = (char *)"fifo",
                                .sync = (char *)"allreduce"}};
    nccl_streams_begin(&w->nccl, &ops, w->t);
    args.topo = w->topo = grid_mesh(P);
    for (int r = 0; r < P; r++) {
        w->arenas[r] = mem_alloc(2 * N, sizeof(float));
        w->places[r] =
            (struct device_place){.ops = &w->nccl.ops, .set = w->t, .rank = r, .device = r};
        cr_assert_eq(w->nccl.ops.stream_create(w->t, r, &w->places[r].stream), ST_OK);
    }
    w->begin_s = clock_now_s();
    cr_assert_eq(comm_create(&args, &w->comm), ST_OK);
}

static void world_init(struct world *w, const char *backend)
{
    world_init_for(w, backend, COMM_ALLREDUCE);
}

static void world_fini(struct world *w)
{
    timeline_advance(w->t, 1000);
    comm_destroy(w->comm);
    nccl_streams_end(&w->nccl);
    for (int r = 0; r < P; r++) {
        w->nccl.ops.stream_destroy(w->t, w->places[r].stream);
        mem_free(w->arenas[r]);
    }
    timeline_destroy(w->t);
    topo_destroy(w->topo);
    cr_assert_eq(mem_live(), 0);
}

static void post(struct world *w, int rank, size_t b, double after_s)
{
    timeline_work(w->places[rank].stream, after_s);
    cr_assert_eq(comm_post(w->comm, rank, b), ST_OK);
}

static void wait_for(struct world *w, int rank, size_t b, double after_s)
{
    timeline_work(w->places[rank].stream, after_s);
    cr_assert_eq(comm_wait(w->comm, rank, b), ST_OK);
}

/* On one device. */
static bool is(double got, double want)
{
    return fabs(got - want) < 1e-6;
}

/* Rank 0 comes to bucket 0 after 3 s and to the wait after 4, rank 1 after 5 and 6. */
static void expect_step(struct world *w, double way_s)
{
    struct comm_times a, b;

    post(w, 0, 0, 3);
    post(w, 1, 0, 5);
    wait_for(w, 0, 0, 1);
    wait_for(w, 1, 0, 1);
    cr_assert(!comm_device_times(w->comm, 0, 0, 0, &a), "it is not over yet");
    timeline_advance(w->t, 5 + way_s - 0.001);
    cr_assert(!comm_device_times(w->comm, 0, 0, 0, &a));
    cr_assert(!comm_device_times(w->comm, 1, 0, 0, &a));
    timeline_advance(w->t, 0.002);
    cr_assert(comm_device_times(w->comm, 0, 0, 0, &a));
    cr_assert(!comm_device_times(w->comm, 1, 0, 0, &b), "it has not come to the wait");
    timeline_advance(w->t, 10);
    cr_assert(comm_device_times(w->comm, 1, 0, 0, &b));
    cr_assert(!comm_device_times(w->comm, 1, 0, 1, &b), "there is no such use");
    cr_assert(!comm_device_times(w->comm, 1, 1, 0, &b), "of this bucket neither");
    cr_assert(comm_device_times(w->comm, 1, 0, 0, &b));
    cr_assert(fabs(a.posted_s - w->begin_s - 3) < NEAR_S, "%g", a.posted_s - w->begin_s);
    cr_assert(fabs(b.posted_s - a.posted_s - 2) < NEAR_S);
    cr_assert(is(a.waited_s - a.posted_s, 1), "%g", a.waited_s - a.posted_s);
    cr_assert(is(b.waited_s - b.posted_s, 1));
    cr_assert(fabs(a.done_s - a.started_s - way_s) < NEAR_S, "%g", a.done_s - a.started_s);
    cr_assert(fabs(a.started_s - a.posted_s - 2) < NEAR_S, "it began when the last rank came");
    cr_assert(fabs(b.started_s - b.posted_s) < NEAR_S);
    cr_assert(fabs(b.done_s - b.started_s - way_s) < NEAR_S);
}

Test(device_times, of_own_streams)
{
    struct world w;

    world_init(&w, "onehop");
    expect_step(&w, 2 * timeline_op_s); /* a sum, and a copy of it */
    world_fini(&w);
}

Test(device_times, of_nccl)
{
    struct world w;

    world_init(&w, "nccl");
    expect_step(&w, timeline_op_s);
    world_fini(&w);
}

/* A few bytes are on their way before their receiver has come. */
static void put_without_meeting(void *ctx, const struct nccl_double_call *calls, int n_ranks)
{
    (void)ctx;
    for (int r = 0; r < n_ranks; r++) {
        timeline_work(calls[r].stream, timeline_op_s);
    }
}

Test(device_times, of_a_broadcast_whose_root_is_through_first)
{
    struct world w;
    struct comm_times t;
    void *symbol = nccl_double_symbol("nccl_double_groups");
    nccl_double_set_group *set_group;

    world_init_for(&w, "nccl", COMM_BROADCAST);
    memcpy(&set_group, &symbol, sizeof set_group);
    set_group(put_without_meeting, NULL);
    post(&w, 0, 0, 1);
    post(&w, 1, 0, 5);
    wait_for(&w, 0, 0, 1);
    wait_for(&w, 1, 0, 1);
    timeline_advance(w.t, 3);
    cr_assert(!comm_device_times(w.comm, 0, 0, 0, &t), "rank 1 has not come yet");
    timeline_advance(w.t, 10);
    cr_assert(comm_device_times(w.comm, 0, 0, 0, &t));
    cr_assert(fabs(t.started_s - t.posted_s - 4) < NEAR_S);
    world_fini(&w);
}

/* The host may be ahead, and ask late. */
Test(device_times, of_the_last_uses)
{
    static const char *const backends[] = {"onehop", "nccl"};

    for (int k = 0; k < 2; k++) {
        struct world w;
        struct comm_times t[6];
        world_init(&w, backends[k]);
        for (int use = 0; use < 6; use++) {
            for (int r = 0; r < P; r++) {
                post(&w, r, 1, 1);
            }
            for (int r = 0; r < P; r++) {
                wait_for(&w, r, 1, 0);
            }
        }
        timeline_advance(w.t, 100);
        for (size_t use = 0; use < 6; use++) {
            cr_assert_eq(comm_device_times(w.comm, 0, 1, use, &t[use]), use >= 2, "%zu", use);
            cr_assert(use < 3 || is(t[use].posted_s - t[use - 1].done_s, 1), "use %zu", use);
        }
        world_fini(&w);
    }
}

/* A device on which nothing comes to an end must not hold up who asks. */
Test(device_times, of_a_device_that_is_stuck)
{
    struct world w;
    struct comm_times t;

    world_init(&w, "onehop");
    post(&w, 0, 0, 1);
    post(&w, 1, 0, 1);
    wait_for(&w, 0, 0, 1);
    timeline_advance(w.t, 100);
    timeline_set_silent(w.t, true);
    cr_assert(!comm_device_times(w.comm, 0, 0, 0, &t));
    timeline_set_silent(w.t, false);
    cr_assert(comm_device_times(w.comm, 0, 0, 0, &t));
    world_fini(&w);
}

/* --- clocks that drift apart --- */

struct place {
    void *stream, *timer;
    double host_s;
};

static struct place mark(const struct device_ops *ops, struct timeline *t)
{
    struct place p;

    cr_assert_eq(ops->stream_create(t, 0, &p.stream), ST_OK);
    cr_assert_eq(ops->timer_create(t, 0, &p.timer), ST_OK);
    p.host_s = clock_now_s();
    cr_assert_eq(ops->record(t, p.stream, p.timer), ST_OK);
    return p;
}

static double read_at(struct device_clock *c, const struct place *p)
{
    double s;

    cr_assert_eq(device_clock_read(c, 0, p->timer, p->host_s, &s), ST_OK);
    return s;
}

static void unmark(const struct device_ops *ops, struct timeline *t, const struct place *p)
{
    ops->stream_destroy(t, p->stream);
    ops->event_destroy(t, p->timer);
}

Test(device_clock, is_set_anew_from_time_to_time)
{
    const struct device_ops ops = timeline_ops();
    struct timeline *t = timeline_create();
    struct device_clock *always = NULL, *never = NULL;
    struct place old, new;

    cr_assert_eq(device_clock_create(&ops, t, 1, 0, &always), ST_OK);
    cr_assert_eq(device_clock_create(&ops, t, 1, 1e9, &never), ST_OK);
    old = mark(&ops, t);
    timeline_advance(t, 100); /* while the host's clock hardly moved */
    new = mark(&ops, t);
    cr_assert(fabs(read_at(never, &new) - new.host_s - 100) < NEAR_S);
    cr_assert(fabs(read_at(always, &old) - old.host_s) < NEAR_S, "from the anchor before");
    cr_assert(fabs(read_at(always, &new) - new.host_s) < NEAR_S, "%g",
              read_at(always, &new) - new.host_s);
    timeline_advance(t, 100);
    timeline_set_silent(t, true); /* too busy to be asked */
    cr_assert(fabs(read_at(always, &new) - new.host_s) < NEAR_S);
    timeline_set_silent(t, false);
    device_clock_destroy(always);
    device_clock_destroy(never);
    unmark(&ops, t, &old);
    unmark(&ops, t, &new);
    timeline_destroy(t);
    cr_assert_eq(mem_live(), 0);
}
