#ifndef TREEPACK_MWU_H
#define TREEPACK_MWU_H

#include "comm/treepack/solve.h"

/*
 * Blink's own method (sec. 3.2): multiplicative weights over shortest trees, then the number of
 * trees reduced. Approximate, on direct links; here to be compared with the exact packing.
 */
struct mwu_options {
    double epsilon;   /* the rate is at least 1 - epsilon of the optimum */
    double threshold; /* the reduced set may lose that part of the rate */
};

struct mwu_result {
    struct lattice *l; /* the arcs of all trees */
    int iterations;
    struct packing raw;     /* what the iterations gave */
    struct frac raw_rate;   /* in units of the lattice */
    struct packing reduced; /* weights are counts of 1 / den units */
    struct frac reduced_rate;
    int den; /* 1: whole units; more where whole units miss the threshold */
};

/* Broadcast from q->root, or allreduce on a symmetric lattice (with trees for both ways). Errors:
 * ST_UNSUPPORTED (switches, other collectives), ST_INPUT (not connected), ST_NOMEM. */
MUST_CHECK enum status mwu_pack(const struct topo *t, const struct solve_request *q,
                                const struct mwu_options *o, struct mwu_result *out);
void mwu_result_fini(struct mwu_result *r); /* takes a zeroed one */

#endif
