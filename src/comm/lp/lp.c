/*
 * Linear pipeline (LP): the ranks form one chain, and the message flows through it in blocks.
 *
 *   P = 4      0 -> 1 -> 2 -> 3      block j crosses hop h in step h + j
 *
 * Allreduce flows to the last rank and, block by block, back: (2P - 3 + n/b) (a + b b' + b c) for
 * blocks of b bytes, so that for n >> P b the cost does not depend on P. The chain is a Hamiltonian
 * path over the fattest links that starts at the root, where there is one; where none starts there
 * the root stands inside the chain and feeds both its arms. Source: arXiv 1611.04255.
 */
#include "base/mem.h"
#include "comm/planners.h"
#include "comm/route.h"

/* The tree on the chain whose root stands at place `at`. */
static enum status add_arms(struct plan *p, const int *order, int at, struct share share)
{
    struct tree *tree;

    TRY(plan_add_tree(p, order[at], share, &tree));
    for (int k = 0; k < p->n_ranks; k++) {
        if (k != at) {
            tree_set_parent(tree, order[k], order[k < at ? k + 1 : k - 1]);
        }
    }
    return ST_OK;
}

static enum status add_chain(struct plan *p, const int *order)
{
    int n = p->n_ranks;

    if (p->collective == COLL_ALLREDUCE) {
        return add_arms(p, order, n - 1, share_make(1, 1));
    }
    for (int r = 0; r < n; r++) {
        int at = 0;
        while (order[at] != r) {
            at++;
        }
        if (p->root < 0) {
            TRY(add_arms(p, order, at, share_make(1, n)));
        } else if (p->root == r) {
            TRY(add_arms(p, order, at, share_make(1, 1)));
        }
    }
    return ST_OK;
}

static enum status lp_plan(const struct topo *t, const struct plan_request *q, struct plan *out)
{
    int *order = mem_alloc((size_t)q->n_ranks, sizeof *order);
    char why[192];
    bool found = false;
    enum status st =
        order == NULL ? ST_NOMEM : route_chain(t, out->root, false, true, order, &found);

    if (st == ST_OK && !found && out->root >= 0) {
        st = route_chain(t, -1, false, true, order, &found);
    }
    if (st == ST_OK && !found) {
        st = route_why_not(t, false, why);
        st = st != ST_OK ? st
                         : plan_refuse(out,
                                       "backend lp needs a chain through all %d devices, topology "
                                       "%s has none: %s, choose another backend",
                                       q->n_ranks, t->name, why);
    }
    if (st == ST_OK) {
        st = add_chain(out, order);
    }
    mem_free(order);
    return st;
}

const struct planner_ops lp_planner = {
    .name = "lp",
    .desc = "linear pipeline: one chain, the message flows through it in blocks",
    .plan = lp_plan,
};
