/* Blink's own methods beside the exact ones: multiplicative weights, two planes, three phases. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/mem.h"
#include "classes.h"
#include "comm/plan.h"
#include "comm/treepack/bound.h"
#include "comm/treepack/mwu.h"
#include "comm/treepack/treepack_options.h"

static double as_double(struct frac f)
{
    return (double)f.num / (double)f.den;
}

/* No arc of the reduced trees is used more often than it holds. */
static void check_reduced(const struct mwu_result *r, bool both_ways)
{
    int64_t sum = 0;

    for (int e = 0; e < r->l->m; e++) {
        int64_t load = 0;
        for (size_t i = 0; i < r->reduced.n; i++) {
            for (int v = 0; v < r->reduced.n_dev; v++) {
                int a = r->reduced.trees[i].arc[v];
                bool mine =
                    a == e || (a >= 0 && both_ways && r->l->arcs[a].from == r->l->arcs[e].to &&
                               r->l->arcs[a].to == r->l->arcs[e].from);
                load += mine ? r->reduced.trees[i].weight : 0;
            }
        }
        cr_assert_leq(load, r->l->arcs[e].cap * r->den);
    }
    for (size_t i = 0; i < r->reduced.n; i++) {
        sum += r->reduced.trees[i].weight;
        cr_assert_leq(packing_depth(&r->reduced, r->l, i), r->reduced.n_dev - 1);
    }
    cr_assert_eq(frac_compare(frac_make(sum, r->den), r->reduced_rate), 0);
}

static void check_classes(const char *name, int expected)
{
    const struct mwu_options o = {0.1, 0.05};
    struct machine m;
    struct sub list[64];

    cr_assert_eq(machine_open(&m, name), ST_OK);
    cr_assert_eq(classes(&m, list), expected);
    for (int i = 0; i < expected; i++) {
        struct topo *t;
        cr_assert_eq(topo_subset(m.t, list[i].ranks, list[i].n, &t), ST_OK);
        for (int kind = SOLVE_BROADCAST; kind <= SOLVE_ALLREDUCE; kind += 2) {
            struct solve_request q = {.kind = (enum solve_kind)kind, .root = 1};
            struct mwu_result r;
            struct solution s;
            cr_assert_eq(mwu_pack(t, &q, &o, &r), ST_OK);
            cr_assert_eq(solve(t, &q, &s), ST_OK);
            cr_assert_leq(as_double(r.raw_rate), as_double(s.rate) * (1 + 1e-12));
            cr_assert_geq(as_double(r.raw_rate), as_double(s.rate) * (1 - o.epsilon));
            cr_assert_leq(as_double(r.reduced_rate), as_double(s.rate) * (1 + 1e-12));
            cr_assert_geq(as_double(r.reduced_rate), as_double(r.raw_rate) * (1 - o.threshold));
            check_reduced(&r, kind == SOLVE_ALLREDUCE);
            mwu_result_fini(&r);
            solution_fini(&s);
        }
        topo_destroy(t);
    }
    topo_destroy(m.t);
    cr_assert_eq(mem_live(), 0);
}

Test(mwu, is_within_epsilon_and_its_reduction_within_the_threshold_p100)
{
    check_classes(TEST_SOURCE_DIR "/topologies/dgx1p.topo", 14);
}

Test(mwu, is_within_epsilon_and_its_reduction_within_the_threshold_v100)
{
    check_classes(TEST_SOURCE_DIR "/topologies/dgx1v.topo", 46);
}

Test(mwu, eight_v100_broadcast_over_six_whole_trees)
{
    const struct mwu_options o = {0.1, 0.05};
    struct machine m;

    cr_assert_eq(machine_open(&m, TEST_SOURCE_DIR "/topologies/dgx1v.topo"), ST_OK);
    for (int root = 0; root < 8; root++) {
        struct solve_request q = {.kind = SOLVE_BROADCAST, .root = root, .reversed = root % 2 == 1};
        struct mwu_result r;
        int64_t sum = 0;
        cr_assert_eq(mwu_pack(m.t, &q, &o, &r), ST_OK);
        for (size_t i = 0; i < r.reduced.n; i++) {
            sum += r.reduced.trees[i].weight;
        }
        cr_assert_eq(r.den, 1);
        cr_assert_eq(sum, 6);
        cr_assert(root > 0 || r.raw.n > 6, "only %zu trees to begin with", r.raw.n);
        mwu_result_fini(&r);
    }
    topo_destroy(m.t);
}

static double rate_of(const struct topo *t, const char *options, size_t n_bytes, enum collective c)
{
    struct plan_request q = {.collective = c,
                             .n_ranks = t->n_devices,
                             .root = c == COLL_ALLREDUCE ? -1 : 0,
                             .n_bytes = n_bytes,
                             .options = options};
    struct plan *p;
    double rate;

    cr_assert_eq(plan_create("treepack", t, &q, &p), ST_OK);
    rate = 1 / plan_link_seconds_per_byte(p, t);
    plan_destroy(p);
    return rate;
}

/* NVLink at 22 GB/s a lane and PCIe at 4.8 GB/s, as measured in Blink's appendix. */
static struct topo *measured(const int *ranks, int n)
{
    char path[512];
    struct topo *t, *s;

    (void)snprintf(path, sizeof path, "%s/topologies/dgx1v.topo", TEST_SOURCE_DIR);
    cr_assert_eq(topo_read(path, &t), ST_OK);
    for (int i = 0; i < t->n_links; i++) {
        struct topo_link *l = &t->links[i];
        l->bytes_per_s = l->kind[0] == 'n' ? l->lanes * 22000000000LL : 4800000000LL;
    }
    cr_assert_eq(topo_subset(t, ranks, n, &s), ST_OK);
    topo_destroy(t);
    return s;
}

Test(hybrid, adds_the_rate_of_pcie_to_that_of_nvlink)
{
    static const int full[] = {0, 1, 3}, partly[] = {0, 1, 4};
    struct topo *t = measured(full, 3), *s = measured(partly, 3);

    cr_assert_float_eq(rate_of(t, "hybrid=nvlink", 0, COLL_BROADCAST), 48.4e9, 0.03 * 48.4e9);
    cr_assert_float_eq(rate_of(s, "hybrid=nvlink", 0, COLL_BROADCAST), 26.4e9, 0.03 * 26.4e9);
    topo_destroy(t);
    topo_destroy(s);
    cr_assert_eq(mem_live(), 0);
}

Test(hybrid, leaves_pcie_alone_where_switching_costs_too_much)
{
    static const int ranks[] = {0, 1, 4}, apart[] = {0, 1, 6};
    struct topo *t = measured(ranks, 3), *s = measured(apart, 3);

    /* 1 MB over NVLink takes 45 us: a switch of 50 us does not pay, one of 5 us does. */
    cr_assert_float_eq(rate_of(t, "hybrid=nvlink switch-us=50", 1000000, COLL_BROADCAST), 22e9,
                       1e3);
    cr_assert_gt(rate_of(t, "hybrid=nvlink switch-us=5", 1000000, COLL_BROADCAST), 22.1e9);
    /* Without a way over NVLink all goes over PCIe. */
    cr_assert_float_eq(rate_of(s, "hybrid=nvlink switch-us=50", 1000000, COLL_BROADCAST), 4.8e9,
                       1e3);
    topo_destroy(t);
    topo_destroy(s);
}

static struct topo *machine_of(const char *name)
{
    char path[512];
    struct topo *t;

    (void)snprintf(path, sizeof path, "%s/topologies/%s.topo", TEST_SOURCE_DIR, name);
    cr_assert_eq(topo_read(path, &t), ST_OK);
    return t;
}

Test(phases, reach_no_more_than_one_forest)
{
    static const char *const names[] = {"h100x2", "a100x4", "dgx1vx2"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct topo *t = machine_of(names[i]);
        double phases = rate_of(t, "three-phase", 0, COLL_ALLREDUCE);
        double forest = rate_of(t, "", 0, COLL_ALLREDUCE);
        cr_assert_leq(phases, forest * (1 + 1e-9), "%s", names[i]);
        cr_assert_geq(phases, forest * 0.1, "%s: %g of %g", names[i], phases, forest);
        topo_destroy(t);
    }
    cr_assert_eq(mem_live(), 0);
}

Test(options, that_make_no_sense_are_refused)
{
    static const char *const bad[] = {"mwv",     "k=0",          "k=",    "eps=2",  "eps=x",
                                      "hybrid=", "switch-us=-1", "k=1,2", "exact!", "threshold=1"};
    struct treepack_options o;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(treepack_options_read(bad[i], &o), ST_INPUT, "%s", bad[i]);
    }
    cr_assert_eq(treepack_options_read("  mwu eps=0.2  threshold=0.01 ", &o), ST_OK);
    cr_assert(o.mwu && o.epsilon == 0.2 && o.threshold == 0.01);
    cr_assert_eq(treepack_options_read(NULL, &o), ST_OK);
    cr_assert(!o.mwu && !o.phases && o.k == 0);
}
