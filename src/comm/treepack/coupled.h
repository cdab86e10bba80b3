#ifndef TREEPACK_COUPLED_H
#define TREEPACK_COUPLED_H

#include "comm/treepack/solve.h"

/*
 * Allreduce where switches or unequal directions make the up and the down trees share the links:
 * fills everything but `whole` of the solution. Errors: as solve.
 */
MUST_CHECK enum status coupled_solve(const struct topo *t, const struct solve_request *q,
                                     bool symmetric, struct solution *s);

#endif
