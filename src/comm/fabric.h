#ifndef COMM_FABRIC_H
#define COMM_FABRIC_H

#include <stddef.h>

#include "base/status.h"
#include "comm/plan.h"

/*
 * The timing of links: when a message of so many bytes, ready at some time, arrives over a path.
 *
 * A message starts when all links of its path are free, and takes the sum of their latencies (a)
 * plus its bytes over the slowest one. Each link is taken for a + bytes / its own capacity: a
 * message of one link of capacity 1/b keeps it for a + n b. Links serve in the order of the calls.
 * Times are in seconds from any origin.
 */
struct fabric;

/* All times are `scale` times those of the topology, which must outlive it. Errors: ST_NOMEM. */
MUST_CHECK enum status fabric_create(const struct topo *t, double scale, struct fabric **out);
void fabric_destroy(struct fabric *f); /* takes NULL */

/* The time of arrival; NULL or empty paths take no time. */
double fabric_send(struct fabric *f, const struct path *path, double bytes, double ready_s);

#endif
