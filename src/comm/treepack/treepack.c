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
 * The options are in treepack_options.h, the mathematics is in solve.c and below it.
 */
#include "comm/treepack/treepack.h"

#include <string.h>

#include "base/mem.h"
#include "comm/planners.h"
#include "comm/treepack/choose.h"
#include "comm/treepack/explain.h"
#include "comm/treepack/hybrid.h"
#include "comm/treepack/mwu.h"
#include "comm/treepack/phases.h"
#include "comm/treepack/treepack_options.h"

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

/* Blink's packing in place of the exact one, below the same bound. */
static enum status add_mwu(const struct topo *t, const struct solve_request *r,
                           const struct treepack_options *o, struct plan *out)
{
    struct mwu_options m = {o->epsilon, o->threshold};
    struct mwu_result w = {0};
    struct solution s = {0};
    int *rev = mem_alloc((size_t)t->n_links, sizeof *rev);
    enum status st = rev == NULL ? ST_NOMEM : mwu_pack(t, r, &m, &w);

    if (st == ST_OK) {
        st = solve(t, r, &s);
    }
    if (st == ST_OK) {
        struct lattice **l = r->reversed ? &s.up_l : &s.down_l;
        struct packing *p = r->reversed ? &s.up : &s.down;
        lattice_destroy(*l);
        packing_fini(p);
        *l = w.l;
        *p = w.reduced;
        w.l = NULL;
        packing_init(&w.reduced, t->n_devices);
        if (r->kind == SOLVE_ALLREDUCE) {
            (void)solve_mirror_links(t, rev);
            lattice_destroy(s.up_l);
            s.up_l = NULL;
            packing_fini(&s.up);
            st = solve_mirror(s.down_l, rev, &s.up_l);
        }
    }
    if (st == ST_OK && r->kind == SOLVE_ALLREDUCE) {
        st = packing_copy(&s.down, &s.up);
    }
    if (st == ST_OK) {
        out->bound_bytes_per_s = lattice_rate(s.whole, s.bound.rate);
        st = explain_bound(t, &s, r, out);
    }
    if (st == ST_OK) {
        st = add_trees(&s, out);
    }
    solution_fini(&s);
    mwu_result_fini(&w);
    mem_free(rev);
    return st;
}

static enum status treepack_plan(const struct topo *t, const struct plan_request *q,
                                 struct plan *out)
{
    struct solve_request r = treepack_request(q->collective, q->root);
    struct treepack_options o;

    TRY(treepack_options_read(q->options, &o));
    r.fixed_k = o.k;
    if (o.mwu) {
        return add_mwu(t, &r, &o, out);
    }
    if (o.phases) {
        return phases_plan(t, &r, out);
    }
    if (o.hybrid[0] != '\0') {
        return hybrid_plan(t, &r, o.hybrid, o.switch_s, q->n_bytes, out);
    }
    return treepack_add_best(t, &r, q->n_bytes, out);
}

const struct planner_ops treepack_planner = {
    .name = "treepack",
    .desc = "the optimal packing of trees for the topology, with its proof",
    .plan = treepack_plan,
};
