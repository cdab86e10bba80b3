#ifndef COMM_STAR_H
#define COMM_STAR_H

#include "comm/plan.h"

/*
 * Append a tree in which every rank but `root` and `hub` hangs on `hub`, and `hub` on `root`; the
 * same node for both gives a plain star. Errors: ST_NOMEM.
 */
MUST_CHECK enum status star_add(struct plan *p, int root, int hub, struct share share);

#endif
