/*
 * packing: every connected class of 3 to 8 GPUs of a DGX-1, one CSV line each. In lanes: the
 * broadcast rate, the allreduce rate, the number of disjoint rings and what they reach; of the
 * exact planner and of multiplicative weights (eps = 0.1) trees, depth, rates and times.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "classes.h"
#include "comm/treepack/choose.h"
#include "comm/treepack/mwu.h"
#include "topo/topo.h"

enum {
    MAX_CYCLES = 2520
};

/* All Hamiltonian cycles, each once: from 0, the second smaller than the last. */
struct cycles {
    int n;
    unsigned char order[MAX_CYCLES][8];
};

static void extend(const struct sub *s, unsigned char *path, int k, unsigned used,
                   struct cycles *out)
{
    if (k == s->n) {
        if (s->lanes[path[k - 1]][path[0]] > 0 && (k < 3 || path[1] < path[k - 1])) {
            memcpy(out->order[out->n++], path, 8);
        }
        return;
    }
    for (unsigned char v = 1; v < s->n; v++) {
        if (!(used >> v & 1) && s->lanes[path[k - 1]][v] > 0) {
            path[k] = v;
            extend(s, path, k + 1, used | 1U << v, out);
        }
    }
}

/* Whether no lane of the cycle is used up. */
static bool fits(const struct sub *s, const unsigned char *order)
{
    for (int i = 0; i < s->n; i++) {
        if (s->lanes[order[i]][order[(i + 1) % s->n]] <= 0) {
            return false;
        }
    }
    return true;
}

static void add_lanes(struct sub *s, const unsigned char *order, int lanes)
{
    for (int i = 0; i < s->n; i++) {
        int a = order[i], b = order[(i + 1) % s->n];
        s->lanes[a][b] += lanes;
        s->lanes[b][a] += lanes;
    }
}

/* The most cycles, from number k on, that share no lane. */
static int most_rings(struct sub *s, const struct cycles *c, int k)
{
    int best = 0;

    for (; k < c->n; k++) {
        int rings;
        if (!fits(s, c->order[k])) {
            continue;
        }
        add_lanes(s, c->order[k], -1);
        rings = 1 + most_rings(s, c, k);
        add_lanes(s, c->order[k], 1);
        best = rings > best ? rings : best;
    }
    return best;
}

struct outcome {
    double rate, ms;
    size_t trees;
    int depth;
};

/* One exact packing, and the choice among all that are tried. */
static enum status exact(const struct topo *t, enum solve_kind kind, double lane,
                         struct outcome *out, double *choice_ms)
{
    struct solve_request q = {.kind = kind};
    struct pareto p;
    struct solution s;
    double begin = clock_now_s();

    TRY(solve(t, &q, &s));
    out->ms = 1e3 * (clock_now_s() - begin);
    solution_fini(&s);
    begin = clock_now_s();
    TRY(pareto_create(t, &q, &p));
    *choice_ms = 1e3 * (clock_now_s() - begin);
    const struct candidate *c = pareto_pick(&p, 0, 3e-6);
    out->rate = c->rate_bytes_per_s / lane;
    out->trees = c->n_trees;
    out->depth = c->depth;
    pareto_fini(&p);
    return ST_OK;
}

static enum status approximate(const struct topo *t, enum solve_kind kind, double lane,
                               struct outcome *raw, struct outcome *reduced, int *den)
{
    const struct mwu_options o = {0.1, 0.05};
    struct solve_request q = {.kind = kind};
    struct mwu_result r;
    double begin = clock_now_s();

    TRY(mwu_pack(t, &q, &o, &r));
    raw->ms = 1e3 * (clock_now_s() - begin);
    raw->rate = lattice_rate(r.l, r.raw_rate) / lane;
    raw->trees = r.raw.n;
    reduced->rate = lattice_rate(r.l, r.reduced_rate) / lane;
    reduced->trees = r.reduced.n;
    *den = r.den;
    mwu_result_fini(&r);
    return ST_OK;
}

static enum status print_class(const struct topo *all, const char *name, struct sub s, double lane)
{
    static struct cycles c;
    struct outcome b, a, raw[2], reduced[2];
    unsigned char path[8] = {0};
    double choice[2];
    int den[2], rings;
    struct topo *t;

    TRY(topo_subset(all, s.ranks, s.n, &t));
    TRY(exact(t, SOLVE_BROADCAST, lane, &b, &choice[0]));
    TRY(exact(t, SOLVE_ALLREDUCE, lane, &a, &choice[1]));
    TRY(approximate(t, SOLVE_BROADCAST, lane, &raw[0], &reduced[0], &den[0]));
    TRY(approximate(t, SOLVE_ALLREDUCE, lane, &raw[1], &reduced[1], &den[1]));
    c.n = 0;
    extend(&s, path, 1, 1, &c);
    rings = most_rings(&s, &c, 0);
    (void)printf("%s,", name);
    for (int i = 0; i < s.n; i++) {
        (void)printf("%s%d", i > 0 ? " " : "", s.ranks[i]);
    }
    (void)printf(",%d,%.4g,%.4g,%d,%.4g,%.4g", s.n, b.rate, a.rate, rings, 2.0 * rings,
                 rings * (double)s.n / (s.n - 1));
    (void)printf(",%zu,%d,%.3f,%.3f,%zu,%d,%.3f,%.3f", b.trees, b.depth, b.ms, choice[0], a.trees,
                 a.depth, a.ms, choice[1]);
    for (int k = 0; k < 2; k++) {
        (void)printf(",%zu,%.4g,%zu,%.4g,%d,%.3f", raw[k].trees, raw[k].rate, reduced[k].trees,
                     reduced[k].rate, den[k], raw[k].ms);
    }
    (void)putchar('\n');
    (void)fflush(stdout);
    topo_destroy(t);
    return ST_OK;
}

static enum status machine(const char *name, double lane)
{
    static struct sub list[64];
    struct machine m;
    enum status st = ST_OK;
    int n;

    TRY(machine_open(&m, name));
    n = classes(&m, list);
    for (int i = 0; i < n && st == ST_OK; i++) {
        st = print_class(m.t, name, list[i], lane);
    }
    topo_destroy(m.t);
    return st;
}

int main(void)
{
    enum status st;

    (void)printf("machine,gpus,n,broadcast_lanes,allreduce_lanes,rings,ring_broadcast_lanes,"
                 "ring_allreduce_lanes,b_trees,b_depth,b_solve_ms,b_choice_ms,a_trees,a_depth,"
                 "a_solve_ms,a_choice_ms,b_mwu_trees,b_mwu_lanes,b_reduced_trees,b_reduced_lanes,"
                 "b_den,b_mwu_ms,a_mwu_trees,a_mwu_lanes,a_reduced_trees,a_reduced_lanes,a_den,"
                 "a_mwu_ms\n");
    st = machine("dgx1p", 20e9);
    if (st == ST_OK) {
        st = machine("dgx1v", 25e9);
    }
    return status_exit_code(st);
}
