#include "comm/cost.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/rng.h"
#include "comm/agenda.h"
#include "comm/fabric.h"
#include "grid.h"

static const double alpha = 5e-6, beta = 1e-9; /* of each device's link */

/* Devices that each have one full-duplex link to a switch: one message in and one out at a time. */
static struct topo *one_port(int n)
{
    struct topo *t;
    char name[16];
    int hub;

    cr_assert_eq(topo_create("one-port", "", &t), ST_OK);
    cr_assert_eq(topo_add_vertex(t, "hub", TOPO_SWITCH, &hub), ST_OK);
    for (int i = 0; i < n; i++) {
        struct topo_link l = {.bytes_per_s = 1000000000, .latency_ns = 2500, .kind = (char *)"x"};
        snprintf(name, sizeof name, "gpu%d", i);
        cr_assert_eq(topo_add_vertex(t, name, TOPO_GPU, &l.from), ST_OK);
        l.to = hub;
        cr_assert_eq(topo_add_link(t, &l), ST_OK);
        l.to = l.from;
        l.from = hub;
        cr_assert_eq(topo_add_link(t, &l), ST_OK);
    }
    return t;
}

/* Devices in a row, each linked to the next in both directions. */
static struct topo *line(int n)
{
    struct topo *t;
    char name[16];

    cr_assert_eq(topo_create("line", "", &t), ST_OK);
    for (int i = 0; i < n; i++) {
        struct topo_link l = {.bytes_per_s = 1000000000, .latency_ns = 5000, .kind = (char *)"x"};
        snprintf(name, sizeof name, "gpu%d", i);
        cr_assert_eq(topo_add_vertex(t, name, TOPO_GPU, &l.from), ST_OK);
        for (int back = 0; i > 0 && back < 2; back++) {
            l.from = back ? i : i - 1;
            l.to = back ? i - 1 : i;
            cr_assert_eq(topo_add_link(t, &l), ST_OK);
        }
    }
    return t;
}

static double predict(const char *backend, const struct topo *t, enum collective c, size_t n,
                      size_t chunk_bytes)
{
    struct plan *plan = grid_plan(backend, t, c, 0);
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, false, n, chunk_bytes};
    struct program *p = grid_program(plan, &spec);
    struct cost_model m = {.topo = t, .scale = 1};
    double time_s;

    cr_assert_eq(cost_predict(p, &m, &time_s), ST_OK);
    program_destroy(p);
    plan_destroy(plan);
    return time_s;
}

static void near_to(double x, double want)
{
    cr_assert_float_eq(x / want, 1, 1e-9, "%g, not %g", x, want);
}

Test(cost, the_formulas_of_chain_tree_and_exchange_come_out)
{
    size_t n = 1 << 20, bytes = 4 * n, b = 64 << 10;

    for (int p = 2; p <= 16; p *= 2) {
        struct topo *t = one_port(p), *chain = line(p);
        double steps = log2(p), m = (double)bytes / (double)b, nb = (double)bytes * beta;
        near_to(predict("lp", t, COLL_BROADCAST, n, b), (p - 2 + m) * (alpha + (double)b * beta));
        near_to(predict("lp", t, COLL_REDUCE, n, b), (p - 2 + m) * (alpha + (double)b * beta));
        near_to(predict("lp", chain, COLL_ALLREDUCE, n, b),
                (2 * p - 3 + m) * (alpha + (double)b * beta));
        near_to(predict("mst", t, COLL_BROADCAST, n, b), steps * (alpha + nb));
        near_to(predict("mst", t, COLL_REDUCE, n, b), steps * (alpha + nb));
        near_to(predict("be", t, COLL_REDUCE_SCATTER, n, b), (p - 1) * alpha + (p - 1.0) / p * nb);
        near_to(predict("ring", t, COLL_REDUCE_SCATTER, n, bytes),
                (p - 1) * alpha + (p - 1.0) / p * nb);
        topo_destroy(t);
        topo_destroy(chain);
    }
}

Test(cost, a_pipeline_does_not_care_how_long_it_is)
{
    struct topo *two = one_port(2), *eight = one_port(8);
    size_t n = 16 << 20;
    double lp2 = predict("lp", two, COLL_BROADCAST, n, 256 << 10);
    double lp8 = predict("lp", eight, COLL_BROADCAST, n, 256 << 10);
    double mst8 = predict("mst", eight, COLL_BROADCAST, n, 0);

    cr_assert_lt(lp8 / lp2, 1.1);
    cr_assert_gt(mst8 / lp8, 2.7);
    topo_destroy(two);
    topo_destroy(eight);
}

Test(cost, the_best_chunk_is_near_the_square_root)
{
    struct topo *t = one_port(8);
    struct plan *plan = grid_plan("lp", t, COLL_BROADCAST, 0);
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, false, 4 << 20, 0};
    struct cost_model m = {.topo = t, .scale = 1};
    double exact = sqrt(4.0 * (4 << 20) * alpha / (6 * beta));
    size_t chunk;

    cr_assert_eq(cost_best_chunk(plan, &spec, &m, &chunk), ST_OK);
    cr_assert((double)chunk > exact / 2 && (double)chunk < exact * 2, "%zu, not %g", chunk, exact);
    plan_destroy(plan);
    topo_destroy(t);
}

Test(cost, in_memory_cores_share_the_work)
{
    struct topo *t = grid_mesh(4);
    struct plan *plan = grid_plan("onehop", t, COLL_ALLREDUCE, -1);
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, true, 1 << 20, 0};
    struct program *p = grid_program(plan, &spec);
    struct cost_model one = {.n_cores = 1}, two = {.n_cores = 2};
    double a, b;

    cr_assert_eq(cost_predict(p, &one, &a), ST_OK);
    cr_assert_eq(cost_predict(p, &two, &b), ST_OK);
    near_to(a, 2 * b);
    program_destroy(p);
    plan_destroy(plan);
    topo_destroy(t);
}

Test(cost, failing_allocations_are_reported_without_a_leak)
{
    struct topo *t = one_port(3);
    struct plan *plan = grid_plan("ring", t, COLL_ALLREDUCE, 0);
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, false, 5000, 0};
    struct cost_model m = {.topo = t, .scale = 1};
    enum status st = ST_NOMEM;
    size_t live = mem_live(), chunk;

    for (size_t k = 1; st != ST_OK; k++) {
        mem_fail_at(k);
        st = cost_best_chunk(plan, &spec, &m, &chunk);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
    }
    plan_destroy(plan);
    topo_destroy(t);
}

Test(fabric, a_link_is_taken_in_turn_and_directions_are_separate)
{
    struct topo *t = one_port(2);
    struct plan *p = grid_plan("ring", t, COLL_ALLREDUCE, 0);
    const struct path *there = &p->trees[0].up_path[1], *back = &p->trees[0].down_path[1];
    struct fabric *f;

    cr_assert_eq(fabric_create(t, 2, &f), ST_OK);
    near_to(fabric_send(f, there, 1e6, 0), 2 * (alpha + 1e-3));
    near_to(fabric_send(f, there, 1e6, 0), 4 * (alpha + 1e-3));
    near_to(fabric_send(f, there, 0, 1), 1 + 2 * alpha);
    near_to(fabric_send(f, back, 1e6, 0), 2 * (alpha + 1e-3));
    cr_assert_eq(fabric_send(f, NULL, 1e6, 3), 3);
    fabric_destroy(f);
    plan_destroy(p);
    topo_destroy(t);
}

Test(agenda, entries_come_out_by_time_and_then_by_age)
{
    struct rng rng = rng_make(1, RNG_TEST, 0);
    struct agenda a;
    double last = -1;
    size_t age = 0;

    cr_assert_eq(agenda_init(&a, 500), ST_OK);
    for (size_t i = 0; i < 500; i++) {
        agenda_add(&a, (struct agenda_entry){.when_s = (double)rng_below(&rng, i, 50), .op = i});
    }
    for (size_t i = 0; i < 500; i++) {
        struct agenda_entry e = agenda_take(&a);
        cr_assert(e.when_s > last || (e.when_s == last && e.op > age));
        last = e.when_s;
        age = e.op;
    }
    cr_assert_null(agenda_first(&a));
    agenda_fini(&a);
}
