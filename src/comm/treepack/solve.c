#include "comm/treepack/solve.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/treepack/boxes.h"
#include "comm/treepack/coupled.h"
#include "comm/treepack/direct.h"
#include "comm/treepack/fixed.h"
#include "comm/treepack/relay.h"
#include "comm/treepack/split.h"

void solution_fini(struct solution *s)
{
    lattice_destroy(s->whole);
    lattice_destroy(s->down_l);
    lattice_destroy(s->up_l);
    bound_fini(&s->bound);
    packing_fini(&s->down);
    packing_fini(&s->up);
    memset(s, 0, sizeof *s);
}

bool solve_mirror_links(const struct topo *t, int *rev)
{
    bool all = true;

    for (int i = 0; i < t->n_links; i++) {
        rev[i] = -1;
        for (int j = 0; j < t->n_links && rev[i] < 0; j++) {
            const struct topo_link *a = &t->links[i], *b = &t->links[j];
            if (a->from == b->to && a->to == b->from && a->bytes_per_s == b->bytes_per_s &&
                strcmp(a->kind, b->kind) == 0) {
                rev[i] = j;
            }
        }
        all = all && rev[i] >= 0;
    }
    return all;
}

enum status solve_mirror(const struct lattice *l, const int *rev, struct lattice **out)
{
    TRY(lattice_copy(l, false, out));
    for (int i = 0; i < (*out)->m; i++) {
        struct arc *a = &(*out)->arcs[i];
        for (int j = 0; j < a->n_links; j++) {
            a->links[j] = rev[a->links[j]];
        }
    }
    return ST_OK;
}

enum status solve_too_fine(void)
{
    return log_fail(ST_INPUT, "treepack: the capacities are too finely graded for exact "
                              "planning; round them, e.g. to MB/s");
}

int64_t solve_keep_part(const struct solve_request *q, int64_t units, int64_t *by)
{
    int64_t keep = q->keep > 0 && q->keep < 100 ? q->keep / 25 : 4; /* quarters */

    if (units * keep % 4 != 0) {
        *by *= 4;
        units *= 4;
    }
    return units * keep / 4 > 0 ? units * keep / 4 : 1;
}

/* Split and pack a demand on a copy of `l` whose capacities are `by` times as large. */
static enum status pack_demand(const struct lattice *l, int64_t by, const int64_t *demand,
                               const struct solve_request *q, struct lattice **used,
                               struct packing *p)
{
    TRY(lattice_copy(l, false, used));
    if (!lattice_scale(*used, by)) {
        return solve_too_fine();
    }
    TRY(split_switches(*used, demand, q->spread));
    return pack_trees(*used, demand, &q->how, p);
}

static enum status solve_broadcast(const struct solve_request *q, struct solution *s,
                                   int64_t *demand)
{
    int64_t by = 1, units;

    TRY(bound_broadcast(s->whole, q->root, &s->bound));
    demand[q->root] = 1;
    if (q->fixed_k > 0) {
        TRY(fixed_pack(s->whole, q, demand, &s->down_l, &s->down, &s->rate));
        return ST_OK;
    }
    if (s->whole->n_dev > SOLVE_SMALL && s->whole->n > s->whole->n_dev) {
        bool found;
        TRY(relay_pack(s->whole, q->root, &s->bound, &found, &s->down_l, &s->down));
        if (found) {
            s->rate = s->bound.rate;
            return ST_OK;
        }
    }
    units = solve_keep_part(q, s->bound.rate.num, &by);
    if (s->whole->n == s->whole->n_dev + 1 && q->how.order == PACK_SHALLOW &&
        units < s->whole->n_dev) {
        /* One unit for each port of the one switch: the root then reaches all of them at once. */
        by *= s->whole->n_dev - 1;
        units *= s->whole->n_dev - 1;
    }
    demand[q->root] = units;
    s->rate = frac_make(units, by);
    return pack_demand(s->whole, by, demand, q, &s->down_l, &s->down);
}

static enum status solve_allgather(const struct solve_request *q, struct solution *s,
                                   int64_t *demand)
{
    int n = s->whole->n_dev;
    struct frac each;
    int64_t by, units;

    TRY(bound_allgather(s->whole, &s->bound));
    for (int v = 0; v < n; v++) {
        demand[v] = 1;
    }
    if (q->fixed_k > 0) {
        TRY(fixed_pack(s->whole, q, demand, &s->down_l, &s->down, &each));
        s->rate = frac_make(each.num * n, each.den);
        return ST_OK;
    }
    if (s->whole->n > n && (q->keep == 0 || q->keep == 100)) {
        bool found;
        TRY(boxes_pack(s->whole, &s->bound, &found, &s->down_l, &s->down));
        if (found) {
            s->rate = s->bound.rate;
            return ST_OK;
        }
    }
    each = frac_make(s->bound.rate.num, s->bound.rate.den * n);
    by = each.den;
    units = solve_keep_part(q, each.num, &by);
    for (int v = 0; v < n; v++) {
        demand[v] = units;
    }
    s->rate = frac_make(units * n, by);
    return pack_demand(s->whole, by, demand, q, &s->down_l, &s->down);
}

static enum status solve_allreduce(const struct topo *t, const struct solve_request *q,
                                   struct solution *s, int64_t *demand)
{
    int *rev = mem_alloc((size_t)(t->n_links + s->whole->m), sizeof *rev);
    bool symmetric;

    if (rev == NULL) {
        return ST_NOMEM;
    }
    symmetric = lattice_pair(s->whole, t, rev);
    mem_free(rev);
    if (symmetric && s->whole->n == s->whole->n_dev) {
        return direct_allreduce(t, q, s, demand);
    }
    return coupled_solve(t, q, symmetric, s);
}

/* One device: a tree without arcs. */
static enum status solve_alone(const struct solve_request *q, struct solution *s)
{
    int none = -1;

    s->rate = frac_make(1, 1);
    s->bound = (struct bound){.kind = BOUND_CUT, .rate = s->rate, .n_parts = 1};
    TRY(lattice_copy(s->whole, false, &s->down_l));
    TRY(packing_add(&s->down, 0, 1, &none));
    if (q->kind == SOLVE_ALLREDUCE) {
        TRY(lattice_copy(s->whole, false, &s->up_l));
        TRY(packing_add(&s->up, 0, 1, &none));
    }
    return ST_OK;
}

static enum status solve_into(const struct topo *t, const struct solve_request *q,
                              struct solution *s, int64_t *demand)
{
    struct lattice *l;

    TRY(lattice_create(t, &s->whole));
    packing_init(&s->down, s->whole->n_dev);
    packing_init(&s->up, s->whole->n_dev);
    if (q->reversed) {
        l = s->whole;
        s->whole = NULL;
        enum status st = lattice_copy(l, true, &s->whole);
        lattice_destroy(l);
        TRY(st);
    }
    if (s->whole->n_dev == 1) {
        return solve_alone(q, s);
    }
    switch (q->kind) {
    case SOLVE_BROADCAST:
        return solve_broadcast(q, s, demand);
    case SOLVE_ALLGATHER:
        return solve_allgather(q, s, demand);
    case SOLVE_ALLREDUCE:
        return solve_allreduce(t, q, s, demand);
    }
    return ST_BADARG;
}

/* A reversed request was solved by out-trees on the reversed lattice: they are the up pass. */
static void turn(struct solution *s)
{
    s->up_l = s->down_l;
    s->up = s->down;
    s->down_l = NULL;
    packing_init(&s->down, s->up.n_dev);
}

enum status solve(const struct topo *t, const struct solve_request *q, struct solution *out)
{
    struct solution s = {0};
    int64_t *demand = mem_alloc((size_t)t->n_devices, sizeof *demand);
    enum status st = demand == NULL ? ST_NOMEM : solve_into(t, q, &s, demand);

    mem_free(demand);
    if (st != ST_OK) {
        solution_fini(&s);
        return st;
    }
    if (q->reversed) {
        turn(&s);
    }
    *out = s;
    return ST_OK;
}
