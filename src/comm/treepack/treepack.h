#ifndef TREEPACK_TREEPACK_H
#define TREEPACK_TREEPACK_H

#include "comm/plan.h"
#include "comm/treepack/solve.h"

/* The request to the solver for a collective. */
struct solve_request treepack_request(enum collective c, int root);

/*
 * Add the trees of the best packing for messages of `n_bytes` (0: large) to an empty plan, and its
 * bound with the proof. Errors: as solve.
 */
MUST_CHECK enum status treepack_add_best(const struct topo *t, const struct solve_request *r,
                                         size_t n_bytes, struct plan *out);

#endif
