#include "comm/treepack/choose.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

enum {
    SMALL = 16,       /* devices up to which many ways are tried */
    MANY_TREES = 256, /* above, switches are not spread evenly for an exact packing */
    SEEDS = 4,
};

void pareto_fini(struct pareto *p)
{
    for (size_t i = 0; i < p->n; i++) {
        solution_fini(&p->points[i].solution);
    }
    mem_free(p->points);
    memset(p, 0, sizeof *p);
}

static void measure(struct candidate *c)
{
    const struct solution *s = &c->solution;
    int up = 0, down = 0;

    for (size_t i = 0; i < s->up.n; i++) {
        int d = packing_depth(&s->up, s->up_l, i);
        up = d > up ? d : up;
    }
    for (size_t i = 0; i < s->down.n; i++) {
        int d = packing_depth(&s->down, s->down_l, i);
        down = d > down ? d : down;
    }
    c->depth = up + down;
    c->n_trees = s->up.n > s->down.n ? s->up.n : s->down.n;
    c->rate_bytes_per_s = lattice_rate(s->whole, s->rate);
}

/* Is `a` at least as good as `b` in everything? */
static bool dominates(const struct candidate *a, const struct candidate *b)
{
    return frac_compare(a->solution.rate, b->solution.rate) >= 0 && a->depth <= b->depth &&
           a->n_trees <= b->n_trees;
}

/* Add the candidate, whose solution is taken over, unless it is dominated. */
static enum status offer(struct pareto *p, struct candidate *c)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->n; i++) {
        if (dominates(&p->points[i], c)) {
            solution_fini(&c->solution);
            return ST_OK;
        }
    }
    for (size_t i = 0; i < p->n; i++) {
        if (dominates(c, &p->points[i])) {
            solution_fini(&p->points[i].solution);
        } else {
            p->points[kept++] = p->points[i];
        }
    }
    p->n = kept;
    if (p->n == p->room) {
        size_t room = p->room == 0 ? 8 : 2 * p->room;
        struct candidate *grown = mem_grow(p->points, p->n, room, sizeof *grown);
        if (grown == NULL) {
            solution_fini(&c->solution);
            return ST_NOMEM;
        }
        p->points = grown;
        p->room = room;
    }
    p->points[p->n++] = *c;
    return ST_OK;
}

static enum status try_one(const struct topo *t, const struct solve_request *q, struct pareto *p)
{
    struct candidate c = {0};

    TRY(solve(t, q, &c.solution));
    measure(&c);
    return offer(p, &c);
}

/* Exact packings over fat pieces of the switches, which take no longer for fine capacities. */
static enum status try_fat(const struct topo *t, struct solve_request q, struct pareto *p)
{
    q.order = PACK_SHALLOW;
    q.seed = 0;
    for (q.spread = 1; q.spread <= 4; q.spread *= 4) {
        TRY(try_one(t, &q, p));
    }
    q.spread = 1;
    q.order = PACK_FEW;
    return try_one(t, &q, p);
}

/* Few devices: all orders, some seeds, and packings that leave a part of the capacity unused. */
static enum status try_many(const struct topo *t, struct solve_request q, struct pareto *p)
{
    static const int keeps[] = {100, 75, 50};

    for (size_t k = 0; k < sizeof keeps / sizeof keeps[0]; k++) {
        q.keep = keeps[k];
        q.seed = 0;
        q.order = PACK_FEW;
        TRY(try_one(t, &q, p));
        q.order = PACK_SHALLOW;
        TRY(try_one(t, &q, p));
        for (q.seed = 1; k == 0 && q.seed < SEEDS; q.seed++) {
            TRY(try_one(t, &q, p));
        }
    }
    q.keep = 100;
    return try_fat(t, q, p);
}

/* A few trees per root, evenly or nearly evenly spread over the switches: shallow. */
static enum status try_fixed(const struct topo *t, struct solve_request q, struct pareto *p)
{
    static const int ks[] = {1, 2, 4, 7};

    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        q.fixed_k = ks[i];
        q.spread = ks[i] < 4 ? 0 : 4;
        TRY(try_one(t, &q, p));
    }
    return ST_OK;
}

enum status pareto_create(const struct topo *t, const struct solve_request *q, struct pareto *out)
{
    struct pareto p = {0};
    struct solve_request r = *q;
    int64_t trees = 1;
    enum status st = solve_count(t, q, &trees);

    r.keep = 100;
    r.order = PACK_SHALLOW;
    r.seed = 0;
    if (st == ST_OK && (q->fixed_k > 0 || trees == 0)) {
        st = try_one(t, &r, &p); /* asked for, or a closed form */
    } else if (st == ST_OK && trees <= MANY_TREES) {
        st = t->n_devices > SMALL ? try_one(t, &r, &p) : try_many(t, r, &p);
    } else if (st == ST_OK) {
        st = try_fat(t, r, &p);
        if (st == ST_OK) {
            st = try_fixed(t, r, &p);
        }
    }
    if (st != ST_OK) {
        pareto_fini(&p);
        return st;
    }
    *out = p;
    return ST_OK;
}

static double cost(const struct candidate *c, double n_bytes, double alpha_s)
{
    double steady = sqrt(n_bytes / c->rate_bytes_per_s), fill = sqrt(alpha_s * c->depth);

    return (steady + fill) * (steady + fill) + 0.25 * alpha_s * (double)c->n_trees;
}

const struct candidate *pareto_pick(const struct pareto *p, size_t n_bytes, double alpha_s)
{
    const struct candidate *best = &p->points[0];
    double n = n_bytes > 0 ? (double)n_bytes : 1e9;

    for (size_t i = 1; i < p->n; i++) {
        const struct candidate *c = &p->points[i];
        int faster = n_bytes > 0 ? 0 : frac_compare(c->solution.rate, best->solution.rate);
        if (faster > 0 || (faster == 0 && cost(c, n, alpha_s) < cost(best, n, alpha_s))) {
            best = c;
        }
    }
    return best;
}
