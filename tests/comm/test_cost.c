#include "comm/cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "grid.h"

static const double alpha = 5e-6, beta = 1e-9, gamma_s = 0.5e-9;

static const int64_t rate = 1000000000;

/* Devices that each have one full-duplex link to a switch: one message in and one out at a time. */
static struct topo *one_port(int n)
{
    return grid_star(n, rate, 0, 0);
}

static double predict(const char *backend, const struct topo *t, enum collective c, size_t n,
                      size_t chunk_bytes)
{
    struct plan *plan = grid_plan(backend, t, c, 0);
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, false, n, chunk_bytes};
    struct program *p = grid_program(plan, &spec);
    struct cost_model m = {.topo = t, .scale = 1, .startup_s = alpha, .reduce_s_per_byte = gamma_s};
    double time_s;

    cr_assert_eq(cost_predict(p, &m, &time_s), ST_OK);
    program_destroy(p);
    plan_destroy(plan);
    return time_s;
}

static void near_to(double x, double want)
{
    cr_assert_float_eq(x / want, 1, 1e-6, "%g, not %g", x, want);
}

Test(cost, the_formulas_of_a_chain_come_out)
{
    size_t n = 1 << 20, bytes = 4 * n, b = 64 << 10;
    double m = (double)bytes / (double)b, copy = alpha + (double)b * beta;
    double sum = copy + (double)b * gamma_s;

    for (int p = 2; p <= 16; p++) {
        struct topo *t = one_port(p), *chain = grid_line(p, rate, 0);
        struct topo *row[] = {t, chain};
        for (int k = 0; k < 2; k++) {
            near_to(predict("lp", row[k], COLL_BROADCAST, n, b), (p - 2 + m) * copy);
            near_to(predict("lp", row[k], COLL_REDUCE, n, b), (p - 2 + m) * sum);
        }
        /* The way back has nothing to add up; the formula of the field counts that it does. */
        near_to(predict("lp", chain, COLL_ALLREDUCE, n, b), (p - 2 + m) * sum + (p - 1) * copy);
        cr_assert_leq(predict("lp", chain, COLL_ALLREDUCE, n, b),
                      (2 * p - 3 + m) * sum * (1 + 1e-9));
        topo_destroy(t);
        topo_destroy(chain);
    }
}

Test(cost, a_latency_is_paid_once_for_each_hop_and_not_for_each_block)
{
    size_t n = 1 << 20, bytes = 4 * n, b = 64 << 10;
    double m = (double)bytes / (double)b, copy = alpha + (double)b * beta;

    for (int p = 2; p <= 8; p++) {
        struct topo *chain = grid_line(p, rate, 30000);
        near_to(predict("lp", chain, COLL_BROADCAST, n, b), (p - 2 + m) * copy + (p - 1) * 30e-6);
        topo_destroy(chain);
    }
}

Test(cost, the_formulas_of_a_binomial_tree_come_out)
{
    size_t n = 1 << 20;
    double nb = 4.0 * (double)n * beta, ng = 4.0 * (double)n * gamma_s;

    for (int p = 2; p <= 16; p++) {
        struct topo *t = one_port(p);
        double steps = ceil(log2(p));
        near_to(predict("mst", t, COLL_BROADCAST, n, 0), steps * (alpha + nb));
        near_to(predict("mst", t, COLL_REDUCE, n, 0), steps * (alpha + nb + ng));
        near_to(predict("mst", t, COLL_ALLREDUCE, n, 0), steps * (2 * alpha + 2 * nb + ng));
        topo_destroy(t);
    }
}

Test(cost, the_formulas_of_an_exchange_come_out)
{
    size_t n = 1 << 20;

    for (int p = 2; p <= 16; p *= 2) {
        struct topo *t = one_port(p);
        double steps = log2(p), part = (p - 1.0) / p;
        double nb = part * 4.0 * (double)n * beta, ng = part * 4.0 * (double)n * gamma_s;
        double broadcast = predict("be", t, COLL_BROADCAST, n, 0);
        double reduce = predict("be", t, COLL_REDUCE, n, 0);
        near_to(predict("be", t, COLL_REDUCE_SCATTER, n, 0), steps * alpha + nb + ng);
        near_to(predict("be", t, COLL_ALLGATHER, n, 0), steps * alpha + nb);
        near_to(predict("be", t, COLL_ALLREDUCE, n, 0), 2 * steps * alpha + 2 * nb + ng);
        /* With a root some blocks do not go together, which costs a start-up each. */
        cr_assert(broadcast >= steps * alpha + 2 * nb - 1e-9 &&
                      broadcast <= (2 * p - 2) * alpha + 2 * nb + 1e-9,
                  "P=%d: %g", p, broadcast);
        cr_assert(reduce >= steps * alpha + 2 * nb - 1e-9 &&
                      reduce <= (2 * p - 2) * alpha + 2 * nb + 2 * ng + 1e-9,
                  "P=%d: %g", p, reduce);
        topo_destroy(t);
    }
}

Test(cost, the_formulas_of_a_ring_come_out)
{
    size_t n = 1 << 20;

    for (int p = 2; p <= 16; p *= 2) {
        struct topo *t = one_port(p);
        double part = (p - 1.0) / p * 4.0 * (double)n;
        near_to(predict("ring", t, COLL_REDUCE_SCATTER, n, 4 * n),
                (p - 1) * alpha + part * (beta + gamma_s));
        near_to(predict("ring", t, COLL_ALLGATHER, n, 4 * n), (p - 1) * alpha + part * beta);
        topo_destroy(t);
    }
}

/* No backend beats what its fullest link needs, and chunks bring the pipelined ones near to it. */
Test(cost, no_prediction_beats_the_links)
{
    struct topo *t = one_port(5);
    size_t n = 4 << 20;

    for (size_t i = 0; planner_at(i) != NULL; i++) {
        if (strcmp(planner_at(i)->name, "central-host") == 0) {
            continue; /* there is no host */
        }
        for (int c = 0; c < GRID_N_COLLECTIVES; c++) {
            struct plan *plan = grid_plan(planner_at(i)->name, t, (enum collective)c, 0);
            struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, false, n, 16 << 10};
            struct program *p = grid_program(plan, &spec);
            struct cost_model m = {.topo = t, .scale = 3};
            double time_s, least_s = 3 * 4.0 * (double)n * plan_link_seconds_per_byte(plan, t);
            cr_assert_eq(cost_predict(p, &m, &time_s), ST_OK);
            cr_assert_geq(time_s, 0.999 * least_s, "%s %s", plan->backend,
                          collective_name(plan->collective));
            cr_assert(!plan->pipelined || time_s < 1.1 * least_s, "%s %s: %g, links need %g",
                      plan->backend, collective_name(plan->collective), time_s, least_s);
            program_destroy(p);
            plan_destroy(plan);
        }
    }
    topo_destroy(t);
}

Test(cost, a_pipeline_does_not_care_how_long_it_is)
{
    struct topo *two = one_port(2), *eight = one_port(8);
    size_t n = 16 << 20;
    double lp2 = predict("lp", two, COLL_BROADCAST, n, 256 << 10);
    double lp8 = predict("lp", eight, COLL_BROADCAST, n, 256 << 10);
    double mst8 = predict("mst", eight, COLL_BROADCAST, n, 0);
    double be8 = predict("be", eight, COLL_BROADCAST, n, 0);

    cr_assert_lt(lp8 / lp2, 1.1);
    cr_assert_gt(mst8 / lp8, 2.7);
    cr_assert_gt(be8 / lp8, 1.6);
    topo_destroy(two);
    topo_destroy(eight);
}

Test(cost, the_best_chunk_is_near_the_square_root)
{
    struct topo *t = one_port(8);
    struct plan *plan = grid_plan("lp", t, COLL_BROADCAST, 0);
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, false, 4 << 20, 0};
    struct cost_model m = {.topo = t, .scale = 1, .startup_s = alpha};
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
    struct cost_model one = {.n_cores = 1}, two = {.n_cores = 2}, four = {.n_cores = 4};
    double a, b;

    cr_assert_eq(cost_predict(p, &one, &a), ST_OK);
    cr_assert_eq(cost_predict(p, &two, &b), ST_OK);
    near_to(a, 2 * b);
    cr_assert_eq(cost_predict(p, &four, &a), ST_OK);
    cr_assert_lt(a, b / 2); /* nobody has to be woken any more */
    program_destroy(p);
    plan_destroy(plan);
    topo_destroy(t);
}

Test(cost, in_memory_what_no_cache_holds_takes_longer)
{
    struct topo *t = grid_mesh(4);
    struct plan *plan = grid_plan("onehop", t, COLL_ALLREDUCE, -1);
    struct cost_model m = {.n_cores = 4};
    double time_s[2];

    for (int k = 0; k < 2; k++) { /* 32 MiB and 64 MiB of all ranks */
        struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, true, (size_t)(2 << 20) << k, 0};
        struct program *p = grid_program(plan, &spec);
        cr_assert_eq(cost_predict(p, &m, &time_s[k]), ST_OK);
        program_destroy(p);
    }
    cr_assert_gt(time_s[1], 3 * time_s[0]);
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
