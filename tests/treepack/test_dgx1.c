/*
 * Every connected class of sub-topologies of DGX-1P and DGX-1V with 3 to 8 GPUs: the bounds equal a
 * brute force and the numbers in dgx1_classes.csv, and broadcasts are packed from every root.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "classes.h"
#include "comm/treepack/bound.h"
#include "comm/treepack/pack.h"
#include "comm/treepack/strength.h"
#include "topo/topo.h"

/* By brute force, in lanes. */
static int64_t least_cut(const struct sub *s)
{
    int64_t best = INT64_MAX;

    for (unsigned side = 1; side < (1U << s->n) - 1; side++) {
        int64_t c = 0;
        for (int i = 0; i < s->n; i++) {
            for (int j = 0; j < s->n; j++) {
                c += (side >> i & 1) && !(side >> j & 1) ? s->lanes[i][j] : 0;
            }
        }
        best = c < best ? c : best;
    }
    return best;
}

static void try_partitions(const struct sub *s, int *part, int k, int n_parts, struct frac *best)
{
    if (k < s->n) {
        for (int p = 0; p <= n_parts; p++) {
            part[k] = p;
            try_partitions(s, part, k + 1, p == n_parts ? n_parts + 1 : n_parts, best);
        }
        return;
    }
    if (n_parts > 1) {
        int64_t c = 0;
        for (int i = 0; i < s->n; i++) {
            for (int j = 0; j < i; j++) {
                c += part[i] != part[j] ? s->lanes[i][j] : 0;
            }
        }
        struct frac f = frac_make(c, n_parts - 1);
        if (frac_compare(f, *best) < 0) {
            *best = f;
        }
    }
}

static struct frac least_quotient(const struct sub *s)
{
    struct frac best = {INT32_MAX, 1};
    int part[8];

    try_partitions(s, part, 0, 0, &best);
    return best;
}

/* Units of the lattice as lanes. */
static struct frac in_lanes(const struct lattice *l, struct frac rate, int64_t lane)
{
    return frac_make(rate.num * l->unit.num, rate.den * l->unit.den * lane);
}

static void check_broadcast(const struct lattice *l, const struct sub *s, int64_t lane)
{
    for (int root = 0; root < s->n; root++) {
        struct bound b;
        struct packing p;
        int64_t demand[8] = {0}, sum = 0;
        cr_assert_eq(bound_broadcast(l, root, &b), ST_OK);
        cr_assert_eq(frac_compare(in_lanes(l, b.rate, lane), (struct frac){least_cut(s), 1}), 0);
        demand[root] = b.rate.num;
        cr_assert_eq(pack_trees(l, demand, &(struct pack_how){0}, &p), ST_OK);
        for (size_t i = 0; i < p.n; i++) {
            sum += p.trees[i].weight;
        }
        cr_assert_eq(sum, b.rate.num);
        packing_fini(&p);
        bound_fini(&b);
    }
}

static struct frac check_strength(const struct topo *t, const struct lattice *l,
                                  const struct sub *s, int64_t lane)
{
    struct frac found;
    int64_t held[64][2];
    int edges[64], rev[64], n = 0;
    struct bound b;

    cr_assert(lattice_pair(l, t, rev));
    for (int i = 0; i < l->m; i++) {
        if (rev[i] > i) {
            edges[n++] = i;
        }
    }
    cr_assert_eq(strength_bound(l, edges, n, 0, &b, held), ST_OK);
    found = in_lanes(l, b.rate, lane);
    cr_assert_eq(frac_compare(found, least_quotient(s)), 0);
    bound_fini(&b);
    return found;
}

/* The row of a machine and of GPUs in dgx1_classes.csv. False if there is none. */
static bool find_row(const char *name, const struct sub *s, int *broadcast, struct frac *allreduce)
{
    char line[128], wanted[64], gpus[32] = "";
    FILE *f = fopen(TEST_SOURCE_DIR "/tests/treepack/dgx1_classes.csv", "r");
    bool found = false;

    cr_assert_not_null(f);
    for (int i = 0; i < s->n; i++) {
        (void)snprintf(gpus + strlen(gpus), sizeof gpus - strlen(gpus), "%s%d", i > 0 ? " " : "",
                       s->ranks[i]);
    }
    (void)snprintf(wanted, sizeof wanted, "%s,%s,", name, gpus);
    while (!found && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, wanted, strlen(wanted)) == 0) {
            int num = 0, den = 1;
            cr_assert_geq(sscanf(line + strlen(wanted), "%d,%d/%d", broadcast, &num, &den), 2, "%s",
                          line);
            *allreduce = frac_make(num, den);
            found = true;
        }
    }
    (void)fclose(f);
    return found;
}

static void check_file(const char *name, const struct lattice *l, const struct sub *s, int64_t lane,
                       struct frac strength)
{
    int broadcast;
    struct frac allreduce;
    struct bound b;

    cr_assert(find_row(name, s, &broadcast, &allreduce), "%s: a class is not in the file", name);
    cr_assert_eq(bound_broadcast(l, 0, &b), ST_OK);
    cr_assert_eq(frac_compare(in_lanes(l, b.rate, lane), (struct frac){broadcast, 1}), 0);
    cr_assert_eq(frac_compare(strength, allreduce), 0);
    bound_fini(&b);
}

static void check_machine(const char *name, int expected, int64_t lane)
{
    struct machine m;
    struct sub list[64];
    char path[512];
    int n;

    (void)snprintf(path, sizeof path, "%s/topologies/%s.topo", TEST_SOURCE_DIR, name);
    cr_assert_eq(machine_open(&m, path), ST_OK);
    n = classes(&m, list);
    cr_assert_eq(n, expected, "%s: %d classes", name, n);
    for (int i = 0; i < n; i++) {
        struct topo *t;
        struct lattice *l;
        cr_assert_eq(topo_subset(m.t, list[i].ranks, list[i].n, &t), ST_OK);
        cr_assert_eq(lattice_create(t, &l), ST_OK);
        cr_assert_eq(l->n, list[i].n, "switches without links are dropped");
        check_broadcast(l, &list[i], lane);
        check_file(name, l, &list[i], lane, check_strength(t, l, &list[i], lane));
        lattice_destroy(l);
        topo_destroy(t);
    }
    topo_destroy(m.t);
    cr_assert_eq(mem_live(), 0);
}

Test(dgx1, p100_bounds_equal_brute_force_and_the_file)
{
    check_machine("dgx1p", 14, 20000000000);
}

Test(dgx1, v100_bounds_equal_brute_force_and_the_file)
{
    check_machine("dgx1v", 46, 25000000000);
}
