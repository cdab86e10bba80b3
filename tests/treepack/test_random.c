/*
 * Random lattices of 3 to 8 devices and 0 to 3 switches: every packing reaches its bound, and the
 * bound is what trying all cuts or partitions gives.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "comm/treepack/solve.h"
#include "topo/topo.h"

struct dice {
    struct rng rng;
    uint64_t at;
};

static int roll(struct dice *d, int n)
{
    return (int)rng_below(&d->rng, d->at++, (uint64_t)n);
}

static bool has_link(const struct topo *t, int a, int b)
{
    return topo_find_link(t, a, b) >= 0;
}

static void add_link(struct topo *t, int a, int b, int cap)
{
    struct topo_link l = {.from = a, .to = b, .bytes_per_s = cap, .kind = (char *)"link"};

    if (a != b && !has_link(t, a, b)) {
        cr_assert_eq(topo_add_link(t, &l), ST_OK);
    }
}

static void add_both(struct topo *t, int a, int b, int cap)
{
    add_link(t, a, b, cap);
    add_link(t, b, a, cap);
}

/* A cycle through all vertices of one capacity keeps every switch balanced. */
static void add_cycle(struct topo *t, struct dice *d, int n, int cap)
{
    int order[16];

    for (int i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int i = n - 1; i > 0; i--) {
        int j = roll(d, i + 1), x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
    for (int i = 0; i < n; i++) {
        int a = order[i], b = order[(i + 1) % n], link = topo_find_link(t, a, b);
        if (link >= 0) {
            t->links[link].bytes_per_s += cap;
        } else {
            add_link(t, a, b, cap);
        }
    }
}

static struct topo *make(struct dice *d, bool symmetric, int n_dev, int n_switch)
{
    struct topo *t;
    int n = n_dev + n_switch;
    char name[16];

    cr_assert_eq(topo_create("random", "", &t), ST_OK);
    for (int v = 0; v < n; v++) {
        (void)snprintf(name, sizeof name, "v%d", v);
        cr_assert_eq(topo_add_vertex(t, name, v < n_dev ? TOPO_GPU : TOPO_SWITCH, NULL), ST_OK);
    }
    if (symmetric) {
        for (int v = 1; v < n; v++) {
            add_both(t, v, roll(d, v), 1 + roll(d, 4)); /* connected */
        }
        for (int k = roll(d, 2 * n); k > 0; k--) {
            add_both(t, roll(d, n), roll(d, n), 1 + roll(d, 4));
        }
        return t;
    }
    for (int k = 1 + roll(d, 4); k > 0; k--) {
        add_cycle(t, d, n, 1 + roll(d, 3));
    }
    for (int k = roll(d, 2 * n); k > 0; k--) {
        add_link(t, roll(d, n_dev), roll(d, n_dev), 1 + roll(d, 4));
    }
    return t;
}

/* What leaves a set of vertices. */
static int64_t out_of(const struct topo *t, unsigned set)
{
    int64_t sum = 0;

    for (int i = 0; i < t->n_links; i++) {
        if ((set >> t->links[i].from & 1) && !(set >> t->links[i].to & 1)) {
            sum += t->links[i].bytes_per_s;
        }
    }
    return sum;
}

static int64_t into(const struct topo *t, unsigned set)
{
    return out_of(t, ~set & ((1U << t->n_vertices) - 1));
}

static struct frac brute_broadcast(const struct topo *t, int root, bool reversed)
{
    unsigned devices = (1U << t->n_devices) - 1;
    int64_t best = INT64_MAX;

    for (unsigned set = 1; set < 1U << t->n_vertices; set++) {
        if ((set >> root & 1) && (set & devices) != devices) {
            int64_t c = reversed ? into(t, set) : out_of(t, set);
            best = c < best ? c : best;
        }
    }
    return frac_make(best, 1);
}

static struct frac brute_allgather(const struct topo *t, bool reversed)
{
    unsigned devices = (1U << t->n_devices) - 1;
    struct frac best = {INT32_MAX, 1};

    for (unsigned set = 1; set < 1U << t->n_vertices; set++) {
        int inside = __builtin_popcount(set & devices);
        if (inside > 0 && inside < t->n_devices) {
            int64_t c = reversed ? into(t, set) : out_of(t, set);
            struct frac f = frac_make(c * t->n_devices, inside);
            best = frac_compare(f, best) < 0 ? f : best;
        }
    }
    return best;
}

static void try_partitions(const struct topo *t, int *part, int k, int n_parts, struct frac *best)
{
    if (k < t->n_devices) {
        for (int p = 0; p <= n_parts; p++) {
            part[k] = p;
            try_partitions(t, part, k + 1, p == n_parts ? n_parts + 1 : n_parts, best);
        }
        return;
    }
    if (n_parts > 1) {
        int64_t c = 0;
        for (int i = 0; i < t->n_links; i++) {
            c += part[t->links[i].from] != part[t->links[i].to] ? t->links[i].bytes_per_s : 0;
        }
        struct frac f = frac_make(c, 2 * (n_parts - 1));
        *best = frac_compare(f, *best) < 0 ? f : *best;
    }
}

/* Exact: the weights of a pass may not load a link beyond rate x load <= capacity. */
static void check_loads(const struct topo *t, const struct solution *s)
{
    int64_t up[128] = {0}, down[128] = {0}, sums[2] = {0, 0};

    for (int pass = 0; pass < 2; pass++) {
        const struct packing *p = pass == 0 ? &s->up : &s->down;
        const struct lattice *l = pass == 0 ? s->up_l : s->down_l;
        for (size_t i = 0; i < p->n; i++) {
            sums[pass] += p->trees[i].weight;
            cr_assert_gt(p->trees[i].weight, 0);
            cr_assert_leq(packing_depth(p, l, i), p->n_dev - 1);
            for (int v = 0; v < p->n_dev; v++) {
                int a = p->trees[i].arc[v];
                cr_assert_eq(a < 0, v == p->trees[i].root);
                for (int k = 0; a >= 0 && k < l->arcs[a].n_links; k++) {
                    (pass == 0 ? up : down)[l->arcs[a].links[k]] += p->trees[i].weight;
                }
            }
        }
    }
    for (int i = 0; i < t->n_links; i++) {
        /* rate (up/sum_up + down/sum_down) <= capacity, in units of the lattice */
        wide a = sums[0] > 0 ? sums[0] : 1, b = sums[1] > 0 ? sums[1] : 1;
        wide load = (up[i] * b + down[i] * a) * s->rate.num * s->whole->unit.num;
        wide room = (wide)t->links[i].bytes_per_s * a * b * s->rate.den * s->whole->unit.den;
        cr_assert(load <= room, "link %d is overloaded", i);
    }
}

static void check(const struct topo *t, enum solve_kind kind, bool reversed, int root,
                  struct frac expected, int number)
{
    struct solve_request q = {.kind = kind, .reversed = reversed, .root = root};
    struct solution s;

    cr_assert_eq(solve(t, &q, &s), ST_OK, "graph %d kind %d", number, (int)kind);
    cr_assert_eq(frac_compare(s.rate, s.bound.rate), 0, "graph %d kind %d: rate below the bound",
                 number, (int)kind);
    struct frac got = frac_make(s.rate.num * s.whole->unit.num, s.rate.den * s.whole->unit.den);
    cr_assert_eq(frac_compare(got, expected), 0,
                 "graph %d kind %d reversed %d root %d: %lld/%lld, all cuts give %lld/%lld", number,
                 (int)kind, reversed, root, (long long)got.num, (long long)got.den,
                 (long long)expected.num, (long long)expected.den);
    check_loads(t, &s);
    solution_fini(&s);
}

/* The certificate of weighted cuts, added up from its definition: does it prove `rate`? */
static void check_certificate(const struct solution *s)
{
    const struct lattice *l = s->whole;
    const struct bound *b = &s->bound;
    int64_t sum = 0, least = INT64_MAX;

    for (int e = 0; e < l->m; e++) {
        int from = l->arcs[e].from, to = l->arcs[e].to;
        int64_t down = b->switch_weight[2 * to] - b->switch_weight[2 * from];
        int64_t up = b->switch_weight[2 * from + 1] - b->switch_weight[2 * to + 1];
        for (int i = 0; i < b->n_cuts; i++) {
            const struct bound_cut *c = &b->cuts[i];
            down += !c->up && !c->inside[from] && c->inside[to] ? c->weight : 0;
            up += c->up && c->inside[from] && !c->inside[to] ? c->weight : 0;
        }
        int64_t k = down > up ? down : up;
        sum += k > 0 ? k * l->arcs[e].cap : 0;
    }
    for (int r = 0; r < l->n_dev; r++) {
        int64_t outside = 0;
        for (int i = 0; i < b->n_cuts; i++) {
            cr_assert_gt(b->cuts[i].weight, 0);
            outside += b->cuts[i].inside[r] ? 0 : b->cuts[i].weight;
        }
        least = outside < least ? outside : least;
    }
    cr_assert_gt(least, 0);
    cr_assert_eq(frac_compare(frac_make(sum, least), b->rate), 0, "the certificate proves less");
}

/* Switches or unequal directions: no list of all certificates exists to compare with, but a
 * feasible packing that a certificate proves to be the best is the optimum. */
static void check_coupled(bool symmetric, int from, int to)
{
    int weighted = 0, solved = 0;

    for (int g = from; g < to; g++) {
        struct dice d = {rng_make(13, RNG_TEST, (uint64_t)g), 0};
        int n_dev = 3 + roll(&d, 6), n_switch = roll(&d, 4);
        struct topo *t = make(&d, symmetric, n_dev, n_switch);
        struct solve_request q = {.kind = SOLVE_ALLREDUCE};
        struct solution s;
        cr_assert_eq(solve(t, &q, &s), ST_OK, "graph %d", g);
        cr_assert_eq(frac_compare(s.rate, s.bound.rate), 0, "graph %d: below the bound", g);
        check_loads(t, &s);
        if (s.bound.kind == BOUND_WEIGHTED_CUTS) {
            check_certificate(&s);
            weighted++;
        }
        solved++;
        solution_fini(&s);
        topo_destroy(t);
    }
    cr_assert_gt(weighted, 0, "no graph needed weighted cuts");
    cr_assert_eq(solved, to - from);
    cr_assert_eq(mem_live(), 0);
}

Test(random_graphs, allreduce_with_switches)
{
    check_coupled(true, 0, 1000);
}

Test(random_graphs, allreduce_with_unequal_directions)
{
    check_coupled(false, 1000, 2000);
}

static void check_graphs(bool symmetric, int from, int to)
{
    for (int g = from; g < to; g++) {
        struct dice d = {rng_make(11, RNG_TEST, (uint64_t)g), 0};
        int n_dev = 3 + roll(&d, 6), n_switch = roll(&d, 4);
        struct topo *t = make(&d, symmetric, n_dev, n_switch);
        int root = roll(&d, n_dev);
        bool reversed = roll(&d, 2) == 1;
        check(t, SOLVE_BROADCAST, reversed, root, brute_broadcast(t, root, reversed), g);
        check(t, SOLVE_ALLGATHER, reversed, 0, brute_allgather(t, reversed), g);
        if (symmetric && n_switch == 0) {
            struct frac best = {INT32_MAX, 1};
            int part[8];
            try_partitions(t, part, 0, 0, &best);
            check(t, SOLVE_ALLREDUCE, false, 0, best, g);
        }
        topo_destroy(t);
    }
    cr_assert_eq(mem_live(), 0);
}

Test(random_graphs, symmetric_ones)
{
    check_graphs(true, 0, 1000);
}

Test(random_graphs, directed_ones)
{
    check_graphs(false, 1000, 2000);
}
