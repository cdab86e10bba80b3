#include "comm/treepack/fixed.h"

#include <string.h>

#include "base/mem.h"
#include "comm/treepack/split.h"

/* Capacities floor(U c) of `l` into `s`. */
static void stretch(const struct lattice *l, struct frac u, struct lattice *s)
{
    for (int i = 0; i < l->m; i++) {
        s->arcs[i].cap = (int64_t)((wide)l->arcs[i].cap * u.num / u.den);
    }
}

/* The smallest j such that U = j / c is feasible and below `best`; leaves `best` if none is. */
static enum status search(const struct lattice *l, struct lattice *s, const int64_t *demand,
                          int64_t c, struct frac *best)
{
    int64_t low = 0; /* infeasible */
    int64_t high = (int64_t)((wide)best->num * c / best->den);
    bool yes;

    stretch(l, frac_make(high, c), s);
    TRY(split_feasible(s, demand, &yes));
    if (high == 0 || !yes) {
        return ST_OK;
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        stretch(l, frac_make(middle, c), s);
        TRY(split_feasible(s, demand, &yes));
        if (yes) {
            high = middle;
        } else {
            low = middle;
        }
    }
    if (frac_compare(frac_make(high, c), *best) < 0) {
        *best = frac_make(high, c);
    }
    return ST_OK;
}

static enum status find_stretch(const struct lattice *l, struct lattice *s, const int64_t *demand,
                                struct frac *best)
{
    int64_t smallest = l->arcs[0].cap, total = 0;

    for (int i = 0; i < l->m; i++) {
        smallest = l->arcs[i].cap < smallest ? l->arcs[i].cap : smallest;
    }
    /* Every arc as wide as all trees together is enough. */
    for (int v = 0; v < l->n_dev; v++) {
        total += demand[v];
    }
    *best = frac_make(total, smallest);
    for (int i = 0; i < l->m; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen; j++) {
            seen = l->arcs[j].cap == l->arcs[i].cap;
        }
        if (!seen) {
            TRY(search(l, s, demand, l->arcs[i].cap, best));
        }
    }
    stretch(l, *best, s);
    return ST_OK;
}

enum status fixed_rate(const struct lattice *l, int64_t k, int64_t *demand, struct frac *each)
{
    struct lattice *s = NULL;
    struct frac u;
    enum status st;

    TRY(lattice_copy(l, false, &s));
    for (int v = 0; v < l->n_dev; v++) {
        demand[v] *= k;
    }
    st = find_stretch(l, s, demand, &u);
    lattice_destroy(s);
    TRY(st);
    *each = frac_make(k * u.den, u.num);
    return ST_OK;
}

enum status fixed_pack(const struct lattice *l, const struct solve_request *q, int64_t *demand,
                       struct lattice **used, struct packing *p, struct frac *each)
{
    struct frac u;

    TRY(lattice_copy(l, false, used));
    for (int v = 0; v < l->n_dev; v++) {
        demand[v] *= q->fixed_k;
    }
    TRY(find_stretch(l, *used, demand, &u));
    TRY(split_switches(*used, demand, q->spread));
    *each = frac_make(q->fixed_k * u.den, u.num);
    return pack_trees(*used, demand, &q->how, p);
}
