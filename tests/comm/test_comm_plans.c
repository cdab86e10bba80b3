/* Backends chosen by cost, and plans from files. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/plan_json.h"
#include "tests/caught.h"
#include "topo/plan_verify.h"
#include "world.h"

Test(comm, auto_picks_by_size_and_says_why)
{
    struct world_rank ranks[16];
    struct world w;
    char text[4096] = "";
    FILE *f = fmemopen(text, sizeof text, "w");

    world_init(&w, "auto", 4);
    world_start(&w);
    world_run(&w, ranks, 3, world_train);
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
    struct world_rank ranks[16];
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
    world_run(&w, ranks, 2, world_train);
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
    args = world_args(&w);
    cr_assert_eq(comm_create(&args, &w.comm), ST_INPUT);
    args.kind = COMM_REDUCE;
    args.root = 1; /* the plan's is 0 */
    cr_assert_eq(comm_create(&args, &w.comm), ST_INPUT);
    args.root = 0;
    cr_assert_eq(comm_create(&args, &w.comm), ST_OK);
    cr_assert_eq(unlink(path), 0);
    world_fini(&w);
}

/* What is not there is not a file with a wrong line. */
Test(comm, a_plan_file_that_cannot_be_read_is_named)
{
    struct topo *t = grid_mesh(2);
    struct caught c = caught_begin(STDERR_FILENO);
    struct plan *p = NULL;
    char text[2048];

    cr_assert_eq(plan_json_read("/nonexistent/p.json", t, &p), ST_INPUT);
    cr_assert_eq(plan_verify("/nonexistent/p.json", t, NULL), ST_INPUT);
    cr_assert_eq(plan_json_read("/dev/null", t, &p), ST_INPUT);
    caught_end(c, text, sizeof text);
    cr_assert_null(p);
    cr_assert_null(strstr(text, "-1"), "%s", text);
    cr_assert_not_null(strstr(text, "cannot read the plan, '/nonexistent/p.json'"), "%s", text);
    cr_assert_not_null(strstr(text, "/dev/null:1: not a plan file"), "%s", text);
    topo_destroy(t);
}
