#ifndef COMM_PLAN_FORESTCOLL_H
#define COMM_PLAN_FORESTCOLL_H

#include "comm/plan.h"

/*
 * Read the trees of a ForestColl schedule (<Algo nchunkspernode><tree root nchunks><send src dst
 * path>) as a plan of an allgather on `t`. Numbers below the number of devices are ranks, the next
 * ones the vertices of `t` that are no devices, in order. Errors: ST_INPUT, ST_NOMEM.
 */
MUST_CHECK enum status plan_forestcoll_read(const char *path, const struct topo *t,
                                            struct plan **out);

#endif
