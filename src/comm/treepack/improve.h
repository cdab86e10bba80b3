#ifndef TREEPACK_IMPROVE_H
#define TREEPACK_IMPROVE_H

#include "comm/treepack/pack.h"

/*
 * Make the trees of a packing shallower without changing the arcs' loads beyond their capacities:
 * hang a vertex nearer to the root over capacity that is left, or exchange the arcs by which two
 * trees of equal weight enter it. Up to `extra` times a tree is cut in two, where exchanging an arc
 * with a part of it makes trees less high. Errors: ST_NOMEM.
 */
MUST_CHECK enum status improve_depth(const struct lattice *l, struct packing *p, size_t extra);

#endif
