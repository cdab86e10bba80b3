#ifndef TREEPACK_DIRECT_H
#define TREEPACK_DIRECT_H

#include "comm/treepack/solve.h"

/*
 * Fill the solution of an allreduce on `s->whole`, symmetric and without switches. demand[n_dev] is
 * work space, zeroed. Errors: as solve.
 */
MUST_CHECK enum status direct_allreduce(const struct topo *t, const struct solve_request *q,
                                        struct solution *s, int64_t *demand);

#endif
