/*
 * Up and down trees share the links. With x the capacity for the down trees, y that for the up
 * trees and w(r) the weight of the trees rooted at r:
 *
 *     maximise W = sum of w      x + y <= c on every arc
 *     x(into X)  >= W - w(X)     for every set X with a device: the down trees enter X
 *     y(out of X) >= W - w(X)    and the up trees leave it
 *     a switch passes on no more than it takes in: x(out) <= x(in), y(in) <= y(out)
 *
 * The sets are found as they are violated, by maximum flows. Edmonds' theorem and edge splitting
 * turn x and y into trees. The multipliers of the rows at the optimum are its certificate.
 */
#include "comm/treepack/programme.h"

#include <string.h>

#include "base/mem.h"
#include "comm/treepack/exact_lp.h"
#include "comm/treepack/maxflow.h"
#include "comm/treepack/split.h"

enum {
    MAX_ROUNDS = 200
};

struct coupled {
    const struct lattice *l;
    struct exact_lp lp;
    struct flow flow;
    int64_t *row;           /* [2 m + n_dev] work */
    struct bound_cut *cuts; /* of the rows after the fixed ones */
    int n_fixed, n_cuts, room;
};

static enum status add_fixed_rows(struct coupled *c)
{
    const struct lattice *l = c->l;
    size_t bytes = (size_t)c->lp.n_vars * sizeof *c->row;

    for (int e = 0; e < l->m; e++) {
        memset(c->row, 0, bytes);
        c->row[e] = c->row[l->m + e] = 1;
        TRY(exact_lp_add(&c->lp, c->row, l->arcs[e].cap));
    }
    for (int w = l->n_dev; w < l->n; w++) {
        for (int pass = 0; pass < 2; pass++) {
            memset(c->row, 0, bytes);
            for (int e = 0; e < l->m; e++) {
                int out = pass == 0 ? l->arcs[e].from : l->arcs[e].to;
                int in = pass == 0 ? l->arcs[e].to : l->arcs[e].from;
                c->row[pass * l->m + e] = (out == w) - (in == w);
            }
            TRY(exact_lp_add(&c->lp, c->row, 0));
        }
    }
    c->n_fixed = c->lp.n_rows;
    return ST_OK;
}

/* Remember a cut and add its row: w(outside X) - x(into X) <= 0. */
static enum status add_cut(struct coupled *c, bool up, const unsigned char *inside)
{
    const struct lattice *l = c->l;
    struct bound_cut *cut;

    if (c->n_cuts == c->room) {
        int room = c->room == 0 ? 64 : 2 * c->room;
        struct bound_cut *grown = mem_grow(c->cuts, (size_t)c->n_cuts, (size_t)room, sizeof *grown);
        if (grown == NULL) {
            return ST_NOMEM;
        }
        c->cuts = grown;
        c->room = room;
    }
    cut = &c->cuts[c->n_cuts];
    *cut = (struct bound_cut){.up = up};
    cut->inside = mem_alloc((size_t)l->n, 1);
    if (cut->inside == NULL) {
        return ST_NOMEM;
    }
    memcpy(cut->inside, inside, (size_t)l->n);
    c->n_cuts++;
    memset(c->row, 0, (size_t)c->lp.n_vars * sizeof *c->row);
    for (int r = 0; r < l->n_dev; r++) {
        c->row[2 * l->m + r] = inside[r] ? 0 : 1;
    }
    for (int e = 0; e < l->m; e++) {
        int from = up ? l->arcs[e].to : l->arcs[e].from, to = up ? l->arcs[e].from : l->arcs[e].to;
        if (!inside[from] && inside[to]) {
            c->row[(up ? l->m : 0) + e] = -1;
        }
    }
    return exact_lp_add(&c->lp, c->row, 0);
}

static bool known(const struct coupled *c, int since, bool up, const unsigned char *inside)
{
    for (int i = since; i < c->n_cuts; i++) {
        if (c->cuts[i].up == up && memcmp(c->cuts[i].inside, inside, (size_t)c->l->n) == 0) {
            return true;
        }
    }
    return false;
}

/* Add the sets that the present values violate in one pass; `*found` counts them. */
static enum status separate(struct coupled *c, bool up, int64_t *values, unsigned char *inside,
                            int *found)
{
    const struct lattice *l = c->l;
    struct flow *f = &c->flow;
    int64_t total = 0;
    int since = c->n_cuts;

    flow_reset(f, l->n + 1);
    for (int e = 0; e < l->m; e++) {
        int from = up ? l->arcs[e].to : l->arcs[e].from, to = up ? l->arcs[e].from : l->arcs[e].to;
        (void)flow_arc(f, from, to, values[(up ? l->m : 0) + e], 0);
    }
    for (int r = 0; r < l->n_dev; r++) {
        (void)flow_arc(f, l->n, r, values[2 * l->m + r], 0);
        total += values[2 * l->m + r];
    }
    flow_save(f);
    for (int v = 0; v < l->n_dev; v++) {
        flow_restore(f);
        if (flow_push(f, l->n, v, total) < total) {
            for (int u = 0; u < l->n; u++) {
                inside[u] = flow_source_side(f, u) ? 0 : 1;
            }
            if (!known(c, since, up, inside)) {
                (*found)++;
                TRY(add_cut(c, up, inside));
            }
        }
    }
    return ST_OK;
}

/* Solve, look for violated sets, add them, until there are none. `*done`: an exact optimum. */
static enum status iterate(struct coupled *c, int64_t *values, unsigned char *inside, bool *done)
{
    *done = false;
    for (int round = 0; round < MAX_ROUNDS; round++) {
        int found = 0;
        if (!exact_lp_solve(&c->lp)) {
            return ST_OK;
        }
        for (int v = 0; v < c->lp.n_vars; v++) {
            values[v] = exact_lp_value(&c->lp, v);
            if (values[v] > FLOW_INF / (4 * c->lp.n_vars)) {
                return ST_OK;
            }
        }
        TRY(separate(c, false, values, inside, &found));
        TRY(separate(c, true, values, inside, &found));
        if (found == 0) {
            *done = true;
            return ST_OK;
        }
    }
    return ST_OK;
}

static enum status programme(struct coupled *c, int64_t *values, unsigned char *inside, bool *done)
{
    const struct lattice *l = c->l;
    int64_t limit = 0;

    for (int v = 0; v < l->n_dev; v++) {
        limit += lattice_in(l, v);
    }
    TRY(flow_reserve(&c->flow, l->n + 1, l->m + l->n_dev));
    TRY(exact_lp_init(&c->lp, 2 * l->m + l->n_dev, 2 * l->m, limit));
    TRY(add_fixed_rows(c));
    for (int v = 0; v < l->n_dev; v++) {
        memset(inside, 0, (size_t)l->n);
        inside[v] = 1;
        TRY(add_cut(c, false, inside));
        TRY(add_cut(c, true, inside));
    }
    return iterate(c, values, inside, done);
}

/* Divide by what divides all. */
static void reduce(int64_t *values, int n, int64_t *den)
{
    int64_t g = *den;

    for (int i = 0; i < n; i++) {
        g = gcd64(values[i], g);
    }
    for (int i = 0; i < n; i++) {
        values[i] /= g;
    }
    *den /= g;
}

static enum status pack_pass(const struct lattice *l, bool up, const int64_t *caps,
                             const int64_t *demand, const struct solve_request *q,
                             struct lattice **used, struct packing *p)
{
    TRY(lattice_copy(l, up, used));
    for (int e = 0; e < l->m; e++) {
        (*used)->arcs[e].cap = caps[e];
    }
    TRY(split_switches(*used, demand, q->spread));
    return pack_trees(*used, demand, &q->how, p);
}

/* The multipliers as a certificate, unless a partition proves the same. */
static void set_bound(struct coupled *c, struct bound *b)
{
    int64_t den = c->lp.den;
    int kept = 0;

    for (int i = 0; i < c->n_cuts; i++) {
        c->cuts[i].weight = exact_lp_multiplier(&c->lp, c->n_fixed + i);
        if (c->cuts[i].weight == 0) {
            mem_free(c->cuts[i].inside);
        } else {
            c->cuts[kept++] = c->cuts[i];
        }
    }
    c->n_cuts = kept;
    mem_free(b->part);
    b->part = NULL;
    b->kind = BOUND_WEIGHTED_CUTS;
    b->n_parts = 0;
    b->cuts = c->cuts;
    b->n_cuts = kept;
    b->cut_den = den;
    c->cuts = NULL;
    c->n_cuts = 0;
}

static enum status take_switch_weights(struct coupled *c, struct bound *b)
{
    const struct lattice *l = c->l;

    b->switch_weight = mem_alloc(2 * (size_t)l->n, sizeof *b->switch_weight);
    if (b->switch_weight == NULL) {
        return ST_NOMEM;
    }
    for (int w = l->n_dev; w < l->n; w++) {
        for (int pass = 0; pass < 2; pass++) {
            int row = 1 + l->m + 2 * (w - l->n_dev) + pass;
            b->switch_weight[2 * w + pass] = exact_lp_multiplier(&c->lp, row);
        }
    }
    return ST_OK;
}

static enum status use_optimum(struct coupled *c, const struct solve_request *q, int64_t *values,
                               struct solution *s)
{
    const struct lattice *l = c->l;
    struct frac rate = frac_make(exact_lp_objective(&c->lp), c->lp.den);
    int64_t den = c->lp.den;

    if (frac_compare(rate, s->bound.rate) != 0) {
        TRY(take_switch_weights(c, &s->bound));
        set_bound(c, &s->bound);
        s->bound.rate = rate;
    }
    s->rate = rate;
    reduce(values, c->lp.n_vars, &den);
    TRY(pack_pass(l, false, values, values + 2 * l->m, q, &s->down_l, &s->down));
    return pack_pass(l, true, values + l->m, values + 2 * l->m, q, &s->up_l, &s->up);
}

enum status programme_solve(const struct solve_request *q, struct solution *s, bool *done)
{
    struct coupled c = {.l = s->whole};
    size_t n_vars = 2 * (size_t)s->whole->m + (size_t)s->whole->n_dev;
    int64_t *values = mem_alloc(n_vars, sizeof *values);
    unsigned char *inside = mem_alloc((size_t)s->whole->n, 1);
    enum status st = ST_NOMEM;

    c.row = mem_alloc(n_vars, sizeof *c.row);
    flow_init(&c.flow);
    if (values != NULL && inside != NULL && c.row != NULL) {
        st = programme(&c, values, inside, done);
    }
    if (st == ST_OK && *done) {
        st = use_optimum(&c, q, values, s);
    }
    for (int i = 0; i < c.n_cuts; i++) {
        mem_free(c.cuts[i].inside);
    }
    mem_free(c.cuts);
    mem_free(c.row);
    mem_free(values);
    mem_free(inside);
    exact_lp_fini(&c.lp);
    flow_fini(&c.flow);
    return st;
}
