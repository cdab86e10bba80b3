#ifndef TOPO_PLAN_VERIFY_H
#define TOPO_PLAN_VERIFY_H

#include <stdio.h>

#include "topo/topo.h"

/*
 * Check a plan file against a topology from the definitions alone, sharing nothing with what made
 * it: every tree spans and runs along links that exist, shares are exact and sum to 1 (and to 1/P
 * for each root of a reduce-scatter or an allgather), the claimed rate is what the fullest link
 * allows, the certificate adds up to the claimed bound, and the rate does not exceed it. Devices
 * may be a part of the topology's, and where the plan names the kinds of links that it was made
 * for, the others do not count (unless `t` is filtered already). What was found goes to `report`
 * (may be NULL). Errors: ST_INPUT, the reason logged; ST_NOMEM.
 */
MUST_CHECK enum status plan_verify(const char *path, const struct topo *t, FILE *report);

#endif
