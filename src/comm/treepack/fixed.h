#ifndef TREEPACK_FIXED_H
#define TREEPACK_FIXED_H

#include "comm/treepack/solve.h"

/*
 * q->fixed_k trees for each unit of `demand`, which is scaled in place, where the exact optimum
 * would take too many. Finds the smallest stretch U for which capacities floor(U c) hold them,
 * splits and packs.
 * `*each` is the rate per unit of demand k / U, below the optimum x by at most a factor 1 / (1 + x
 * / (k c)), c the smallest capacity. Errors: as solve.
 */
MUST_CHECK enum status fixed_pack(const struct lattice *l, const struct solve_request *q,
                                  int64_t *demand, struct lattice **used, struct packing *p,
                                  struct frac *each);

/* Only the rate of it. Errors: ST_NOMEM. */
MUST_CHECK enum status fixed_rate(const struct lattice *l, int64_t k, int64_t *demand,
                                  struct frac *each);

#endif
