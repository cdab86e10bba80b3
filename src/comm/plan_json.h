#ifndef COMM_PLAN_JSON_H
#define COMM_PLAN_JSON_H

#include <stdio.h>

#include "comm/plan.h"

/*
 * Write `p` as a plan file, espalier-plan/1: JSON with exact shares, and for every edge of a tree
 * the vertices and kinds of links crossed. Errors: ST_IO.
 */
MUST_CHECK enum status plan_json_write(const struct plan *p, const struct topo *t, FILE *out);

/*
 * Read a plan file for the devices of `t` and check it. Errors: ST_INPUT with the reason: not such
 * a file, made for other devices or links, or a plan that plan_check refuses; ST_NOMEM.
 */
MUST_CHECK enum status plan_json_read(const char *path, const struct topo *t, struct plan **out);

/* The same, to be run for that request. Errors: also ST_INPUT if it is for another collective, root
 * or number of ranks. */
MUST_CHECK enum status plan_json_read_for(const char *path, const struct topo *t,
                                          const struct plan_request *q, struct plan **out);

#endif
