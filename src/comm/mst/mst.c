/*
 * Binomial tree (MST). Every round halves the stride: whoever has the data hands it that far on.
 *
 *   P = 5, root 0      0 -- 4        stride 4: 0->4   2: 0->2   1: 0->1, 2->3
 *                      +- 2 -- 3
 *                      +- 1          broadcast: ceil(log2 P) (a + n b); reduce adds n c a round
 *
 * The whole message is one piece at every hop. Reduce-scatter and allgather take one such tree for
 * each block. Source: Chan et al. 2007, sec. 4; the baseline of arXiv 1611.04255.
 */
#include "comm/planners.h"

static enum status add_binomial(struct plan *p, int root, struct share share)
{
    int n = p->n_ranks;
    struct tree *tree;

    TRY(plan_add_tree(p, root, share, &tree));
    for (int v = 1; v < n; v++) { /* v: rank relative to the root; its parent clears the last bit */
        tree_set_parent(tree, (root + v) % n, (root + (v & (v - 1))) % n);
    }
    return ST_OK;
}

static enum status mst_plan(const struct topo *t, const struct plan_request *q, struct plan *out)
{
    bool blocks = q->collective == COLL_REDUCE_SCATTER || q->collective == COLL_ALLGATHER;

    (void)t;
    out->pipelined = false;
    if (!blocks) {
        return add_binomial(out, out->root >= 0 ? out->root : 0, share_make(1, 1));
    }
    for (int r = 0; r < q->n_ranks; r++) {
        TRY(add_binomial(out, r, share_make(1, q->n_ranks)));
    }
    return ST_OK;
}

const struct planner_ops mst_planner = {
    .name = "mst",
    .desc = "one binomial tree, the whole message at each hop",
    .plan = mst_plan,
};
