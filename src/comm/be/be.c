/*
 * Bidirectional exchange (BE): recursive halving towards the owner of each block, recursive
 * doubling back.
 *
 *   P = 4, block of rank 0      3 -> 1, 2 -> 0 (distance 2)  then  1 -> 0 (distance 1)
 *   P = 5                       rank 4 hangs on rank 0 as a leaf
 *
 * In the tree of block r the parent of v is v with the highest bit in which it differs from r
 * turned over. Q = the largest power of two in P, one block for each of the first Q ranks; a rank
 * v >= Q hands everything to v - Q. Allreduce for P = Q: 2 log2 P rounds, 2 (P-1)/P n b +
 * (P-1)/P n c; every block is a message of its own, so 2 (P-1) a. With a root (broadcast, reduce)
 * each block's tree is the same one, hung up at the root. Source: Rabenseifner; Chan et al. 2007,
 * sec. 5.
 */
#include "comm/planners.h"

static int high_bit(int x)
{
    int bit = 1;

    while (bit <= x / 2) {
        bit *= 2;
    }
    return bit;
}

/* The next rank on the way from v to `owner`, for v != owner. */
static int towards(int v, int owner, int q)
{
    int in = owner < q ? owner : owner - q; /* the owner's place among the first q ranks */

    if (v >= q) {
        return v - q;
    }
    return v == in ? owner : v ^ high_bit(v ^ in);
}

/* Block of `owner`, hung up at `root`: the edges between the two turn round. */
static enum status add_exchange(struct plan *p, int root, int owner, int q, struct share share)
{
    struct tree *tree;

    TRY(plan_add_tree(p, root, share, &tree));
    for (int v = 0; v < p->n_ranks; v++) {
        if (v != owner) {
            tree_set_parent(tree, v, towards(v, owner, q));
        }
    }
    for (int v = root, from = -1; v >= 0 && root != owner;) {
        int next = v == owner ? -1 : towards(v, owner, q);
        tree_set_parent(tree, v, from);
        from = v;
        v = next;
    }
    return ST_OK;
}

static enum status be_plan(const struct topo *t, const struct plan_request *q, struct plan *out)
{
    bool blocks = q->collective == COLL_REDUCE_SCATTER || q->collective == COLL_ALLGATHER;
    int pow2 = high_bit(q->n_ranks), n_blocks = blocks ? q->n_ranks : pow2;

    (void)t;
    out->pipelined = false;
    for (int r = 0; r < n_blocks; r++) {
        TRY(add_exchange(out, out->root >= 0 ? out->root : r, r, pow2, share_make(1, n_blocks)));
    }
    return ST_OK;
}

const struct planner_ops be_planner = {
    .name = "be",
    .desc = "bidirectional exchange: recursive halving, then doubling",
    .plan = be_plan,
};
