/*
 * machines: whole plans on large machines, one CSV line each: the time of the bound alone and of
 * the plan, both with the reading of the lattice, its rate beside the bound, trees and depths. The
 * cluster of 128 boxes of 8 H100 is made here, as h100x8 is with 8.
 */
#include <stdio.h>

#include "base/clock.h"
#include "comm/treepack/choose.h"
#include "topo/topo.h"

enum {
    BOXES = 128,
    GPUS = 8
};

static enum status both_ways(struct topo *t, const char *from, const char *to, int64_t gbs,
                             int64_t latency_ns, const char *kind)
{
    struct topo_link l = {.from = topo_find_vertex(t, from),
                          .to = topo_find_vertex(t, to),
                          .bytes_per_s = gbs * 1000000000,
                          .latency_ns = latency_ns,
                          .lanes = 1,
                          .kind = (char *)kind};

    TRY(topo_add_link(t, &l));
    l.from = topo_find_vertex(t, to);
    l.to = topo_find_vertex(t, from);
    return topo_add_link(t, &l);
}

static enum status add_box(struct topo *t, int box)
{
    char hub[32], gpu[32], nic[32];

    (void)snprintf(hub, sizeof hub, "s%d.nvswitch", box);
    TRY(topo_add_vertex(t, hub, TOPO_SWITCH, NULL));
    for (int i = 0; i < GPUS; i++) {
        (void)snprintf(gpu, sizeof gpu, "s%d.gpu%d", box, i);
        (void)snprintf(nic, sizeof nic, "s%d.nic%d", box, i);
        TRY(topo_add_vertex(t, gpu, TOPO_GPU, NULL));
        TRY(topo_add_vertex(t, nic, TOPO_NIC, NULL));
        TRY(both_ways(t, gpu, hub, 450, 800, "nvlink"));
        TRY(both_ways(t, gpu, nic, 50, 1000, "pcie"));
        TRY(both_ways(t, nic, "ib", 50, 2000, "ib"));
    }
    return ST_OK;
}

static enum status make_cluster(struct topo **out)
{
    struct topo *t;
    enum status st;

    TRY(topo_create("h100x128", "128 servers of 8 H100", &t));
    st = topo_add_vertex(t, "ib", TOPO_NET, NULL);
    for (int box = 0; box < BOXES && st == ST_OK; box++) {
        st = add_box(t, box);
    }
    if (st != ST_OK) {
        topo_destroy(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

/* Seconds for the lattice and the bound alone. */
static enum status time_bound(const struct topo *t, const struct solve_request *q, double *seconds)
{
    double begin = clock_now_s();
    struct lattice *l = NULL;
    struct bound b;
    enum status st = lattice_create(t, &l);

    if (st == ST_OK) {
        st = q->kind == SOLVE_BROADCAST ? bound_broadcast(l, q->root, &b) : bound_allgather(l, &b);
    }
    if (st == ST_OK) {
        bound_fini(&b);
    }
    lattice_destroy(l);
    *seconds = clock_now_s() - begin;
    return st;
}

static double mean_of_trees(const struct solution *s)
{
    double sum = 0;

    for (size_t i = 0; i < s->down.n; i++) {
        sum += packing_depth(&s->down, s->down_l, i);
    }
    return s->down.n > 0 ? sum / (double)s->down.n : 0;
}

static enum status plan(const struct topo *t, const char *collective, struct solve_request q)
{
    struct pareto p;
    const struct candidate *c;
    double bound_s, begin, plan_s;

    TRY(time_bound(t, &q, &bound_s));
    begin = clock_now_s();
    TRY(pareto_create(t, &q, &p));
    plan_s = clock_now_s() - begin;
    c = pareto_pick(&p, 0, 3e-6);
    (void)printf("%s,%d,%s,%lld,%.4f,%.4f,%.6g,%.6g,%.4f,%zu,%zu,%d,%.2f\n", t->name, t->n_devices,
                 collective, (long long)q.fixed_k, bound_s, plan_s, 1e-9 * c->rate_bytes_per_s,
                 1e-9 * lattice_rate(c->solution.whole, c->solution.bound.rate),
                 c->rate_bytes_per_s / lattice_rate(c->solution.whole, c->solution.bound.rate),
                 c->n_trees, c->n_per_root, c->depth, mean_of_trees(&c->solution));
    (void)fflush(stdout);
    pareto_fini(&p);
    return ST_OK;
}

static enum status shipped(const char *name, int64_t k)
{
    struct topo *t;
    enum status st;

    TRY(topo_open(name, &t));
    st = plan(t, "allgather", (struct solve_request){.kind = SOLVE_ALLGATHER, .fixed_k = k});
    topo_destroy(t);
    return st;
}

static enum status cluster(void)
{
    struct topo *t;
    enum status st;

    TRY(make_cluster(&t));
    st = plan(t, "allgather", (struct solve_request){.kind = SOLVE_ALLGATHER});
    if (st == ST_OK) {
        st = plan(t, "allreduce", (struct solve_request){.kind = SOLVE_ALLREDUCE});
    }
    if (st == ST_OK) {
        st = plan(t, "broadcast", (struct solve_request){.kind = SOLVE_BROADCAST});
    }
    topo_destroy(t);
    return st;
}

int main(void)
{
    static const char *const names[] = {"dgx-a100", "a100x2",   "a100x4",  "h100x2",
                                        "h100x8",   "mi250-16", "mi250-32"};
    enum status st = ST_OK;

    (void)printf("machine,devices,collective,trees_per_root_allowed,bound_s,plan_s,rate_gbs,"
                 "bound_gbs,of_bound,trees,most_per_root,depth,mean_depth\n");
    for (size_t i = 0; i < sizeof names / sizeof names[0] && st == ST_OK; i++) {
        st = shipped(names[i], 0);
    }
    for (int64_t k = 1; k <= 4 && st == ST_OK; k++) {
        st = shipped("mi250-32", k);
    }
    return status_exit_code(st == ST_OK ? cluster() : st);
}
