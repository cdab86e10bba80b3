#ifndef TREEPACK_RELAY_H
#define TREEPACK_RELAY_H

#include "comm/treepack/bound.h"
#include "comm/treepack/pack.h"

/*
 * A broadcast over many equal boxes on a network. Every port of a box takes in one tree and sends
 * on as much as it takes in, so that a box that hands on a tree to several others does so in few of
 * the trees: it is inside them and a leaf of the others (as in SplitStream, Castro et al. 2003).
 * The depth in boxes is logarithmic, where chains of boxes would have the same rate.
 *
 * `*found` tells whether the boxes are of that form and the trees reach `bound`; only then the
 * others are written. Errors: ST_NOMEM.
 */
MUST_CHECK enum status relay_pack(const struct lattice *l, int root, const struct bound *bound,
                                  bool *found, struct lattice **used, struct packing *p);

#endif
