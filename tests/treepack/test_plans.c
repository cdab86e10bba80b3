/* Plans of the planner, written to files, read back, and judged by the independent checker. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "classes.h"
#include "comm/plan_forestcoll.h"
#include "comm/plan_json.h"
#include "topo/plan_verify.h"

static void path_of(char path[64], const char *what)
{
    (void)snprintf(path, 64, "/tmp/espalier-test-%s-%d.json", what, (int)getpid());
}

static void write_plan(const struct plan *p, const struct topo *t, const char *path)
{
    FILE *f = fopen(path, "w");

    cr_assert_not_null(f);
    cr_assert_eq(plan_json_write(p, t, f), ST_OK);
    cr_assert_eq(fclose(f), 0);
}

static struct plan *make(const struct topo *t, enum collective c, int root)
{
    struct plan_request q = {.collective = c, .n_ranks = t->n_devices, .root = root};
    struct plan *p = NULL;

    cr_assert_eq(plan_create("treepack", t, &q, &p), ST_OK);
    return p;
}

/* The plan's rate is its bound, the file is sound, and reading it gives the same loads. */
static void check_plan(const struct topo *t, enum collective c, int root)
{
    struct plan *p = make(t, c, root), *q = NULL;
    double seconds = plan_link_seconds_per_byte(p, t);
    char path[64];

    path_of(path, "plan");
    cr_assert_float_eq(1 / seconds / p->bound_bytes_per_s, 1, 1e-12, "%s of %s", collective_name(c),
                       t->name);
    cr_assert_not_null(p->bottleneck);
    write_plan(p, t, path);
    cr_assert_eq(plan_verify(path, t, NULL), ST_OK);
    cr_assert_eq(plan_json_read(path, t, &q), ST_OK);
    cr_assert_eq(q->n_trees, p->n_trees);
    cr_assert_eq(q->collective, c);
    cr_assert_eq(q->root, p->root);
    cr_assert_eq(plan_link_seconds_per_byte(q, t), seconds);
    cr_assert_eq(plan_depth(q), plan_depth(p));
    (void)unlink(path);
    plan_destroy(p);
    plan_destroy(q);
}

/* All collectives, from every root. */
static void check_collectives(const struct topo *t)
{
    for (int root = 0; root < t->n_devices; root++) {
        check_plan(t, COLL_BROADCAST, root);
        check_plan(t, COLL_REDUCE, root);
    }
    check_plan(t, COLL_ALLREDUCE, -1);
    check_plan(t, COLL_ALLGATHER, -1);
    check_plan(t, COLL_REDUCE_SCATTER, -1);
}

static void check_classes(const char *name, int expected)
{
    struct machine m;
    struct sub list[64];

    cr_assert_eq(machine_open(&m, name), ST_OK);
    cr_assert_eq(classes(&m, list), expected);
    for (int i = 0; i < expected; i++) {
        struct topo *t;
        cr_assert_eq(topo_subset(m.t, list[i].ranks, list[i].n, &t), ST_OK);
        check_collectives(t);
        topo_destroy(t);
    }
    topo_destroy(m.t);
    cr_assert_eq(mem_live(), 0);
}

Test(plans, of_all_classes_of_dgx1p_are_optimal_and_sound)
{
    check_classes(TEST_SOURCE_DIR "/topologies/dgx1p.topo", 14);
}

Test(plans, of_all_classes_of_dgx1v_are_optimal_and_sound)
{
    check_classes(TEST_SOURCE_DIR "/topologies/dgx1v.topo", 46);
}

static struct topo *machine(const char *name)
{
    char path[512];
    struct topo *t;

    (void)snprintf(path, sizeof path, "%s/topologies/%s.topo", TEST_SOURCE_DIR, name);
    cr_assert_eq(topo_read(path, &t), ST_OK);
    return t;
}

Test(plans, of_other_machines_are_sound)
{
    static const char *const names[] = {"dgx2", "dgx-a100", "pcie4", "h100x2"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct topo *t = machine(names[i]);
        check_plan(t, COLL_ALLREDUCE, -1);
        check_plan(t, COLL_ALLGATHER, -1);
        check_plan(t, COLL_REDUCE_SCATTER, -1);
        check_plan(t, COLL_REDUCE, 1);
        topo_destroy(t);
    }
}

Test(plans, of_forestcoll_are_read)
{
    char text[] =
        "topology t\ndevice a b c\nswitch s\nlink a s 2 B/s\nlink b s 2 B/s\nlink c s 2 B/s\n";
    char file[512], path[64];
    struct topo *t, *two;
    struct plan *p = NULL;
    int ranks[] = {0, 1};

    cr_assert_eq(topo_parse("text", text, sizeof text - 1, &t), ST_OK);
    (void)snprintf(file, sizeof file, "%s/tests/topo/imports/star3.forest.xml", TEST_SOURCE_DIR);
    cr_assert_eq(plan_forestcoll_read(file, t, &p), ST_OK);
    cr_assert_eq(p->n_trees, 3);
    cr_assert_eq(plan_depth(p), 1);
    cr_assert_float_eq(1 / plan_link_seconds_per_byte(p, t), 3, 1e-12);
    path_of(path, "forest");
    write_plan(p, t, path);
    cr_assert_eq(plan_verify(path, t, NULL), ST_OK);
    (void)unlink(path);
    plan_destroy(p);
    cr_assert_eq(topo_subset(t, ranks, 2, &two), ST_OK);
    cr_assert_eq(plan_forestcoll_read(file, two, &p), ST_INPUT, "other devices");
    cr_assert_eq(plan_forestcoll_read("/dev/null", t, &p), ST_INPUT);
    topo_destroy(two);
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

/* Unequal directions: the proof is a weighted sum of cuts. */
Test(plans, over_unequal_directions_are_optimal_and_sound)
{
    char text[] = "topology t\ndevice a b c d\noneway a b 3 B/s\noneway b a 2 B/s\nlink b c 4 B/s\n"
                  "oneway c d 3 B/s\noneway d a 2 B/s\noneway a d 1 B/s\noneway d c 1 B/s\n";
    struct topo *t;

    cr_assert_eq(topo_parse("text", text, sizeof text - 1, &t), ST_OK);
    check_plan(t, COLL_ALLREDUCE, -1);
    check_plan(t, COLL_REDUCE, 2);
    check_plan(t, COLL_REDUCE_SCATTER, -1);
    topo_destroy(t);
}

/* What lies on no way between two devices, such as a network port, adds nothing to a bound. */
Test(plans, with_dead_ends_are_optimal_and_sound)
{
    static const char *const texts[] = {
        /* ports at switches and at each other, with cuts as proofs */
        "device a b c d\nswitch s r\nnic n m\nnet w\nlink a b 25 B/s\nlink b d 50 B/s\n"
        "link a s 15 B/s\nlink c s 15 B/s\nlink n s 15 B/s\nlink n w 9 B/s\nlink s r 15 B/s\n"
        "link b r 15 B/s\nlink d r 15 B/s\nlink m r 7 B/s\n",
        /* ports at devices, with a partition as proof */
        "device a b c\nnic n m\nswitch s\nlink a b 2 B/s\nlink b c 2 B/s\nlink a c 4 B/s\n"
        "link n a 3 B/s\nlink m n 5 B/s\nlink c s 9 B/s\n",
        /* of one direction, and unequal ones, with weighted cuts as proofs */
        "device a b c d\nswitch s\nnic n m k\noneway a b 3 B/s\noneway b a 2 B/s\n"
        "link b c 4 B/s\noneway c d 3 B/s\noneway d a 2 B/s\noneway a d 1 B/s\n"
        "oneway d c 1 B/s\nlink a s 2 B/s\nlink c s 1 B/s\nlink s n 7 B/s\noneway b m 6 B/s\n"
        "oneway s m 6 B/s\noneway k d 5 B/s\noneway k s 5 B/s\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[1024];
        struct topo *t;
        (void)snprintf(text, sizeof text, "topology t%zu\n%s", i, texts[i]);
        cr_assert_eq(topo_parse("text", text, strlen(text), &t), ST_OK);
        check_collectives(t);
        topo_destroy(t);
    }
    cr_assert_eq(mem_live(), 0);
}

Test(plans, for_other_devices_are_refused)
{
    struct topo *t = machine("dgx-a100"), *s, *other = machine("dgx-h100");
    int ranks[] = {1, 0, 2, 3, 4, 5, 6, 7};
    struct plan *p = make(t, COLL_ALLREDUCE, -1), *q = NULL;
    char path[64];

    path_of(path, "other");
    write_plan(p, t, path);
    cr_assert_eq(plan_json_read(path, other, &q), ST_OK, "the same names and links");
    plan_destroy(q);
    cr_assert_eq(topo_subset(t, ranks, 8, &s), ST_OK);
    cr_assert_eq(plan_json_read(path, s, &q), ST_INPUT, "another order of ranks");
    topo_destroy(s);
    cr_assert_eq(topo_subset(t, ranks, 7, &s), ST_OK);
    cr_assert_eq(plan_json_read(path, s, &q), ST_INPUT, "fewer devices");
    topo_destroy(s);
    (void)unlink(path);
    cr_assert_eq(plan_json_read(path, t, &q), ST_INPUT, "no file");
    plan_destroy(p);
    topo_destroy(t);
    topo_destroy(other);
    cr_assert_eq(mem_live(), 0);
}

Test(plans, of_every_backend_pass_through_files)
{
    struct topo *t;
    char path[64];

    path_of(path, "backend");
    cr_assert_eq(topo_mesh(5, 1000000, 5, &t), ST_OK);
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        struct plan_request r = {.collective = COLL_ALLREDUCE, .n_ranks = 5, .root = -1};
        struct plan *p, *q = NULL;
        cr_assert_eq(plan_create(planner_at(i)->name, t, &r, &p), ST_OK);
        write_plan(p, t, path);
        cr_assert_eq(plan_verify(path, t, NULL), ST_OK, "%s", p->backend);
        cr_assert_eq(plan_json_read(path, t, &q), ST_OK);
        cr_assert_eq(q->pipelined, p->pipelined);
        cr_assert_str_eq(q->backend, p->backend);
        plan_destroy(p);
        plan_destroy(q);
    }
    (void)unlink(path);
    topo_destroy(t);
}
