/*
 * Ring: for each of the P blocks a chain around the ring that ends at the block's owner, and one
 * that starts there.
 *
 *   P = 3, ring 0-1-2, block 0      up: 1 -> 2 -> 0        down: 0 -> 1 -> 2
 *
 * 2 (P - 1) steps, every link carries 2 (P-1)/P n bytes. Where the topology has several rings
 * without a common link, each carries a part of every block in proportion to its capacity, and
 * links of two directions give a ring for each. With a root one chain around each ring carries the
 * whole message in chunks. Sources: Patarasu and Yuan 2009; the two rings of an 8-GPU box: Wang et
 * al. 2018.
 */
#include <string.h>

#include "base/mem.h"
#include "comm/planners.h"
#include "comm/ring/cycles.h"
#include "comm/route.h"

/* Copy `hop` to the path of an edge. */
static enum status set_path(struct path *out, const struct path *hop)
{
    if (hop->n == 0) {
        return ST_OK;
    }
    out->links = mem_alloc((size_t)hop->n, sizeof *out->links);
    if (out->links == NULL) {
        return ST_NOMEM;
    }
    memcpy(out->links, hop->links, (size_t)hop->n * sizeof *out->links);
    out->n = hop->n;
    return ST_OK;
}

/* The chain on one ring of the block owned by `root`. */
static enum status add_chain(struct plan *p, const struct cycle *c, int root, struct share share)
{
    int n = p->n_ranks, at = 0;
    struct tree *tree;

    TRY(plan_add_tree(p, root, share, &tree));
    while (c->order[at] != root) {
        at++;
    }
    for (int k = 1; k < n; k++) {
        int here = (at + k) % n, before = (at + k - 1) % n, v = c->order[here];
        if (tree->up != NULL) {
            tree->up[v] = c->order[(here + 1) % n];
            TRY(set_path(&tree->up_path[v], &c->hops[here]));
        }
        if (tree->down != NULL) {
            tree->down[v] = c->order[before];
            TRY(set_path(&tree->down_path[v], &c->hops[before]));
        }
    }
    return ST_OK;
}

/* A ring's weight against the first, the fattest one, in 60ths: shares keep small denominators. */
static int64_t weight(const struct cycles *rings, int i)
{
    double part = (double)rings->cycles[i].width / (double)rings->cycles[0].width;
    int64_t w = (int64_t)(part * 60 + 0.5);

    return w > 0 ? w : 1;
}

/* Ring `i`'s part of what one root has, which is 1 / `parts` of the message. */
static struct share part_of(const struct cycles *rings, int i, int parts)
{
    int64_t sum = 0;

    for (int k = 0; k < rings->n; k++) {
        sum += weight(rings, k);
    }
    return share_make(weight(rings, i), sum * parts);
}

static enum status add_chains(struct plan *p, const struct cycles *rings)
{
    int n = p->n_ranks;

    for (int r = 0; r < n; r++) {
        for (int i = 0; i < rings->n && (p->root < 0 || p->root == r); i++) {
            TRY(add_chain(p, &rings->cycles[i], r, part_of(rings, i, p->root < 0 ? n : 1)));
        }
    }
    return ST_OK;
}

static enum status ring_plan(const struct topo *t, const struct plan_request *q, struct plan *out)
{
    struct cycles rings;
    char why[192];
    enum status st = cycles_find(t, &rings);

    if (st == ST_OK && rings.n == 0) {
        st = route_why_not(t, true, why);
        st = st != ST_OK
                 ? st
                 : plan_refuse(out,
                               "backend ring needs a cycle through all %d devices, topology "
                               "%s has none: %s, choose another backend",
                               q->n_ranks, t->name, why);
    }
    if (st == ST_OK) {
        st = add_chains(out, &rings);
    }
    cycles_fini(&rings);
    return st;
}

const struct planner_ops ring_planner = {
    .name = "ring",
    .desc = "a chain around each ring of the topology for each of the P blocks",
    .plan = ring_plan,
};
