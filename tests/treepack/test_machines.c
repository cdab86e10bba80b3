/* The shipped machines: their optima, by the closed forms that hold for them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "comm/treepack/choose.h"
#include "comm/treepack/solve.h"
#include "topo/topo.h"

static struct topo *machine(const char *name, const char *kinds)
{
    char path[512];
    struct topo *t, *s;

    (void)snprintf(path, sizeof path, "%s/topologies/%s.topo", TEST_SOURCE_DIR, name);
    cr_assert_eq(topo_read(path, &t), ST_OK, "%s", name);
    if (kinds == NULL) {
        return t;
    }
    cr_assert_eq(topo_keep_links(t, kinds, &s), ST_OK);
    topo_destroy(t);
    return s;
}

/* No link may carry more than its capacity when the message moves at the rate of the solution. */
static void check_loads(const struct topo *t, const struct solution *s)
{
    double *load = mem_alloc((size_t)t->n_links, sizeof *load);
    double rate = lattice_rate(s->whole, s->rate);

    for (int pass = 0; pass < 2; pass++) {
        const struct packing *p = pass == 0 ? &s->up : &s->down;
        const struct lattice *l = pass == 0 ? s->up_l : s->down_l;
        int64_t sum = 0;
        for (size_t i = 0; i < p->n; i++) {
            sum += p->trees[i].weight;
        }
        for (size_t i = 0; i < p->n; i++) {
            int arcs = 0;
            for (int v = 0; v < p->n_dev; v++) {
                int a = p->trees[i].arc[v];
                cr_assert_eq(a < 0, v == p->trees[i].root);
                arcs += a >= 0;
                for (int k = 0; a >= 0 && k < l->arcs[a].n_links; k++) {
                    load[l->arcs[a].links[k]] += rate * (double)p->trees[i].weight / (double)sum;
                }
            }
            cr_assert_eq(arcs, p->n_dev - 1);
            cr_assert_leq(packing_depth(p, l, i), p->n_dev - 1, "a cycle");
        }
    }
    for (int i = 0; i < t->n_links; i++) {
        cr_assert_leq(load[i], (double)t->links[i].bytes_per_s * (1 + 1e-9), "link %d of %s", i,
                      t->name);
    }
    mem_free(load);
}

struct optimum {
    const char *name, *kinds;
    enum solve_kind kind;
    bool reversed;
    double gbs;
    int depth; /* of the exact packing, at most */
};

static const struct optimum optima[] = {
    {"dgx1p", "nvlink", SOLVE_BROADCAST, false, 80, 7},
    {"dgx1p", "nvlink", SOLVE_ALLREDUCE, false, 20 * 16.0 / 7, 7},
    {"dgx1v", "nvlink", SOLVE_BROADCAST, true, 150, 7},
    {"dgx1v", "nvlink", SOLVE_ALLGATHER, false, 1200 / 7.0, 7},
    {"dgx1v", "nvlink", SOLVE_ALLREDUCE, false, 600 / 7.0, 7},
    {"dgx2", NULL, SOLVE_BROADCAST, false, 150, 2},
    {"dgx2", NULL, SOLVE_ALLREDUCE, false, 80, 1},
    {"dgx-a100", NULL, SOLVE_ALLGATHER, true, 2400 / 7.0, 1},
    {"dgx-a100", NULL, SOLVE_ALLREDUCE, false, 1200 / 7.0, 1},
    {"dgx-h100", NULL, SOLVE_BROADCAST, true, 450, 2},
    {"dgx-h100", NULL, SOLVE_ALLREDUCE, false, 1800 / 7.0, 1},
    {"nvl72", NULL, SOLVE_ALLREDUCE, false, 900 * 72 / 142.0, 1},
    {"a100x2", NULL, SOLVE_ALLGATHER, false, 325 * 16 / 15.0, 7},
    {"h100x2", NULL, SOLVE_ALLREDUCE, false, 800 / 3.0, 4},
    {"h100x8", NULL, SOLVE_ALLREDUCE, false, 1600 / 7.0, 2},
    {"mi250-16", NULL, SOLVE_ALLGATHER, false, 2400 / 7.0, 15},
    {"mi250-16", NULL, SOLVE_ALLREDUCE, false, 1200 / 7.0, 15},
    {"pcie4", NULL, SOLVE_ALLREDUCE, false, 21, 3},
    {"pcie8", NULL, SOLVE_ALLREDUCE, false, 18, 7},
};

Test(machines, exact_packings_reach_their_bounds)
{
    for (size_t i = 0; i < sizeof optima / sizeof optima[0]; i++) {
        const struct optimum *o = &optima[i];
        struct topo *t = machine(o->name, o->kinds);
        struct solve_request q = {.kind = o->kind, .reversed = o->reversed, .root = 1};
        struct solution s;
        cr_assert_eq(solve(t, &q, &s), ST_OK, "%s", o->name);
        cr_assert_eq(frac_compare(s.rate, s.bound.rate), 0, "%s", o->name);
        cr_assert_float_eq(lattice_rate(s.whole, s.rate), 1e9 * o->gbs, 1.0, "%s: %.9g", o->name,
                           lattice_rate(s.whole, s.rate));
        for (size_t k = 0; k < s.down.n; k++) {
            cr_assert_leq(packing_depth(&s.down, s.down_l, k), o->depth, "%s", o->name);
        }
        check_loads(t, &s);
        solution_fini(&s);
        topo_destroy(t);
        cr_assert_eq(mem_live(), 0);
    }
}

Test(machines, dgx1v_broadcasts_over_six_trees_at_most)
{
    struct topo *t = machine("dgx1v", "nvlink");

    for (int root = 0; root < 8; root++) {
        struct solve_request q = {.kind = SOLVE_BROADCAST, .root = root};
        struct pareto p;
        cr_assert_eq(pareto_create(t, &q, &p), ST_OK);
        const struct candidate *c = pareto_pick(&p, 0, 1e-6);
        cr_assert_float_eq(c->rate_bytes_per_s, 150e9, 1.0);
        cr_assert_leq(c->n_trees, 6);
        pareto_fini(&p);
    }
    topo_destroy(t);
}

Test(machines, no_point_of_a_pareto_set_beats_another)
{
    struct topo *t = machine("dgx1v", "nvlink");
    struct solve_request q = {.kind = SOLVE_ALLREDUCE};
    struct pareto p;

    cr_assert_eq(pareto_create(t, &q, &p), ST_OK);
    for (size_t i = 0; i < p.n; i++) {
        for (size_t j = 0; j < p.n; j++) {
            const struct candidate *a = &p.points[i], *b = &p.points[j];
            cr_assert(i == j || frac_compare(a->solution.rate, b->solution.rate) > 0 ||
                      a->depth < b->depth || a->mean_depth < b->mean_depth ||
                      a->n_trees < b->n_trees);
        }
    }
    pareto_fini(&p);
    topo_destroy(t);
}

Test(machines, fewer_trees_cost_no_more_than_promised)
{
    struct topo *t = machine("a100x2", NULL);
    struct solve_request q = {.kind = SOLVE_ALLGATHER};

    for (q.fixed_k = 1; q.fixed_k <= 4; q.fixed_k++) {
        struct solution s;
        cr_assert_eq(solve(t, &q, &s), ST_OK);
        int64_t smallest = INT64_MAX;
        for (int i = 0; i < s.whole->m; i++) {
            smallest = s.whole->arcs[i].cap < smallest ? s.whole->arcs[i].cap : smallest;
        }
        double x = (double)s.bound.rate.num / (double)s.bound.rate.den / 16;
        double got = (double)s.rate.num / (double)s.rate.den / 16;
        cr_assert_leq(got, x);
        cr_assert_geq(got * (1 + x / (double)(q.fixed_k * smallest)), x * (1 - 1e-12));
        check_loads(t, &s);
        solution_fini(&s);
    }
    topo_destroy(t);
}

Test(machines, four_trees_per_die_come_within_three_percent)
{
    struct topo *t = machine("mi250-32", NULL);
    struct solve_request q = {.kind = SOLVE_ALLGATHER, .fixed_k = 4};
    struct pareto p;

    cr_assert_eq(pareto_create(t, &q, &p), ST_OK);
    const struct candidate *c = pareto_pick(&p, 0, 1e-6);
    cr_assert_leq(c->n_per_root, 4);
    cr_assert_geq(c->rate_bytes_per_s,
                  0.97 * lattice_rate(c->solution.whole, c->solution.bound.rate));
    cr_assert_leq(c->mean_depth, 7.1);
    check_loads(t, &c->solution);
    pareto_fini(&p);
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

Test(machines, exact_plans_of_many_dies_are_shallow)
{
    struct topo *t = machine("mi250-32", NULL);
    struct solve_request q = {.kind = SOLVE_ALLGATHER};
    struct pareto p;

    cr_assert_eq(pareto_create(t, &q, &p), ST_OK);
    const struct candidate *c = pareto_pick(&p, 0, 1e-6);
    double sum = 0;
    cr_assert_eq(frac_compare(c->solution.rate, c->solution.bound.rate), 0);
    for (size_t i = 0; i < c->solution.down.n; i++) {
        sum += packing_depth(&c->solution.down, c->solution.down_l, i);
    }
    cr_assert_leq(sum / (double)c->n_trees, 7.1);
    check_loads(t, &c->solution);
    pareto_fini(&p);
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

/* `boxes` boxes of `size` devices around a switch; every device has a port into one of `planes`
 * networks. */
static struct topo *cluster(int boxes, int size, int planes)
{
    size_t room = 1 << 18, n = 0;
    char *text = mem_alloc(room, 1);
    struct topo *t;

    n += (size_t)snprintf(text + n, room - n, "topology cluster\n");
    for (int b = 0; b < boxes; b++) {
        n += (size_t)snprintf(text + n, room - n, "switch s%d\n", b);
        for (int i = 0; i < size; i++) {
            n += (size_t)snprintf(text + n, room - n, "device d%d.%d\nnic n%d.%d\n", b, i, b, i);
        }
    }
    for (int i = 0; i < planes; i++) {
        n += (size_t)snprintf(text + n, room - n, "net net%d\n", i);
    }
    for (int b = 0; b < boxes; b++) {
        for (int i = 0; i < size; i++) {
            n += (size_t)snprintf(text + n, room - n,
                                  "link d%d.%d s%d 9 GB/s\nlink d%d.%d n%d.%d 1 GB/s\n"
                                  "link n%d.%d net%d 1 GB/s\n",
                                  b, i, b, b, i, b, i, b, i, i % planes);
        }
    }
    cr_assert_lt(n, room);
    cr_assert_eq(topo_parse("cluster", text, n, &t), ST_OK);
    mem_free(text);
    return t;
}

/* One hop into the first box, then two for each level of boxes, and some inside the root's. */
static int depth_of_levels(int boxes, int fan)
{
    int depth = 6, reached = 1;

    for (int level = fan; fan > 1 && reached < boxes - 1; level *= fan) {
        reached += level;
        depth += 2;
    }
    return fan > 1 ? depth : 2 * boxes + 2;
}

Test(machines, broadcasts_over_many_boxes_are_shallow)
{
    static const int sizes[][3] = {{3, 8, 1}, {7, 4, 1},  {9, 8, 2},  {17, 4, 2},
                                   {9, 2, 1}, {30, 3, 1}, {10, 4, 4}, {40, 8, 1}};

    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        int boxes = sizes[k][0], size = sizes[k][1], planes = sizes[k][2];
        struct topo *t = cluster(boxes, size, planes);
        for (int reversed = 0; reversed < 2; reversed++) {
            struct solve_request q = {
                .kind = SOLVE_BROADCAST, .reversed = reversed == 1, .root = size + 1};
            struct solution s;
            cr_assert_eq(solve(t, &q, &s), ST_OK);
            const struct packing *p = reversed == 1 ? &s.up : &s.down;
            const struct lattice *l = reversed == 1 ? s.up_l : s.down_l;
            cr_assert_float_eq(lattice_rate(s.whole, s.rate), 1e9 * size, 1.0);
            cr_assert_eq(p->n, (size_t)size);
            for (size_t i = 0; i < p->n; i++) {
                cr_assert_leq(packing_depth(p, l, i), depth_of_levels(boxes, size / planes),
                              "%d boxes of %d, %d planes", boxes, size, planes);
            }
            check_loads(t, &s);
            solution_fini(&s);
        }
        topo_destroy(t);
        cr_assert_eq(mem_live(), 0);
    }
}

Test(machines, a_broadcast_over_boxes_without_memory_does_not_leak)
{
    struct topo *t = cluster(6, 3, 1);
    struct solve_request q = {.kind = SOLVE_BROADCAST};
    size_t live = mem_live();
    enum status st = ST_NOMEM;

    for (size_t k = 1; st != ST_OK; k++) {
        struct solution s = {0};
        mem_fail_at(k);
        st = solve(t, &q, &s);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        solution_fini(&s);
        cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
    }
    topo_destroy(t);
}

Test(machines, every_failing_allocation_is_reported_without_a_leak)
{
    static const char *const texts[] = {
        "topology t\ndevice a b c\nlink a b 1 B/s\nlink b c 2 B/s\nlink c a 1 B/s\n",
        ("topology t\ndevice a b c\nswitch s n\nlink a s 2 B/s\nlink b s 2 B/s\nlink c n 2 B/s\n"
         "link n s 2 B/s\n"),
        "topology t\ndevice a b c\noneway a b 3 B/s\nlink b c 2 B/s\noneway c a 1 B/s\n",
    };

    for (size_t m = 0; m < sizeof texts / sizeof texts[0]; m++) {
        char text[256];
        struct topo *t;
        (void)snprintf(text, sizeof text, "%s", texts[m]);
        cr_assert_eq(topo_parse("text", text, strlen(texts[m]), &t), ST_OK);
        for (int kind = SOLVE_BROADCAST; kind <= SOLVE_ALLREDUCE; kind++) {
            struct solve_request q = {.kind = (enum solve_kind)kind};
            size_t live = mem_live();
            enum status st = ST_NOMEM;
            for (size_t k = 1; st != ST_OK; k++) {
                struct pareto p = {0};
                mem_fail_at(k);
                st = pareto_create(t, &q, &p);
                mem_fail_at(0);
                cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
                pareto_fini(&p);
                cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
            }
        }
        topo_destroy(t);
    }
}
