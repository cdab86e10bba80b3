#include "comm/bench.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/bench_data.h"
#include "comm/plan_json.h"
#include "grid.h"

Test(bench, every_backend_collective_and_type_runs_without_a_wrong_element)
{
    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int k = 0; k < GRID_N_COLLECTIVES * 4 * 2; k++) {
            struct topo *t = grid_mesh(3 + k % 2);
            struct bench_result r;
            struct bench_spec s = {.topo = t,
                                   .backend = planner_at(b)->name,
                                   .collective = (enum collective)(k % GRID_N_COLLECTIVES),
                                   .dtype = (enum dtype)(k / GRID_N_COLLECTIVES % 4),
                                   .redop = (enum redop)(k % 4),
                                   .root = 1,
                                   .n = 12345,
                                   .in_place = k >= GRID_N_COLLECTIVES * 4,
                                   .check = true,
                                   .n_warmup = 1,
                                   .n_iterations = 2,
                                   .timeout_s = 60};
            cr_assert_eq(bench_run(&s, &r), ST_OK);
            cr_assert_eq(r.wrong, 0, "%s %s %s %s in_place=%d", s.backend,
                         collective_name(s.collective), dtype_name(s.dtype), redop_name(s.redop),
                         s.in_place);
            cr_assert(r.time_s > 0 && r.n_iterations == 2);
            topo_destroy(t);
        }
    }
    cr_assert_eq(mem_live(), 0);
}

Test(bench, an_emulated_collective_takes_the_predicted_time_or_longer)
{
    struct topo *t = grid_mesh(3);
    struct bench_result r;
    struct bench_spec s = {.topo = t,
                           .backend = "auto",
                           .collective = COLL_BROADCAST,
                           .n = 1000,
                           .emulate = true,
                           .scale = 0.01,
                           .check = true,
                           .n_iterations = 3,
                           .timeout_s = 60};

    cr_assert_eq(bench_run(&s, &r), ST_OK);
    cr_assert_eq(r.wrong, 0);
    cr_assert_geq(r.predicted_s, 4000 * 0.01 / 1000 / 2);
    cr_assert_geq(r.time_s, 0.9 * r.predicted_s);
    cr_assert_not_null(planner_find(r.backend));
    s.startup_s = 2; /* now a message takes 20 ms at the least */
    cr_assert_eq(bench_run(&s, &r), ST_OK);
    cr_assert_eq(r.wrong, 0);
    cr_assert_geq(r.predicted_s, 0.02);
    cr_assert_geq(r.time_s, 0.9 * r.predicted_s);
    topo_destroy(t);
}

/* On a chain the last rank has sent all of a message when the first has not even got it. */
Test(bench, a_rank_that_is_through_does_not_wait_for_those_that_time_out)
{
    for (int check = 0; check < 2; check++) {
        struct topo *t = grid_mesh(3);
        struct bench_result r = {.wrong = 7};
        struct bench_spec s = {.topo = t,
                               .backend = "lp",
                               .collective = COLL_REDUCE,
                               .n = 1000,
                               .emulate = true,
                               .scale = 0.05, /* a hop takes 0.2 s */
                               .chunk_bytes = 4000,
                               .check = check == 1,
                               .n_iterations = 1,
                               .timeout_s = 0.3};

        cr_assert_eq(bench_run(&s, &r), ST_TIMEOUT);
        cr_assert_eq(r.wrong, 7, "the result is written on success only");
        topo_destroy(t);
    }
    cr_assert_eq(mem_live(), 0);
}

Test(bench, a_plan_for_something_else_is_refused)
{
    char path[] = "/tmp/espalier-bench-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    struct topo *t = grid_mesh(3);
    struct plan *plan = grid_plan("mst", t, COLL_BROADCAST, 2);
    struct bench_result r;
    struct bench_spec s = {.topo = t,
                           .backend = "plan",
                           .plan = path,
                           .collective = COLL_BROADCAST,
                           .root = 2,
                           .n = 1000,
                           .check = true,
                           .n_iterations = 1,
                           .timeout_s = 60};

    cr_assert_eq(plan_json_write(plan, t, f), ST_OK);
    cr_assert_eq(fclose(f), 0);
    cr_assert_eq(bench_run(&s, &r), ST_OK);
    cr_assert_eq(r.wrong, 0);
    cr_assert_str_eq(r.backend, "mst");
    s.root = 0;
    cr_assert_eq(bench_run(&s, &r), ST_INPUT);
    s.root = 2;
    s.collective = COLL_REDUCE;
    cr_assert_eq(bench_run(&s, &r), ST_INPUT);
    cr_assert_eq(unlink(path), 0);
    plan_destroy(plan);
    topo_destroy(t);
}

Test(bench, a_wrong_element_is_counted)
{
    struct topo *t = grid_mesh(3);
    struct plan *plan = grid_plan("ring", t, COLL_ALLREDUCE, -1);
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, true, 10, 0};
    struct program *p = grid_program(plan, &spec);
    float x[3][10], sum[10] = {0};

    for (int r = 0; r < 3; r++) {
        bench_data_fill(DTYPE_F32, r, x[r], 0, 10);
        for (int i = 0; i < 10; i++) {
            sum[i] += x[r][i];
        }
    }
    cr_assert_eq(bench_data_wrong(p, -1, sum, 0, 10), 0);
    sum[9]++;
    sum[3]--;
    cr_assert_eq(bench_data_wrong(p, -1, sum, 0, 10), 2);
    cr_assert_neq(bench_data_wrong(p, -1, x[0], 0, 10), 0);
    program_destroy(p);
    plan_destroy(plan);
    topo_destroy(t);
}

Test(bench, bus_factors_are_those_of_the_field)
{
    cr_assert_float_eq(bench_bus_factor(COLL_ALLREDUCE, 8), 1.75, 1e-12);
    cr_assert_float_eq(bench_bus_factor(COLL_ALLGATHER, 8), 0.875, 1e-12);
    cr_assert_float_eq(bench_bus_factor(COLL_REDUCE_SCATTER, 4), 0.75, 1e-12);
    cr_assert_float_eq(bench_bus_factor(COLL_BROADCAST, 4), 1, 1e-12);
    cr_assert_float_eq(bench_bus_factor(COLL_REDUCE, 4), 1, 1e-12);
}

Test(bench, the_number_of_calls_grows_until_they_take_long_enough)
{
    size_t n = bench_more(0, 0);

    cr_assert_gt(n, 0);
    cr_assert_eq(bench_more(n, 60), n);
    cr_assert_eq(bench_more(n, 0), 16 * n); /* too short for the clock */
    for (int calls = 0; bench_more(n, (double)n * 1e-7) != n; calls++) {
        cr_assert_gt(bench_more(n, (double)n * 1e-7), n);
        n = bench_more(n, (double)n * 1e-7);
        cr_assert_lt(calls, 20);
    }
    cr_assert(n >= 500000 && n <= 1000000); /* between half of 0.1 s and all of it */
}
