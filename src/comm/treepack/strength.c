/*
 * The pebble game with capacities. Every vertex owns p pebbles; accepting one unit of an edge costs
 * a pebble of one of its ends, and a unit may be taken only while the two ends can gather more than
 * p free pebbles. Then the units inside any set X number at most p (|X| - 1), which is the
 * condition for p forests; p (n - 1) accepted units make p spanning trees.
 *
 * If the game ends early, the sets that are full form the parts of a partition with a smaller
 * quotient, which is tried next (Newton's iteration): two or three rounds in practice.
 */
#include "comm/treepack/strength.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/treepack/maxflow.h"

struct game {
    const struct lattice *l;
    const int *edges;
    int n_edges, n; /* n: devices */
    int64_t p, q;
    int64_t *loose; /* [n] free pebbles */
    int64_t (*held)[2];
    int *part;
    struct flow flow;
};

static const struct arc *edge_of(const struct game *g, int e)
{
    return &g->l->arcs[g->edges[e]];
}

/* Bring up to `want` free pebbles of other vertices to `u` and `v` (which may be the same). */
static void gather(struct game *g, int u, int v, int64_t want)
{
    struct flow *f = &g->flow;
    int s = g->n, t = g->n + 1;

    flow_reset(f, g->n + 2);
    for (int e = 0; e < g->n_edges; e++) {
        /* A pebble at one end takes over a unit that the other end holds. */
        (void)flow_arc(f, edge_of(g, e)->from, edge_of(g, e)->to, g->held[e][1], g->held[e][0]);
    }
    for (int z = 0; z < g->n; z++) {
        (void)flow_arc(f, s, z, z == u || z == v ? 0 : g->loose[z], 0);
    }
    (void)flow_arc(f, u, t, FLOW_INF, 0);
    (void)flow_arc(f, v, t, u == v ? 0 : FLOW_INF, 0);
    flow_save(f);
    (void)flow_push(f, s, t, want);
    for (int e = 0; e < g->n_edges; e++) {
        int64_t moved = flow_used(f, e);
        g->held[e][1] -= moved;
        g->held[e][0] += moved;
    }
    for (int z = 0; z < g->n; z++) {
        g->loose[z] -= flow_used(f, g->n_edges + z);
    }
    g->loose[u] += flow_used(f, g->n_edges + g->n);
    g->loose[v] += flow_used(f, g->n_edges + g->n + 1);
}

/* How many more units could edge e take? Gathers pebbles at its ends for up to `want`. */
static int64_t room_of(struct game *g, int e, int64_t want)
{
    int u = edge_of(g, e)->from, v = edge_of(g, e)->to;
    int64_t missing = g->p + want - g->loose[u] - g->loose[v];

    if (missing > 0) {
        gather(g, u, v, missing);
    }
    return g->loose[u] + g->loose[v] - g->p;
}

static void accept_units(struct game *g, int e, int64_t units)
{
    int u = edge_of(g, e)->from, v = edge_of(g, e)->to;
    int64_t from_u = units < g->loose[u] ? units : g->loose[u];

    g->held[e][0] += from_u;
    g->loose[u] -= from_u;
    g->held[e][1] += units - from_u;
    g->loose[v] -= units - from_u;
}

/* Play one game for p/q; returns the number of units accepted. */
static int64_t play(struct game *g)
{
    int64_t total = 0;

    memset(g->held, 0, (size_t)g->n_edges * sizeof *g->held);
    for (int v = 0; v < g->n; v++) {
        g->loose[v] = g->p;
    }
    for (int e = 0; e < g->n_edges; e++) {
        int64_t cap = g->q * edge_of(g, e)->cap;
        int64_t room = room_of(g, e, cap);
        int64_t take = room < cap ? room : cap;
        accept_units(g, e, take);
        total += take;
    }
    return total;
}

static int leader(int *part, int v)
{
    while (part[v] != v) {
        v = part[v] = part[part[v]];
    }
    return v;
}

/* Merge the ends of full edges into parts, and set p/q to the quotient of that partition. */
static int find_parts(struct game *g)
{
    int64_t crossing = 0, d;
    int n_parts = 0;

    for (int v = 0; v < g->n; v++) {
        g->part[v] = v;
    }
    for (int e = 0; e < g->n_edges; e++) {
        if (room_of(g, e, 1) <= 0) {
            g->part[leader(g->part, edge_of(g, e)->from)] = leader(g->part, edge_of(g, e)->to);
        }
    }
    for (int v = 0; v < g->n; v++) {
        n_parts += leader(g->part, v) == v;
    }
    for (int e = 0; e < g->n_edges; e++) {
        if (leader(g->part, edge_of(g, e)->from) != leader(g->part, edge_of(g, e)->to)) {
            crossing += edge_of(g, e)->cap;
        }
    }
    d = gcd64(crossing, n_parts - 1);
    g->p = d == 0 ? 0 : crossing / d;
    g->q = d == 0 ? 1 : (n_parts - 1) / d;
    return n_parts;
}

static enum status solve(struct game *g, struct bound *b)
{
    wide sum = 0;

    b->n_parts = g->n;
    for (int v = 0; v < g->n; v++) {
        g->part[v] = v;
    }
    for (int e = 0; e < g->n_edges; e++) {
        sum += edge_of(g, e)->cap;
    }
    if (sum * 4 * g->n >= FLOW_INF) {
        return log_fail(ST_INPUT, "treepack: the capacities are too finely graded for exact "
                                  "planning; round them, e.g. to MB/s");
    }
    b->rate = frac_make((int64_t)sum, g->n - 1);
    for (;;) {
        g->p = b->rate.num;
        g->q = b->rate.den;
        if (g->p == 0) {
            return log_fail(ST_INPUT, "treepack: the devices are not all connected by these links; "
                                      "allow more kinds of links or other devices");
        }
        memcpy(b->part, g->part, (size_t)g->n * sizeof *b->part);
        if (play(g) == g->p * (g->n - 1)) {
            return ST_OK;
        }
        b->n_parts = find_parts(g);
        b->rate = frac_make(g->p, g->q);
    }
}

/* Number the parts from 0 in the order of their first device. */
static void number_parts(struct bound *b, int n, int *work)
{
    int next = 0;

    for (int v = 0; v < n; v++) {
        work[v] = leader(b->part, v);
    }
    for (int v = 0; v < n; v++) {
        b->part[v] = -1;
        for (int u = 0; u < v && b->part[v] < 0; u++) {
            if (work[u] == work[v]) {
                b->part[v] = b->part[u];
            }
        }
        if (b->part[v] < 0) {
            b->part[v] = next++;
        }
    }
}

enum status strength_bound(const struct lattice *l, const int *edges, int n_edges, int root,
                           struct bound *b, int64_t (*held)[2])
{
    struct game g = {.l = l, .edges = edges, .n_edges = n_edges, .n = l->n_dev, .held = held};
    enum status st = ST_NOMEM;

    flow_init(&g.flow);
    *b = (struct bound){.kind = BOUND_PARTITION};
    b->part = mem_alloc((size_t)l->n, sizeof *b->part);
    g.part = mem_alloc((size_t)l->n, sizeof *g.part);
    g.loose = mem_alloc((size_t)l->n, sizeof *g.loose);
    if (b->part != NULL && g.part != NULL && g.loose != NULL &&
        flow_reserve(&g.flow, l->n_dev + 2, n_edges + l->n_dev + 2) == ST_OK) {
        st = solve(&g, b);
    }
    if (st == ST_OK) {
        gather(&g, root, root, g.p);
        number_parts(b, l->n_dev, g.part);
    } else {
        bound_fini(b);
    }
    flow_fini(&g.flow);
    mem_free(g.part);
    mem_free(g.loose);
    return st;
}
