#ifndef COMM_ROUTE_H
#define COMM_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/plan.h"

/*
 * The cheapest path from vertex `from` to vertex `to`: fewest links, then the fattest, through no
 * device but its ends; links without capacity do not count. `*out` owns its links (mem_free); from
 * = to gives n = 0. `found` tells whether there is one. Errors: ST_NOMEM.
 */
MUST_CHECK enum status route_find(const struct topo *t, int from, int to, struct path *out,
                                  bool *found);

/*
 * An order of all ranks in which each reaches the next directly, over paths as fat as the best such
 * order allows; among those with the fewest links in the longest path; among those the one that is
 * smallest in dictionary order. `first` is the rank to begin with or -1 for any; with `closed` the
 * last one reaches the first too. `both_ways` asks the same of the opposite direction. `found` is
 * false if the topology has none (beyond 16 ranks: or none was met within the search's limit).
 * Errors: ST_NOMEM.
 */
MUST_CHECK enum status route_chain(const struct topo *t, int first, bool closed, bool both_ways,
                                   int *order, bool *found);

/*
 * Why route_chain finds nothing, as a part of a sentence: the first device with too few neighbours
 * (none, in a closed chain fewer than two), three ends of a chain that has two, or that no order
 * fits. Errors: ST_NOMEM.
 */
MUST_CHECK enum status route_why_not(const struct topo *t, bool closed, char text[192]);

#endif
