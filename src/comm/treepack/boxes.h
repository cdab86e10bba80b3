#ifndef TREEPACK_BOXES_H
#define TREEPACK_BOXES_H

#include "comm/treepack/bound.h"
#include "comm/treepack/pack.h"

/*
 * Allgather over equal boxes on one network, in closed form: every device sends its shard to the
 * devices of its own number in the other boxes, and each of these hands it on inside its box. Trees
 * of depth 2, one per root.
 *
 *      box 0: 0 1 2 3     box 1: 4 5 6 7      the tree of 1:   1 → 0 2 3
 *                                                              1 → 5 → 4 6 7
 *
 * `*found` tells whether the lattice is of that kind and the trees reach `bound`; only then are the
 * outputs set. Errors: ST_NOMEM.
 */
MUST_CHECK enum status boxes_pack(const struct lattice *l, const struct bound *bound, bool *found,
                                  struct lattice **used, struct packing *p);

#endif
