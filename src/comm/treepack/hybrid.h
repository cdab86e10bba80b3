#ifndef TREEPACK_HYBRID_H
#define TREEPACK_HYBRID_H

#include "comm/plan.h"
#include "comm/treepack/solve.h"

/*
 * Trees on two planes of links at once (Blink, app. A.3), e.g. NVLink and PCIe: `kinds` names those
 * of the first plane, the second has all other links. Moving data over the second plane costs
 * `switch_s` seconds more, once a message. With rates A and B the second plane carries
 *
 *     n B / (A + B) - switch_s A B / (A + B)     of n bytes (eq. 8)
 *
 * and nothing where that is not positive. n_bytes = 0: a message so large that the cost vanishes.
 * If only one plane joins the devices, it carries all. Errors: as solve.
 */
MUST_CHECK enum status hybrid_plan(const struct topo *t, const struct solve_request *q,
                                   const char *kinds, double switch_s, size_t n_bytes,
                                   struct plan *out);

#endif
