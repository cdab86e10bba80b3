#include "base/mem.h"
#include "comm/treepack/boxes.h"
#include "comm/treepack/fixed.h"
#include "comm/treepack/relay.h"
#include "comm/treepack/solve.h"

static bool is_direct(const struct lattice *l, const struct topo *t, int *rev)
{
    return l->n == l->n_dev && lattice_pair(l, t, rev);
}

static enum status count_on(const struct topo *t, const struct lattice *l,
                            const struct solve_request *q, int *rev, int64_t *trees)
{
    struct bound b = {0};
    struct frac each;
    struct lattice *used = NULL;
    struct packing p;
    bool found = false;
    enum status st = ST_OK;

    *trees = 1;
    if (l->n_dev == 1 || (q->kind == SOLVE_ALLREDUCE && is_direct(l, t, rev))) {
        return ST_OK;
    }
    if (q->kind == SOLVE_BROADCAST) {
        TRY(bound_broadcast(l, q->root, &b));
        *trees = b.rate.num;
        if (l->n_dev > SOLVE_SMALL && l->n > l->n_dev) {
            st = relay_pack(l, q->root, &b, &found, &used, &p);
        }
    } else {
        TRY(bound_allgather(l, &b));
        each = frac_make(b.rate.num, b.rate.den * l->n_dev);
        *trees = each.num * l->n_dev;
        if (l->n > l->n_dev) {
            st = boxes_pack(l, &b, &found, &used, &p);
        }
    }
    if (found) {
        *trees = 0;
        lattice_destroy(used);
        packing_fini(&p);
    }
    bound_fini(&b);
    return st;
}

enum status solve_count(const struct topo *t, const struct solve_request *q, int64_t *trees)
{
    struct lattice *l = NULL, *r = NULL;
    int *rev = NULL;
    enum status st = lattice_create(t, &l);

    if (st == ST_OK) {
        st = lattice_copy(l, q->reversed, &r);
    }
    if (st == ST_OK) {
        rev = mem_alloc((size_t)l->m, sizeof *rev);
        st = rev == NULL ? ST_NOMEM : count_on(t, r, q, rev, trees);
    }
    mem_free(rev);
    lattice_destroy(l);
    lattice_destroy(r);
    return st;
}

enum status solve_fixed_rate(const struct topo *t, const struct solve_request *q,
                             double *bytes_per_s)
{
    struct lattice *l = NULL, *r = NULL;
    int64_t *demand = mem_alloc((size_t)t->n_devices, sizeof *demand), roots = 0;
    struct frac each;
    enum status st = demand == NULL ? ST_NOMEM : lattice_create(t, &l);

    if (st == ST_OK) {
        st = lattice_copy(l, q->reversed, &r);
    }
    *bytes_per_s = 0;
    if (st == ST_OK && (q->kind != SOLVE_ALLREDUCE || r->n > r->n_dev)) {
        int passes = q->kind == SOLVE_ALLREDUCE ? 2 : 1;
        for (int v = 0; v < t->n_devices; v++) {
            demand[v] = q->kind != SOLVE_BROADCAST || v == q->root;
            roots += demand[v];
        }
        st = fixed_rate(r, q->fixed_k, demand, &each);
        if (st == ST_OK) {
            *bytes_per_s = lattice_rate(r, frac_make(each.num * roots, each.den * passes));
        }
    }
    mem_free(demand);
    lattice_destroy(l);
    lattice_destroy(r);
    return st;
}
