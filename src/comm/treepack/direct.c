/*
 * Allreduce on a symmetric lattice without switches. The pebble game of strength.c directs the
 * units of the links such that out-trees from one root fit exactly; every tree is then turned
 * around to have its root in its middle, and is used both ways.
 */
#include "comm/treepack/direct.h"

#include "base/mem.h"
#include "comm/treepack/strength.h"

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
        return solve_too_fine();
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
    units = solve_keep_part(q, s->bound.rate.num, &by);
    s->rate = frac_make(units, by * s->bound.rate.den);
    demand[root] = units;
    TRY(orient(l, s->bound.rate.den, edges, n_edges, rev, held, &s->down_l));
    if (!lattice_scale(s->down_l, by)) {
        return solve_too_fine();
    }
    TRY(pack_trees(s->down_l, demand, &q->how, &s->down));
    for (size_t i = 0; i < s->down.n; i++) {
        solve_centre(&s->down, s->down_l, rev, i);
    }
    (void)solve_mirror_links(t, mirror);
    st = solve_mirror(s->down_l, mirror, &s->up_l);
    return st == ST_OK ? packing_copy(&s->down, &s->up) : st;
}

enum status direct_allreduce(const struct topo *t, const struct solve_request *q,
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
