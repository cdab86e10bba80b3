#ifndef TREEPACK_PARTITION_H
#define TREEPACK_PARTITION_H

#include "comm/treepack/bound.h"

/*
 * What a partition proves about allreduce. The parts hold all devices; switches may stay outside.
 * Every element enters t - 1 of the t parts on the way down and leaves t - 1 of them on the way up.
 * An arc between two parts can serve both. What goes through switches outside enters and leaves
 * their component, so a component serves at most the smaller of its capacities in and out. Hence
 *
 *     2 (t - 1) rate <= direct + sum over components of min(in, out).
 */
MUST_CHECK enum status partition_rate(const struct lattice *l, const int *part, int n_parts,
                                      struct frac *rate);

/* The best of the partitions that suggest themselves: single devices, boxes by the width of their
 * links, with switches inside or outside. Errors: ST_NOMEM. */
MUST_CHECK enum status partition_bound(const struct lattice *l, struct bound *b);

#endif
