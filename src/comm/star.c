#include "comm/star.h"

enum status star_add(struct plan *p, int root, int hub, struct share share)
{
    bool alone = p->n_ranks == 1 && root != hub; /* a relay between nobody would be a leaf */
    struct tree *tree;

    TRY(plan_add_tree(p, root, share, &tree));
    if (hub != root && !alone) {
        tree_set_parent(tree, hub, root);
    }
    for (int v = 0; v < p->n_ranks; v++) {
        if (v != root && v != hub) {
            tree_set_parent(tree, v, hub);
        }
    }
    return ST_OK;
}
