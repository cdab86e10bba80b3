#include "comm/treepack/solve.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/treepack/boxes.h"
#include "comm/treepack/coupled.h"
#include "comm/treepack/fixed.h"
#include "comm/treepack/split.h"
#include "comm/treepack/strength.h"

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

static enum status too_fine(void)
{
    return log_fail(ST_INPUT, "treepack: the capacities are too finely graded for exact "
                              "planning; round them, e.g. to MB/s");
}

/* Split and pack a demand on a copy of `l` whose capacities are `by` times as large. */
static enum status pack_demand(const struct lattice *l, int64_t by, const int64_t *demand,
                               const struct solve_request *q, struct lattice **used,
                               struct packing *p)
{
    TRY(lattice_copy(l, false, used));
    if (!lattice_scale(*used, by)) {
        return too_fine();
    }
    TRY(split_switches(*used, demand, q->spread));
    return pack_trees(*used, demand, q->order, q->seed, p);
}

/* `units` trees of a whole rate, of which only a part is kept; finer units if that does not divide.
 */
static int64_t keep_part(const struct solve_request *q, int64_t units, int64_t *by)
{
    int64_t keep = q->keep > 0 && q->keep < 100 ? q->keep / 25 : 4; /* quarters */

    if (units * keep % 4 != 0) {
        *by *= 4;
        units *= 4;
    }
    return units * keep / 4 > 0 ? units * keep / 4 : 1;
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
    units = keep_part(q, s->bound.rate.num, &by);
    if (s->whole->n == s->whole->n_dev + 1 && q->order == PACK_SHALLOW && units < s->whole->n_dev) {
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
    units = keep_part(q, each.num, &by);
    for (int v = 0; v < n; v++) {
        demand[v] = units;
    }
    s->rate = frac_make(units * n, by);
    return pack_demand(s->whole, by, demand, q, &s->down_l, &s->down);
}

/* The device that is nearest to all others; trees from there are shallow. */
static int centre_of(const struct lattice *l, int *dist, int *queue)
{
    int best = 0, least = l->n + 1;

    for (int r = 0; r < l->n_dev; r++) {
        int begin = 0, end = 0, far = 0;
        for (int v = 0; v < l->n; v++) {
            dist[v] = -1;
        }
        dist[r] = 0;
        queue[end++] = r;
        while (begin < end) {
            int u = queue[begin++];
            far = dist[u];
            for (int i = 0; i < l->m; i++) {
                if (l->arcs[i].from == u && dist[l->arcs[i].to] < 0) {
                    dist[l->arcs[i].to] = far + 1;
                    queue[end++] = l->arcs[i].to;
                }
            }
        }
        if (far < least) {
            least = far;
            best = r;
        }
    }
    return best;
}

void solve_centre(struct packing *p, const struct lattice *l, const int *rev, size_t i)
{
    struct branch *b = &p->trees[i];
    int depth = packing_depth(p, l, i);

    /* Move the root towards the deepest leaf, one arc at a time, while that makes it shallower. */
    for (;;) {
        int far = -1, before = b->root, first;
        for (int v = 0, best = -1; v < p->n_dev; v++) {
            int d = 0;
            for (int u = v; b->arc[u] >= 0; u = l->arcs[b->arc[u]].from) {
                d++;
            }
            if (d > best) {
                best = d;
                far = v;
            }
        }
        first = far;
        while (first != b->root && l->arcs[b->arc[first]].from != b->root) {
            first = l->arcs[b->arc[first]].from;
        }
        if (first == b->root) {
            return;
        }
        b->arc[before] = rev[b->arc[first]];
        b->arc[first] = -1;
        b->root = first;
        int now = packing_depth(p, l, i);
        if (now >= depth) {
            b->arc[first] = rev[b->arc[before]];
            b->arc[before] = -1;
            b->root = before;
            return;
        }
        depth = now;
    }
}

/* The units directed by the pebble game, as capacities of a copy of the lattice. */
static enum status orient(const struct lattice *l, int64_t by, const int *edges, int n_edges,
                          const int *rev, int64_t (*held)[2], struct lattice **out)
{
    TRY(lattice_copy(l, false, out));
    if (!lattice_scale(*out, by)) {
        return too_fine();
    }
    for (int e = 0; e < n_edges; e++) {
        (*out)->arcs[edges[e]].cap = held[e][1];
        (*out)->arcs[rev[edges[e]]].cap = held[e][0];
    }
    return ST_OK;
}

static enum status strength_solve(const struct topo *t, const struct solve_request *q,
                                  struct solution *s, int64_t *demand, int *work,
                                  int64_t (*held)[2])
{
    const struct lattice *l = s->whole;
    int64_t units, by = 1;
    int *rev = work, *edges = work + l->m, *mirror = edges + l->m, n_edges = 0, root;
    enum status st;

    root = centre_of(l, mirror, mirror + l->n);
    (void)lattice_pair(l, t, rev);
    for (int i = 0; i < l->m; i++) {
        if (rev[i] > i) {
            edges[n_edges++] = i;
        }
    }
    TRY(strength_bound(l, edges, n_edges, root, &s->bound, held));
    units = keep_part(q, s->bound.rate.num, &by);
    s->rate = frac_make(units, by * s->bound.rate.den);
    demand[root] = units;
    TRY(orient(l, s->bound.rate.den, edges, n_edges, rev, held, &s->down_l));
    if (!lattice_scale(s->down_l, by)) {
        return too_fine();
    }
    TRY(pack_trees(s->down_l, demand, q->order, q->seed, &s->down));
    for (size_t i = 0; i < s->down.n; i++) {
        solve_centre(&s->down, s->down_l, rev, i);
    }
    (void)solve_mirror_links(t, mirror);
    st = solve_mirror(s->down_l, mirror, &s->up_l);
    return st == ST_OK ? packing_copy(&s->down, &s->up) : st;
}

static enum status solve_direct_allreduce(const struct topo *t, const struct solve_request *q,
                                          struct solution *s, int64_t *demand)
{
    size_t n = 2 * (size_t)s->whole->m + 2 * (size_t)s->whole->n + (size_t)t->n_links;
    int *work = mem_alloc(n, sizeof *work);
    int64_t(*held)[2] = mem_alloc((size_t)s->whole->m, sizeof *held);
    enum status st = ST_NOMEM;

    if (work != NULL && held != NULL) {
        st = strength_solve(t, q, s, demand, work, held);
    }
    mem_free(work);
    mem_free(held);
    return st;
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
        return solve_direct_allreduce(t, q, s, demand);
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

static bool is_direct(const struct lattice *l, const struct topo *t, int *rev)
{
    return l->n == l->n_dev && lattice_pair(l, t, rev);
}

static enum status count_on(const struct topo *t, const struct lattice *l,
                            const struct solve_request *q, int *rev, int64_t *trees)
{
    struct bound b = {0};
    struct frac each;
    enum status st = ST_OK;

    *trees = 1;
    if (l->n_dev == 1 || (q->kind == SOLVE_ALLREDUCE && is_direct(l, t, rev))) {
        return ST_OK;
    }
    if (q->kind == SOLVE_BROADCAST) {
        TRY(bound_broadcast(l, q->root, &b));
        *trees = b.rate.num;
    } else {
        struct lattice *used = NULL;
        struct packing p;
        bool found = false;
        TRY(bound_allgather(l, &b));
        each = frac_make(b.rate.num, b.rate.den * l->n_dev);
        *trees = each.num * l->n_dev;
        if (l->n > l->n_dev) {
            st = boxes_pack(l, &b, &found, &used, &p);
        }
        if (found) {
            *trees = 0;
            lattice_destroy(used);
            packing_fini(&p);
        }
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
