/*
 * Plans of all classes with one fault each, which the independent checker must find. The fault is
 * planted in the file of a plan that the checker has accepted.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "classes.h"
#include "comm/plan_json.h"
#include "topo/plan_verify.h"

static json_t *tree_of(json_t *plan, size_t i)
{
    return json_array_get(json_object_get(plan, "trees"), i);
}

static size_t last_tree(const json_t *plan)
{
    return json_array_size(json_object_get(plan, "trees")) - 1;
}

/* The edges of a pass that the tree has: if it has both, of the one that is asked for. */
static json_t *edges_of(json_t *plan, size_t tree, const char *pass)
{
    json_t *edges = json_object_get(tree_of(plan, tree), pass);
    const char *other = strcmp(pass, "up") == 0 ? "down" : "up";

    return json_array_size(edges) > 0 ? edges : json_object_get(tree_of(plan, tree), other);
}

static void add_int(json_t *x, json_int_t by)
{
    (void)json_integer_set(x, json_integer_value(x) + by);
}

static void turn_int(json_t *object, const char *key, json_int_t n)
{
    json_int_t x = json_integer_value(json_object_get(object, key));

    (void)json_object_set_new(object, key, json_integer((x + 1) % n));
}

static void scale(json_t *object, const char *key, double by)
{
    double x = json_number_value(json_object_get(object, key));

    (void)json_object_set_new(object, key, json_real(x * by));
}

static void drop_last(json_t *array)
{
    (void)json_array_remove(array, json_array_size(array) - 1);
}

/* One side of the certificate: side 0 or 1 of a cut, or a part. */
static json_t *side_of(json_t *plan, size_t side)
{
    json_t *proof = json_object_get(plan, "bottleneck"), *parts = json_object_get(proof, "parts");

    return parts != NULL ? json_array_get(parts, side)
                         : json_object_get(proof, side == 0 ? "from" : "to");
}

/* What the cut that sends from the devices of `from` proves about the plan, in lanes; 0: nothing.
 */
static double cut_proves(const struct sub *s, enum collective c, int root, unsigned from)
{
    double lanes = 0;
    int sending = __builtin_popcount(from);

    for (int i = 0; i < s->n; i++) {
        for (int j = 0; j < s->n; j++) {
            lanes += (from >> i & 1) && !(from >> j & 1) ? s->lanes[i][j] : 0;
        }
    }
    switch (c) {
    case COLL_BROADCAST:
        return from >> root & 1 ? lanes : 0;
    case COLL_REDUCE:
        return from >> root & 1 ? 0 : lanes;
    case COLL_ALLGATHER:
        return lanes * s->n / sending;
    case COLL_REDUCE_SCATTER:
        return lanes * s->n / (s->n - sending);
    default:
        return lanes;
    }
}

/* Exchange the certificate for the cut that proves least. False where all cuts prove the bound. */
static bool put_other_cut(json_t *plan, const struct sub *s, enum collective c, int root,
                          double bound_lanes)
{
    json_t *proof = json_object_get(plan, "bottleneck"), *devices, *sides[2];
    unsigned worst = 0;
    double most = bound_lanes;

    for (unsigned from = 1; from < (1U << s->n) - 1; from++) {
        double proves = cut_proves(s, c, root, from);
        if (proves > most * (1 + 1e-6)) {
            most = proves;
            worst = from;
        }
    }
    if (worst == 0) {
        return false;
    }
    (void)json_object_set_new(proof, "kind", json_string("cut"));
    devices = json_object_get(plan, "devices");
    sides[0] = json_array();
    sides[1] = json_copy(json_object_get(proof, "outside"));
    sides[1] = sides[1] != NULL ? sides[1] : json_array();
    for (size_t side = 0; side < 2 && json_object_get(proof, "from") != NULL; side++) {
        for (size_t i = 0; i < json_array_size(side_of(plan, side)); i++) {
            json_t *name = json_array_get(side_of(plan, side), i);
            if (strncmp(json_string_value(name), "gpu", 3) != 0) {
                (void)json_array_append(sides[1], name);
            }
        }
    }
    for (size_t i = 0; i < (size_t)s->n; i++) {
        (void)json_array_append(sides[worst >> i & 1 ? 0 : 1], json_array_get(devices, i));
    }
    (void)json_object_set_new(proof, "from", sides[0]);
    (void)json_object_set_new(proof, "to", sides[1]);
    return true;
}

enum {
    N_IN_TREES = 15,
    N_ELSEWHERE = 14
};

/* Faults in shares, trees and edges. */
static void mutate_trees(json_t *p, int k, int n)
{
    json_t *trees = json_object_get(p, "trees"), *tree = tree_of(p, 0);
    json_t *share = json_object_get(tree, "share"), *num = json_array_get(share, 0);
    json_t *edges = edges_of(p, 0, "down"), *edge = json_array_get(edges, 0);

    switch (k) {
    case 0: /* a share off by one unit */
        add_int(num, 1);
        break;
    case 1:
        add_int(json_array_get(share, 1), 1);
        break;
    case 2:
        add_int(num, -json_integer_value(num) - 1);
        break;
    case 3:
        (void)json_array_set_new(share, 0, json_real(1));
        break;
    case 4:
        (void)json_array_append_new(share, json_integer(1));
        break;
    case 5: /* a tree missing, a tree twice */
        drop_last(trees);
        break;
    case 6:
        (void)json_array_append(trees, tree);
        break;
    case 7: /* not spanning */
        drop_last(edges);
        break;
    case 8:
        (void)json_array_remove(edges_of(p, last_tree(p), "up"), 0);
        break;
    case 9: /* an edge twice */
        (void)json_array_append(edges, edge);
        break;
    case 10: /* an edge to where it comes from */
        (void)json_object_set(edge, "from", json_object_get(edge, "to"));
        break;
    case 11: /* moved to a rank that its way does not reach */
        turn_int(edge, "to", n);
        break;
    case 12: /* over a link, or through a vertex, that is not there */
        (void)json_object_set_new(edge, "link", json_string("pcie"));
        break;
    case 13:
        (void)json_array_set_new(json_object_get(edge, "via"), 1, json_string("gpu99"));
        break;
    default: /* a root that is not the top */
        turn_int(tree, "root", n);
        break;
    }
}

/* Faults in the head and in the certificate. */
static void mutate_rest(json_t *p, int k, int n)
{
    json_t *proof = json_object_get(p, "bottleneck"), *devices = json_object_get(p, "devices");
    bool down = json_array_size(json_object_get(tree_of(p, 0), "down")) > 0;

    switch (k) {
    case 0: /* a rate that the links do not give, either way */
        scale(p, "algbw_gbs", 1 + 1e-6);
        break;
    case 1:
        scale(p, "algbw_gbs", 1 - 1e-6);
        break;
    case 2: /* a bound that the certificate does not prove */
        scale(p, "bound_gbs", 1 + 1e-6);
        break;
    case 3:
        scale(p, "bound_gbs", 1 - 1e-6);
        break;
    case 4: /* a bound without a proof */
        (void)json_object_set_new(p, "bottleneck", json_null());
        break;
    case 5: /* another kind of proof */
        (void)json_object_set_new(
            proof, "kind", json_string(json_object_get(proof, "parts") ? "cut" : "partition"));
        break;
    case 6: /* a device on no side, or on both */
        (void)json_array_remove(side_of(p, 0), 0);
        break;
    case 7:
        (void)json_array_append(side_of(p, 0), json_array_get(side_of(p, 1), 0));
        break;
    case 8: /* a side that holds all */
        (void)json_array_extend(side_of(p, 0), side_of(p, 1));
        (void)json_array_clear(side_of(p, 1));
        break;
    case 9: /* other devices */
        (void)json_array_set(devices, (size_t)n - 1, json_array_get(devices, 0));
        break;
    case 10:
        (void)json_array_set_new(devices, (size_t)n - 1, json_string("plx0"));
        break;
    case 11: /* another collective, another root, another format */
        (void)json_object_set_new(p, "collective",
                                  json_string(down ? "reduce-scatter" : "allgather"));
        break;
    case 12:
        if (json_is_null(json_object_get(p, "root"))) {
            (void)json_object_set_new(p, "root", json_integer(0));
        } else {
            turn_int(p, "root", n);
        }
        break;
    default:
        (void)json_object_set_new(p, "format", json_string("espalier-plan/2"));
        break;
    }
}

static enum status verdict(const json_t *plan, const struct topo *t, const char *path)
{
    enum status st;

    cr_assert_eq(json_dump_file(plan, path, JSON_REAL_PRECISION(15)), 0);
    st = plan_verify(path, t, NULL);
    (void)unlink(path); /* before the file system writes it to the disk */
    return st;
}

static json_t *load_plan(const struct topo *t, enum collective c, int root, const char *path)
{
    struct plan_request q = {.collective = c, .n_ranks = t->n_devices, .root = root};
    struct plan *p = NULL;
    FILE *f = fopen(path, "w");
    json_t *json;

    cr_assert_not_null(f);
    cr_assert_eq(plan_create("treepack", t, &q, &p), ST_OK);
    cr_assert_eq(plan_json_write(p, t, f), ST_OK);
    cr_assert_eq(fclose(f), 0);
    plan_destroy(p);
    json = json_load_file(path, 0, NULL);
    (void)unlink(path);
    cr_assert_not_null(json);
    return json;
}

/* Returns whether there was another cut to exchange the certificate for. */
static bool try_all(const struct topo *t, const struct sub *s, enum collective c, int root,
                    int64_t lane)
{
    char path[64];
    json_t *sound, *bad;
    double bound;
    bool other;

    (void)snprintf(path, sizeof path, "/tmp/espalier-test-mutant-%d.json", (int)getpid());
    sound = load_plan(t, c, root, path);
    cr_assert_eq(verdict(sound, t, path), ST_OK);
    for (int k = 0; k < N_IN_TREES + N_ELSEWHERE; k++) {
        bad = json_deep_copy(sound);
        if (k < N_IN_TREES) {
            mutate_trees(bad, k, s->n);
        } else {
            mutate_rest(bad, k - N_IN_TREES, s->n);
        }
        cr_assert_not(json_equal(bad, sound));
        cr_assert_eq(verdict(bad, t, path), ST_INPUT, "%s, %s, root %d: fault %d was accepted",
                     t->name, collective_name(c), root, k);
        json_decref(bad);
    }
    bad = json_deep_copy(sound);
    bound = 1e9 * json_number_value(json_object_get(sound, "bound_gbs")) / (double)lane;
    other = put_other_cut(bad, s, c, root, bound);
    cr_assert_eq(verdict(bad, t, path), other ? ST_INPUT : ST_OK, "%s, %s: another cut", t->name,
                 collective_name(c));
    json_decref(bad);
    json_decref(sound);
    return other;
}

static void try_machine(const char *name, int expected, int64_t lane)
{
    struct machine m;
    struct sub list[64];
    int others = 0;

    cr_assert_not_null(freopen("/dev/null", "w", stderr), "every refusal says why");
    cr_assert_eq(machine_open(&m, name), ST_OK);
    cr_assert_eq(classes(&m, list), expected);
    for (int i = 0; i < expected; i++) {
        struct topo *t;
        cr_assert_eq(topo_subset(m.t, list[i].ranks, list[i].n, &t), ST_OK);
        for (int root = 0; root < list[i].n; root++) {
            others += try_all(t, &list[i], COLL_BROADCAST, root, lane);
            others += try_all(t, &list[i], COLL_REDUCE, root, lane);
        }
        others += try_all(t, &list[i], COLL_ALLREDUCE, -1, lane);
        others += try_all(t, &list[i], COLL_ALLGATHER, -1, lane);
        others += try_all(t, &list[i], COLL_REDUCE_SCATTER, -1, lane);
        topo_destroy(t);
    }
    cr_assert_gt(others, 10 * expected);
    topo_destroy(m.t);
    cr_assert_eq(mem_live(), 0);
}

Test(mutations, of_plans_for_all_classes_of_dgx1p_are_refused)
{
    try_machine(TEST_SOURCE_DIR "/topologies/dgx1p.topo", 14, 20000000000);
}

Test(mutations, of_plans_for_all_classes_of_dgx1v_are_refused)
{
    try_machine(TEST_SOURCE_DIR "/topologies/dgx1v.topo", 46, 25000000000);
}
