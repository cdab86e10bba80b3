#ifndef TREEPACK_PROGRAMME_H
#define TREEPACK_PROGRAMME_H

#include "comm/treepack/solve.h"

/*
 * Divide every link between up and down trees by a linear programme in exact integers, pack both,
 * and take the multipliers for the bound unless the partition that is in `s->bound` proves the
 * same.
 * `*done` is false, and the solution untouched, if the programme was too much for 64 bits. Errors:
 * ST_NOMEM; as pack_trees.
 */
MUST_CHECK enum status programme_solve(const struct solve_request *q, struct solution *s,
                                       bool *done);

#endif
