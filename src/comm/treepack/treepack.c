/*
 * The optimal forest for the topology: as many trees as the links can feed, with the proof that no
 * schedule of its kind moves more (Blink's TreeGen, exact).
 *
 *   P = 3, every pair joined by 1    broadcast from 0: two trees, 2 units a second
 *
 *       0 ─ 1     0 → 1 → 2          allreduce: trees 0-1-2, 1-2-0, 2-0-1 at 1/2 each, up and
 *        \ /      0 → 2 → 1          down: 3/2 units a second
 *         2
 *
 * Options, separated by blanks: `k=N` N trees per root; `few` or `shallow`; `mwu` Blink's
 * approximate packing instead. The mathematics is in solve.c and below it.
 */
#include "comm/treepack/treepack.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/planners.h"
#include "comm/treepack/choose.h"
#include "comm/treepack/explain.h"

/* The links of an arc in the order in which the data crosses them. */
static enum status set_path(struct path *path, const struct arc *a, bool backwards)
{
    path->links = mem_alloc((size_t)a->n_links, sizeof *path->links);
    if (path->links == NULL) {
        return ST_NOMEM;
    }
    path->n = a->n_links;
    for (int i = 0; i < a->n_links; i++) {
        path->links[i] = a->links[backwards ? a->n_links - 1 - i : i];
    }
    return ST_OK;
}

static enum status set_pass(const struct branch *b, const struct lattice *l, bool up, int n,
                            int *parent, struct path *paths)
{
    for (int v = 0; v < n; v++) {
        if (b->arc[v] >= 0) {
            parent[v] = l->arcs[b->arc[v]].from;
            TRY(set_path(&paths[v], &l->arcs[b->arc[v]], up));
        }
    }
    return ST_OK;
}

static enum status add_tree(const struct solution *s, const struct branch *up,
                            const struct branch *down, struct share share, struct plan *out)
{
    struct tree *tree;

    TRY(plan_add_tree(out, up != NULL ? up->root : down->root, share, &tree));
    if (up != NULL) {
        TRY(set_pass(up, s->up_l, true, out->n_ranks, tree->up, tree->up_path));
    }
    if (down != NULL) {
        TRY(set_pass(down, s->down_l, false, out->n_ranks, tree->down, tree->down_path));
    }
    return ST_OK;
}

static int64_t total_weight(const struct packing *p)
{
    int64_t sum = 0;

    for (size_t i = 0; i < p->n; i++) {
        sum += p->trees[i].weight;
    }
    return sum;
}

/* The next tree of `root` from *i on, or NULL. */
static const struct branch *next_of(const struct packing *p, int root, size_t *i)
{
    while (*i < p->n && p->trees[*i].root != root) {
        (*i)++;
    }
    return *i < p->n ? &p->trees[*i] : NULL;
}

static enum status add_one_way(const struct solution *s, struct plan *out)
{
    bool up = s->up.n > 0;
    const struct packing *p = up ? &s->up : &s->down;
    int64_t total = total_weight(p);

    for (int r = 0; r < out->n_ranks; r++) {
        const struct branch *b;
        for (size_t i = 0; (b = next_of(p, r, &i)) != NULL; i++) {
            TRY(add_tree(s, up ? b : NULL, up ? NULL : b, share_make(b->weight, total), out));
        }
    }
    return ST_OK;
}

/*
 * Trees for both passes: for every root the up and the down trees are laid side by side, and each
 * stretch on which both stay the same is a tree of the plan.
 */
static enum status add_both_ways(const struct solution *s, struct plan *out)
{
    int64_t up_total = total_weight(&s->up), down_total = total_weight(&s->down);
    int64_t d = gcd64(up_total, down_total), up_by = down_total / d, down_by = up_total / d;

    for (int r = 0; r < out->n_ranks; r++) {
        size_t i = 0, j = 0;
        int64_t used_up = 0, used_down = 0;
        const struct branch *up, *down;
        while ((up = next_of(&s->up, r, &i)) != NULL && (down = next_of(&s->down, r, &j)) != NULL) {
            int64_t a = up->weight * up_by - used_up, b = down->weight * down_by - used_down;
            int64_t w = a < b ? a : b;
            TRY(add_tree(s, up, down, share_make(w, up_total * up_by), out));
            used_up = w == a ? 0 : used_up + w;
            used_down = w == b ? 0 : used_down + w;
            i += w == a;
            j += w == b;
        }
    }
    return ST_OK;
}

static enum status add_trees(const struct solution *s, struct plan *out)
{
    return s->up.n > 0 && s->down.n > 0 ? add_both_ways(s, out) : add_one_way(s, out);
}

struct solve_request treepack_request(enum collective c, int root)
{
    struct solve_request q = {.root = root};

    q.reversed = c == COLL_REDUCE || c == COLL_REDUCE_SCATTER;
    q.kind = c == COLL_ALLREDUCE                       ? SOLVE_ALLREDUCE
             : c == COLL_BROADCAST || c == COLL_REDUCE ? SOLVE_BROADCAST
                                                       : SOLVE_ALLGATHER;
    return q;
}

/* A hop's latency for the choice among packings: the slowest link's, and a command's start. */
static double hop_latency_s(const struct topo *t)
{
    int64_t most = 0;

    for (int i = 0; i < t->n_links; i++) {
        most = t->links[i].latency_ns > most ? t->links[i].latency_ns : most;
    }
    return 1e-9 * (double)most + 2e-6;
}

enum status treepack_add_best(const struct topo *t, const struct solve_request *r, size_t n_bytes,
                              struct plan *out)
{
    struct pareto p;
    const struct candidate *best;
    enum status st;

    TRY(pareto_create(t, r, &p));
    best = pareto_pick(&p, n_bytes, hop_latency_s(t));
    out->bound_bytes_per_s = lattice_rate(best->solution.whole, best->solution.bound.rate);
    st = explain_bound(t, &best->solution, r, out);
    if (st == ST_OK) {
        st = add_trees(&best->solution, out);
    }
    pareto_fini(&p);
    return st;
}

static enum status treepack_plan(const struct topo *t, const struct plan_request *q,
                                 struct plan *out)
{
    struct solve_request r = treepack_request(q->collective, q->root);

    return treepack_add_best(t, &r, q->n_bytes, out);
}

const struct planner_ops treepack_planner = {
    .name = "treepack",
    .desc = "the optimal packing of trees for the topology, with its proof",
    .plan = treepack_plan,
};
