#ifndef TREEPACK_EXPLAIN_H
#define TREEPACK_EXPLAIN_H

#include "comm/plan.h"
#include "comm/treepack/solve.h"

/*
 * Put the certificate of a solution into a plan: as parts of the topology's vertices, and as a
 * sentence that a person can add up. Errors: ST_NOMEM.
 */
MUST_CHECK enum status explain_bound(const struct topo *t, const struct solution *s,
                                     const struct solve_request *q, struct plan *out);

#endif
