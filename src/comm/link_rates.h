#ifndef COMM_LINK_RATES_H
#define COMM_LINK_RATES_H

#include <stddef.h>

#include "base/status.h"
#include "device/device.h"
#include "topo/topo.h"

/*
 * What links reach, found by copying: the links of a topology that the driver told, with rates that
 * were measured.
 */

/*
 * Bytes per second of copies of `bytes` from the memory of rank i to that of rank j, into rates[i n
 * + j]; of each pair alone, the median of five times, and put on a stream of the sender many at a
 * time, so that waiting for it does not count. rates[i n + i] are 0. Errors: ST_NOMEM, and what the
 * devices say.
 */
MUST_CHECK enum status link_rates_measure(const struct device_ops *ops, void *set, int n,
                                          size_t bytes, double *rates);

/*
 * Set effective_bytes_per_s of every link to the most that a pair reached whose path (comm/route.h)
 * leads over it, in whole MB/s; of links on no such path it stays. A link that carried more than
 * its bytes_per_s has that raised, too. Errors: ST_NOMEM.
 */
MUST_CHECK enum status link_rates_apply(struct topo *t, const double *rates);

#endif
