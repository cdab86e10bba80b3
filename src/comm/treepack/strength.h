#ifndef TREEPACK_STRENGTH_H
#define TREEPACK_STRENGTH_H

#include "comm/treepack/bound.h"

/*
 * Allreduce on a symmetric lattice without switches: the strength, the least over partitions into
 * parts of c(P) / (|P| - 1), c(P) counting a full-duplex connection between parts once
 * (Tutte, Nash-Williams 1961). Every element crosses between the parts at least 2 (|P| - 1) times,
 * so nothing is faster; trees used up and down reach it.
 *
 * `edges` are arcs of `l`, one of each pair, in the order of preference. Besides the bound p/q:
 * `held` [n_edges][2] says how many units of edge e, capacities scaled by q, are directed into the
 * arc's start and into its end, such that p trees rooted at `root` can be packed into these
 * directed units. Errors: ST_NOMEM, ST_INPUT (not connected, capacities too finely graded).
 */
MUST_CHECK enum status strength_bound(const struct lattice *l, const int *edges, int n_edges,
                                      int root, struct bound *b, int64_t (*held)[2]);

#endif
