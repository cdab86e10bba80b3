#ifndef TREEPACK_ARBORESCENCE_H
#define TREEPACK_ARBORESCENCE_H

#include "comm/treepack/lattice.h"

/*
 * The out-tree from `root` over all devices whose arcs have the least total length (Chu and Liu,
 * Edmonds): arc[v] enters v, -1 at the root. Arcs between devices only. `*found` is false if a
 * device is not reached. Errors: ST_NOMEM.
 */
MUST_CHECK enum status arborescence_find(const struct lattice *l, const double *length, int root,
                                         int *arc, bool *found);

/* The same where both directions of an edge have the same length: a spanning tree (Prim). */
void spanning_tree_find(const struct lattice *l, const double *length, int root, int *arc,
                        bool *found);

#endif
