#ifndef TREEPACK_SPLIT_H
#define TREEPACK_SPLIT_H

#include "comm/treepack/lattice.h"

/*
 * Can demand[r] trees from every device r be packed, as far as cuts tell: is there a flow of the
 * whole demand from a source that feeds the roots to each device? Errors: ST_NOMEM.
 */
MUST_CHECK enum status split_feasible(const struct lattice *l, const int64_t *demand, bool *yes);

/*
 * Replace every switch by direct arcs between its neighbours (edge splitting, Bang-Jensen, Frank
 * and Jackson 1995) such that the demand still fits. Afterwards the arcs with a capacity join
 * devices, and each names the links that it crosses. Capacity is spread evenly over the ports,
 * which keeps the trees shallow; equal stars and switches with two neighbours need no search.
 * Errors: ST_NOMEM; ST_UNSUPPORTED if a switch that can send out more than it takes in stands in
 * the way.
 */
MUST_CHECK enum status split_switches(struct lattice *l, const int64_t *demand, int spread);

#endif
