#include "comm/fabric.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/rng.h"
#include "comm/agenda.h"
#include "grid.h"

/* Names of vertices a, b, c, ... and links "ab" of so many bytes a second and ns. */
struct wire {
    const char *ends;
    int64_t bytes_per_s, latency_ns;
};

enum {
    US = 1000000, /* picoseconds */
    GBS = 1000000000
};

/* Devices a, b, ... as many as given, switches z, y, ... */
static struct topo *wires(int n_devices, int n_switches, const struct wire *w, int n)
{
    struct topo *t;

    cr_assert_eq(topo_create("wires", "", &t), ST_OK);
    for (int i = 0; i < n_devices; i++) {
        char name[] = {(char)('a' + i), '\0'};
        cr_assert_eq(topo_add_vertex(t, name, TOPO_GPU, NULL), ST_OK);
    }
    for (int i = 0; i < n_switches; i++) {
        char name[] = {(char)('z' - i), '\0'};
        cr_assert_eq(topo_add_vertex(t, name, TOPO_SWITCH, NULL), ST_OK);
    }
    for (int i = 0; i < n; i++) {
        struct topo_link l = {
            .bytes_per_s = w[i].bytes_per_s, .latency_ns = w[i].latency_ns, .kind = (char *)"x"};
        int *end[] = {&l.from, &l.to};
        for (int k = 0; k < 2; k++) {
            char c = w[i].ends[k];
            *end[k] = c > 'm' ? n_devices + 'z' - c : c - 'a';
        }
        cr_assert_eq(topo_add_link(t, &l), ST_OK);
    }
    return t;
}

/* What a test looks at: programs over a topology, and a fabric. */
struct bed {
    struct topo *t;
    struct plan *plan;
    struct program *p;
    struct fabric *f;
};

static struct bed bed_of(struct topo *t, const char *backend, enum collective c, size_t n_bytes,
                         size_t chunk_bytes, struct fabric_model m)
{
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, false, n_bytes / 4, chunk_bytes};
    struct bed b = {.t = t};

    b.plan = grid_plan(backend, t, c, 0);
    b.p = grid_program(b.plan, &spec);
    m.topo = t;
    cr_assert_eq(fabric_create(&m, 100, &b.f), ST_OK);
    return b;
}

static void bed_fini(struct bed *b)
{
    fabric_destroy(b->f);
    program_destroy(b->p);
    plan_destroy(b->plan);
    topo_destroy(b->t);
}

/* Operation of tree 0 over a link that goes from `from` to `to`, by ranks. */
static size_t op_between(const struct bed *b, size_t tree, int from, int to)
{
    for (size_t i = 0; i < b->p->trees[tree].n_ops; i++) {
        const struct path *path = b->p->ops[b->p->trees[tree].op + i].path;
        if (path != NULL && path->n > 0 &&
            b->t->links[path->links[0]].from == b->t->devices[from] &&
            b->t->links[path->links[path->n - 1]].to == b->t->devices[to]) {
            return i;
        }
    }
    cr_assert_fail("no operation from %d to %d", from, to);
    return 0;
}

static void post(struct bed *b, size_t turn, size_t tree, size_t chunk, size_t op, int64_t when)
{
    struct fabric_message m = {
        .program = b->p, .job = turn, .turn = turn, .tree = tree, .chunk = chunk, .op = op};

    fabric_post(b->f, &m, when);
}

static void expect(struct bed *b, bool arrived, size_t turn, size_t chunk, size_t op, int64_t when)
{
    struct fabric_event e;
    int64_t next;

    cr_assert(fabric_when(b->f, &next));
    cr_assert_leq(next, when, "wants to be asked at %lld", (long long)next);
    cr_assert(fabric_next(b->f, INT64_MAX, &e));
    cr_assert(e.when_ps == when && e.arrived == arrived && e.message.turn == turn &&
                  e.message.chunk == chunk && e.message.op == op,
              "%s, turn %zu, chunk %zu, operation %zu at %lld, not turn %zu, chunk %zu, operation "
              "%zu at %lld",
              e.arrived ? "arrived" : "left", e.message.turn, e.message.chunk, e.message.op,
              (long long)e.when_ps, turn, chunk, op, (long long)when);
}

static void expect_nothing(struct bed *b)
{
    struct fabric_event e;
    int64_t next;

    cr_assert_not(fabric_next(b->f, INT64_MAX, &e));
    cr_assert_not(fabric_when(b->f, &next));
}

static const struct wire pair[] = {{"ab", GBS, 5000}, {"ba", GBS, 5000}};

/* Chunks of 4000 bytes between two devices. */
static struct bed bed_of_pair(enum collective c, size_t n_bytes, struct fabric_model m)
{
    return bed_of(wires(2, 0, pair, 2), "lp", c, n_bytes, 4000, m);
}

Test(fabric, a_link_is_busy_for_the_bytes_and_the_latency_comes_on_top)
{
    struct bed b = bed_of_pair(COLL_BROADCAST, 8000, (struct fabric_model){.scale = 1});

    post(&b, 0, 0, 0, 0, 0);
    post(&b, 0, 0, 1, 0, 0);
    expect(&b, false, 0, 0, 0, 4 * US); /* 4000 bytes at 1 GB/s */
    expect(&b, false, 0, 1, 0, 8 * US); /* the next one began at once */
    expect(&b, true, 0, 0, 0, 9 * US);
    expect(&b, true, 0, 1, 0, 13 * US);
    expect_nothing(&b);
    bed_fini(&b);
}

Test(fabric, start_ups_and_sums_keep_the_link_and_all_is_scaled)
{
    struct bed b = bed_of_pair(
        COLL_REDUCE, 8000,
        (struct fabric_model){.scale = 10, .startup_s = 1e-6, .reduce_s_per_byte = 0.5e-9});

    post(&b, 0, 0, 0, 0, 3 * US);
    post(&b, 0, 0, 1, 0, 3 * US);
    expect(&b, false, 0, 0, 0, 73 * US); /* 10 (1 + 4 + 2) */
    expect(&b, true, 0, 0, 0, 123 * US);
    expect(&b, false, 0, 1, 0, 143 * US);
    expect(&b, true, 0, 1, 0, 193 * US);
    bed_fini(&b);
}

/* Whoever posts may have been late for both. */
Test(fabric, messages_are_served_when_they_are_ready_in_whatever_order_they_are_posted)
{
    struct bed b = bed_of_pair(COLL_BROADCAST, 4000, (struct fabric_model){.scale = 1});

    post(&b, 0, 0, 0, 0, 6 * US); /* the turn matters only to those that wait together */
    post(&b, 2, 0, 0, 0, 1 * US);
    post(&b, 1, 0, 0, 0, 2 * US);
    expect(&b, false, 2, 0, 0, 5 * US);
    expect(&b, false, 1, 0, 0, 9 * US);
    expect(&b, true, 2, 0, 0, 10 * US);
    expect(&b, false, 0, 0, 0, 13 * US);
    expect(&b, true, 1, 0, 0, 14 * US);
    expect(&b, true, 0, 0, 0, 18 * US);
    post(&b, 0, 0, 0, 0, 0); /* the past is over */
    expect(&b, false, 0, 0, 0, 22 * US);
    expect(&b, true, 0, 0, 0, 27 * US);
    expect_nothing(&b);
    bed_fini(&b);
}

/* Nothing comes too early because its time cannot be written down. */
Test(fabric, what_takes_too_long_for_a_clock_comes_at_the_end)
{
    static const double scales[] = {1e15, 1e300};

    for (int k = 0; k < 2; k++) {
        struct bed b = bed_of_pair(COLL_BROADCAST, 8000, (struct fabric_model){.scale = scales[k]});
        struct fabric_event e;
        post(&b, 0, 0, 0, 0, 7);
        post(&b, 0, 0, 1, 0, 7);
        cr_assert_not(fabric_next(b.f, FABRIC_END_PS - 1, &e));
        for (int i = 0; i < 4; i++) { /* each leaves and arrives */
            cr_assert(fabric_next(b.f, INT64_MAX, &e));
            cr_assert_eq(e.when_ps, FABRIC_END_PS);
            cr_assert_eq(e.message.chunk, (size_t)i / 2);
        }
        cr_assert_not(fabric_next(b.f, INT64_MAX, &e));
        bed_fini(&b);
    }
    cr_assert_eq(fabric_later(5, 1e-12), 6);
    cr_assert_eq(fabric_later(FABRIC_END_PS - 1, 1), FABRIC_END_PS);
    cr_assert_eq(fabric_later(0, INFINITY), FABRIC_END_PS);
}

Test(fabric, the_two_directions_of_a_link_are_separate)
{
    struct bed b = bed_of_pair(COLL_ALLREDUCE, 8000, (struct fabric_model){.scale = 1});
    size_t there = op_between(&b, 0, 0, 1), back = op_between(&b, 0, 1, 0);

    post(&b, 0, 0, 0, there, 0);
    post(&b, 0, 0, 0, back, 0);
    expect(&b, false, 0, 0, there, 4 * US);
    expect(&b, false, 0, 0, back, 4 * US);
    expect(&b, true, 0, 0, there, 9 * US);
    expect(&b, true, 0, 0, back, 9 * US);
    bed_fini(&b);
}

/* a and b send to c through the switch: both leave at once, and one waits inside for c's link. */
Test(fabric, a_busy_link_behind_a_switch_does_not_hold_up_the_sender)
{
    struct bed b = bed_of(grid_star(3, GBS, 1000, 2000), "central", COLL_ALLREDUCE, 4000, 4000,
                          (struct fabric_model){.scale = 1});
    int root = b.plan->trees[0].root, x = root == 0 ? 1 : 0, y = root == 2 ? 1 : 2;
    size_t one = op_between(&b, 0, x, root), two = op_between(&b, 0, y, root);
    int64_t when;
    struct fabric_event e;

    post(&b, 0, 0, 0, one, 0);
    post(&b, 1, 0, 0, two, 0);
    expect(&b, false, 0, 0, one, 4 * US);
    expect(&b, false, 1, 0, two, 4 * US);
    expect(&b, true, 0, 0, one, 7 * US); /* 4 for the bytes, 1 and 2 for the latencies */
    cr_assert(fabric_when(b.f, &when));
    cr_assert_not(fabric_next(b.f, 11 * US - 1, &e));
    expect(&b, true, 1, 0, two, 11 * US); /* had the link from 5 to 9 */
    expect_nothing(&b);
    bed_fini(&b);
}

Test(fabric, a_message_is_as_fast_as_its_slowest_link_and_takes_of_each_what_it_needs)
{
    const struct wire slow[] = {
        {"az", 4LL * GBS, 0}, {"zb", GBS, 0}, {"bz", GBS, 0}, {"za", 4LL * GBS, 0}};
    struct bed b = bed_of(wires(2, 1, slow, 4), "lp", COLL_ALLREDUCE, 8000, 4000,
                          (struct fabric_model){.scale = 1});
    size_t there = op_between(&b, 0, 0, 1), back = op_between(&b, 0, 1, 0);

    post(&b, 0, 0, 0, there, 0);
    post(&b, 0, 0, 1, there, 0);
    post(&b, 0, 0, 0, back, 0);
    expect(&b, false, 0, 0, there, 1 * US);
    expect(&b, false, 0, 1, there, 2 * US);
    expect(&b, false, 0, 0, back, 4 * US);
    expect(&b, true, 0, 0, there, 4 * US);
    expect(&b, true, 0, 0, back, 4 * US); /* the last byte comes when the slow link has sent it */
    expect(&b, true, 0, 1, there, 8 * US);
    bed_fini(&b);
}

/* Those that wait come by turn, then by chunk, then by what has to follow, then by age. */
Test(fabric, the_most_important_message_comes_first)
{
    const struct wire row[] = {{"ab", GBS, 0}, {"ba", GBS, 0}, {"bc", GBS, 0}, {"cb", GBS, 0}};
    struct bed b = bed_of(wires(3, 0, row, 4), "lp", COLL_ALLREDUCE, 16000, 4000,
                          (struct fabric_model){.scale = 1});
    size_t up = op_between(&b, 0, 0, 1), down = op_between(&b, 0, 1, 0);
    const struct program_op *ops = b.p->ops;

    if (b.plan->trees[0].root == 0) { /* the other way round */
        size_t swap = up;
        up = down;
        down = swap;
    }
    cr_assert_gt(ops[up].n_after, ops[down].n_after);
    post(&b, 1, 0, 0, up, 0);
    post(&b, 0, 0, 2, up, 0);
    post(&b, 0, 0, 1, up, 0);
    post(&b, 1, 0, 0, up, 0);
    expect(&b, false, 0, 1, up, 4 * US);
    expect(&b, true, 0, 1, up, 4 * US);
    expect(&b, false, 0, 2, up, 8 * US);
    expect(&b, true, 0, 2, up, 8 * US);
    expect(&b, false, 1, 0, up, 12 * US);
    expect(&b, true, 1, 0, up, 12 * US);
    post(&b, 0, 0, 0, up, 12 * US); /* more important, but the other one is ready as well */
    expect(&b, false, 0, 0, up, 16 * US);
    expect(&b, true, 0, 0, up, 16 * US);
    expect(&b, false, 1, 0, up, 20 * US);
    expect(&b, true, 1, 0, up, 20 * US);
    expect_nothing(&b);
    bed_fini(&b);
}

/* Of an exchange what waits for the same partner goes as one message, with one start-up. */
Test(fabric, the_blocks_of_a_round_go_together)
{
    struct bed b = bed_of(grid_star(4, GBS, 0, 0), "be", COLL_REDUCE_SCATTER, 16000, 0,
                          (struct fabric_model){.scale = 1, .startup_s = 1e-6});
    size_t far[2] = {op_between(&b, 2, 0, 2), op_between(&b, 3, 1, 3)};

    post(&b, 0, 2, 0, far[0], 0); /* blocks 2 and 3 of rank 0 go to rank 2 */
    post(&b, 0, 3, 0, op_between(&b, 3, 0, 2), 0);
    post(&b, 0, 3, 0, far[1], 0);
    expect(&b, false, 0, 0, far[1], 5 * US);
    expect(&b, true, 0, 0, far[1], 5 * US);
    expect(&b, false, 0, 0, far[0], 9 * US); /* 1 + 2 * 4 */
    expect(&b, false, 0, 0, op_between(&b, 3, 0, 2), 9 * US);
    expect(&b, true, 0, 0, far[0], 9 * US);
    expect(&b, true, 0, 0, op_between(&b, 3, 0, 2), 9 * US);
    expect_nothing(&b);
    bed_fini(&b);
}

Test(fabric, a_credit_bounds_what_is_under_way_in_the_order_of_importance)
{
    struct bed b =
        bed_of_pair(COLL_ALLREDUCE, 16000, (struct fabric_model){.scale = 1, .credit_bytes = 8000});
    size_t there = op_between(&b, 0, 0, 1), back = op_between(&b, 0, 1, 0);

    post(&b, 2, 0, 3, back, 0);
    post(&b, 0, 0, 0, there, 0);
    post(&b, 0, 0, 1, there, 0);
    post(&b, 0, 0, 2, there, 0);
    /* The way back is free, but the credit is given to what comes first there. */
    expect(&b, false, 0, 0, there, 4 * US);
    expect(&b, false, 2, 3, back, 4 * US);
    expect(&b, true, 0, 0, there, 9 * US);
    expect(&b, true, 2, 3, back, 9 * US);
    expect(&b, false, 0, 1, there, 13 * US);
    expect(&b, false, 0, 2, there, 17 * US);
    expect(&b, true, 0, 1, there, 18 * US);
    expect(&b, true, 0, 2, there, 22 * US);
    expect_nothing(&b);
    bed_fini(&b);
}

Test(fabric, without_links_to_cross_a_message_is_there_at_once)
{
    struct bed b = bed_of(wires(1, 0, NULL, 0), "lp", COLL_ALLREDUCE, 16000, 4000,
                          (struct fabric_model){.scale = 1, .startup_s = 1});
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, false, false, 4000, 0};

    program_destroy(b.p);
    b.p = grid_program(b.plan, &spec);
    post(&b, 0, 0, 0, 0, 7);
    expect(&b, false, 0, 0, 0, 7);
    expect(&b, true, 0, 0, 0, 7);
    expect_nothing(&b);
    bed_fini(&b);
}

/* What is ready in answer to an event is served with all else that is ready at its time. */
Test(fabric, nobody_is_served_before_all_that_happens_at_a_time_has_happened)
{
    struct bed b = bed_of_pair(COLL_BROADCAST, 16000, (struct fabric_model){.scale = 1});
    struct fabric_event e;

    post(&b, 0, 0, 1, 0, 2 * US);
    cr_assert_not(fabric_next(b.f, 2 * US, &e));
    post(&b, 0, 0, 0, 0, 2 * US);
    post(&b, 0, 0, 2, 0, 1 * US); /* cannot be earlier than what has happened */
    expect(&b, false, 0, 0, 0, 6 * US);
    expect(&b, false, 0, 1, 0, 10 * US);
    expect(&b, true, 0, 0, 0, 11 * US);
    expect(&b, false, 0, 2, 0, 14 * US);
    expect(&b, true, 0, 1, 0, 15 * US);
    expect(&b, true, 0, 2, 0, 19 * US);
    bed_fini(&b);
}

/* Many messages in random order: the link is never idle and they come in the order of service. */
Test(fabric, a_long_queue_is_served_in_order)
{
    struct bed b = bed_of(wires(2, 0, pair, 2), "lp", COLL_BROADCAST, 400 * 60, 400,
                          (struct fabric_model){.scale = 1});
    struct rng rng = rng_make(7, RNG_TEST, 0);
    size_t chunk[60];

    for (size_t i = 0; i < 60; i++) {
        size_t k = rng_below(&rng, i, (uint32_t)(i + 1));
        chunk[i] = chunk[k];
        chunk[k] = i;
    }
    for (size_t i = 0; i < 60; i++) {
        post(&b, 0, 0, chunk[i], 0, 0);
    }
    for (size_t i = 0, left = 0, arrived = 0; i < 120; i++) {
        struct fabric_event e;
        cr_assert(fabric_next(b.f, INT64_MAX, &e));
        if (e.arrived) {
            cr_assert_eq(e.message.chunk, arrived++);
            cr_assert_eq(e.when_ps, (int64_t)arrived * 400000 + 5 * US);
        } else {
            cr_assert_eq(e.message.chunk, left++);
            cr_assert_eq(e.when_ps, (int64_t)left * 400000);
        }
    }
    expect_nothing(&b);
    bed_fini(&b);
}

Test(fabric, failing_allocations_are_reported_without_a_leak)
{
    struct topo *t = wires(2, 0, pair, 2);
    struct fabric_model m = {.topo = t, .scale = 1};
    struct fabric *f;
    enum status st = ST_NOMEM;
    size_t live = mem_live();

    for (size_t k = 1; st != ST_OK; k++) {
        mem_fail_at(k);
        st = fabric_create(&m, 10, &f);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        if (st != ST_OK) {
            cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
        }
    }
    fabric_destroy(f);
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

Test(agenda, entries_come_out_by_time_and_then_by_age)
{
    struct rng rng = rng_make(1, RNG_TEST, 0);
    struct agenda a;
    int64_t last = -1;
    size_t age = 0;

    cr_assert_eq(agenda_init(&a, 500), ST_OK);
    for (size_t i = 0; i < 500; i++) {
        agenda_add(&a, (struct agenda_entry){.when = (int64_t)rng_below(&rng, i, 50), .what = i});
    }
    for (size_t i = 0; i < 500; i++) {
        struct agenda_entry e = agenda_take(&a);
        cr_assert(e.when > last || (e.when == last && e.what > age));
        last = e.when;
        age = e.what;
    }
    cr_assert_null(agenda_first(&a));
    agenda_fini(&a);
}
