/*
 * Splitting at a switch w: m units of u → w and of w → t become m units of u → t.
 *
 *      a     b            a ───── b
 *       \   /              \     /       star with 3 ports of capacity 2:
 *         w         =>       \ /         every pair gets 1 each way
 *         |                   c
 *         c
 *
 * A split is safe while every device still receives the whole demand. The largest safe m is the
 * least of the two capacities and of the slack of the cuts that lose by it: those with u and t on
 * the source's side and w not (they lose u → w), and those with w there and u and t not (they lose
 * w → t).
 */
#include "comm/treepack/split.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/treepack/maxflow.h"
#include "comm/treepack/ports.h"

struct splitter {
    struct lattice *l;
    const int64_t *demand;
    int64_t total;
    int spread;
    struct flow flow;
    int gate; /* first of the arcs that are opened for one question only */
};

/* The network of the demand, with room for `extra` more arcs. */
static enum status build(struct splitter *s, int extra)
{
    const struct lattice *l = s->l;

    TRY(flow_reserve(&s->flow, l->n + 1, 2 * (l->m + l->n_dev + extra)));
    flow_reset(&s->flow, l->n + 1);
    for (int i = 0; i < l->m; i++) {
        if (l->arcs[i].cap > 0) {
            (void)flow_arc(&s->flow, l->arcs[i].from, l->arcs[i].to, l->arcs[i].cap, 0);
        }
    }
    for (int v = 0; v < l->n_dev; v++) {
        (void)flow_arc(&s->flow, l->n, v, s->demand[v], 0);
    }
    return ST_OK;
}

static enum status fits(struct splitter *s, bool *yes)
{
    TRY(build(s, 0));
    flow_save(&s->flow);
    *yes = true;
    for (int v = 0; v < s->l->n_dev && *yes; v++) {
        flow_restore(&s->flow);
        *yes = flow_push(&s->flow, s->l->n, v, s->total) >= s->total;
        /* Cuts that part v from the source are wide enough; from here on only others count. */
        flow_open(&s->flow, s->flow.m / 2 - s->l->n_dev + v);
    }
    return ST_OK;
}

static int64_t sum_of(const int64_t *demand, int n)
{
    int64_t sum = 0;

    for (int v = 0; v < n; v++) {
        sum += demand[v];
    }
    return sum;
}

enum status split_feasible(const struct lattice *l, const int64_t *demand, bool *yes)
{
    struct splitter s = {.demand = demand, .total = sum_of(demand, l->n_dev)};
    enum status st;

    s.l = (struct lattice *)l; /* only read here */
    flow_init(&s.flow);
    st = fits(&s, yes);
    flow_fini(&s.flow);
    return st;
}

/*
 * The least flow from `from` to `to`, minus the demand and at most `limit`, with free arcs
 * `from` → source and u → t. The sink's side must hold a device: if `any` is set, each device but u
 * and t in turn is tied to it.
 */
static enum status least_slack(struct splitter *s, int u, int t, int from, int to, bool any,
                               int64_t limit, int64_t *slack)
{
    int n_dev = s->l->n_dev, gate;

    TRY(build(s, n_dev + 2));
    (void)flow_arc(&s->flow, from, s->l->n, FLOW_INF, 0);
    if (u != t) {
        (void)flow_arc(&s->flow, u, t, FLOW_INF, 0);
    }
    gate = s->flow.m;
    for (int v = 0; v < n_dev; v++) {
        (void)flow_arc(&s->flow, v, to, 0, 0);
    }
    flow_save(&s->flow);
    *slack = limit;
    for (int v = 0; v<n_dev && * slack> 0; v++) {
        int64_t got;
        if (any && (v == u || v == t)) {
            continue;
        }
        flow_restore(&s->flow);
        if (any) {
            s->flow.cap[gate + 2 * v] = FLOW_INF;
        }
        got = flow_push(&s->flow, from, to, s->total + *slack) - s->total;
        *slack = got < *slack ? got : *slack;
        if (!any) {
            break;
        }
    }
    return ST_OK;
}

/* Split as many units as is safe, at most `want`, off the arcs `a` into and `b` out of a switch. */
static enum status split_pair(struct splitter *s, int a, int b, int64_t want, int64_t *done)
{
    struct lattice *l = s->l;
    int u = l->arcs[a].from, w = l->arcs[a].to, t = l->arcs[b].to;
    int64_t m = want;

    m = l->arcs[a].cap < m ? l->arcs[a].cap : m;
    m = l->arcs[b].cap < m ? l->arcs[b].cap : m;
    *done = 0;
    if (m > 0) {
        TRY(least_slack(s, u, t, u, w, true, m, &m));
    }
    if (m > 0) {
        TRY(least_slack(s, u, t, w, t, u >= l->n_dev && t >= l->n_dev, m, &m));
    }
    if (m > 0) {
        TRY(ports_join_more(l, a, b, m));
        *done = m;
    }
    return ST_OK;
}

/* How much of the arcs to join at a time. */
static int64_t quantum(const struct splitter *s, const struct ports *p, int a, int b)
{
    return s->spread > 0 ? (ports_start(p, a) + s->spread - 1) / s->spread
                         : ports_quantum(p, s->l, a, b);
}

/* Tentatively join in port i with out port i + shift for all i; keep it if the demand still fits.
 */
static enum status sweep_at_once(struct splitter *s, const struct ports *p, int shift, bool *kept)
{
    struct lattice *l = s->l;
    int before = l->m;

    for (int i = 0; i < p->n_in; i++) {
        int a = p->in[i], b = p->out[(i + shift) % p->n_out];
        int64_t m = ports_quantum(p, l, a, b);
        if (m > 0 && l->arcs[a].from != l->arcs[b].to) {
            TRY(ports_join(l, a, b, m));
        }
    }
    TRY(fits(s, kept));
    if (!*kept) {
        ports_undo(p, l, before);
    }
    return ST_OK;
}

static enum status sweep_by_pairs(struct splitter *s, const struct ports *p, int shift,
                                  int64_t *moved)
{
    for (int i = 0; i < p->n_in; i++) {
        int a = p->in[i], b = p->out[(i + shift) % p->n_out];
        int64_t done;
        TRY(split_pair(s, a, b, quantum(s, p, a, b), &done));
        *moved += done;
    }
    return ST_OK;
}

static enum status empty_switch(struct splitter *s, const struct ports *p)
{
    for (;;) {
        int64_t moved = 0, in, out;
        for (int k = 0; k < p->n_out; k++) {
            int shift = p->shifts[k];
            bool kept = false;
            int before = s->l->m;
            if (s->spread == 0) {
                TRY(sweep_at_once(s, p, shift, &kept));
            }
            if (kept) {
                for (int i = before; i < s->l->m; i++) {
                    moved += s->l->arcs[i].cap;
                }
            } else {
                TRY(sweep_by_pairs(s, p, shift, &moved));
            }
        }
        ports_left(p, s->l, &in, &out);
        if (out == 0 || in == 0) {
            return ST_OK;
        }
        if (moved == 0) {
            return ST_OK; /* the last check tells whether what is left was needed */
        }
    }
}

static enum status split_one(struct splitter *s, int w)
{
    struct ports p;
    enum status st = ports_init(&p, s->l, w);

    if (st == ST_OK && p.n_in > 0 && p.n_out > 0) {
        bool kept = false;
        if (ports_are_series(&p, s->l)) {
            st = ports_join_series(&p, s->l);
        } else {
            int before = s->l->m;
            if (s->spread == 0 && ports_are_equal(&p, s->l)) {
                st = ports_join_circulant(&p, s->l);
                if (st == ST_OK) {
                    st = fits(s, &kept);
                }
                if (st == ST_OK && !kept) {
                    ports_undo(&p, s->l, before);
                }
            }
            if (st == ST_OK && !kept) {
                st = empty_switch(s, &p);
            }
        }
        ports_close(&p, s->l);
    }
    ports_fini(&p);
    return st;
}

static enum status split_all(struct splitter *s)
{
    bool yes;

    /* Switches in the middle of a wire first, then those next to devices. */
    for (int w = s->l->n_dev; w < s->l->n; w++) {
        struct ports p;
        enum status st = ports_init(&p, s->l, w);
        if (st == ST_OK && ports_are_series(&p, s->l)) {
            st = ports_join_series(&p, s->l);
            ports_close(&p, s->l);
        }
        ports_fini(&p);
        TRY(st);
    }
    for (int w = s->l->n - 1; w >= s->l->n_dev; w--) {
        TRY(split_one(s, w));
    }
    TRY(fits(s, &yes));
    if (!yes) {
        return log_fail(ST_UNSUPPORTED,
                        "treepack: a switch sends out more than it takes in, which trees without "
                        "copies in switches cannot use; give it equal capacities both ways");
    }
    return ST_OK;
}

enum status split_switches(struct lattice *l, const int64_t *demand, int spread)
{
    struct splitter s = {
        .l = l, .demand = demand, .total = sum_of(demand, l->n_dev), .spread = spread};
    enum status st;

    if (l->n == l->n_dev) {
        return ST_OK;
    }
    flow_init(&s.flow);
    st = split_all(&s);
    flow_fini(&s.flow);
    return st;
}
