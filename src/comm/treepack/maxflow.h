#ifndef TREEPACK_MAXFLOW_H
#define TREEPACK_MAXFLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Maximum flows with integer capacities (Dinic 1970), on arrays that are reused from flow to flow.
 * Arcs 2i and 2i+1 are the two directions of the i-th arc added.
 */
struct flow {
    int n, m, room_n, room_m; /* vertices, half arcs */
    int *head, *level, *at, *queue;
    int *next, *to;
    int64_t *cap, *saved;
};

#define FLOW_INF (INT64_MAX / 4)

void flow_init(struct flow *f);
void flow_fini(struct flow *f);

/* Make room for `n` vertices and `m` arcs; what was built is lost. Errors: ST_NOMEM. */
MUST_CHECK enum status flow_reserve(struct flow *f, int n, int m);

/* Begin a network of `n` vertices without arcs, within what was reserved. */
void flow_reset(struct flow *f, int n);

/* Add an arc of capacity `cap` and one of `back` against it; returns its number. */
int flow_arc(struct flow *f, int from, int to, int64_t cap, int64_t back);

/* Remember the capacities as they are, and go back to them. */
void flow_save(struct flow *f);
void flow_restore(struct flow *f);

/* From the next flow_restore on, let arc `i` carry any amount. */
void flow_open(struct flow *f, int i);

/* Send up to `limit` units more from `s` to `t`; returns how many went through. */
int64_t flow_push(struct flow *f, int s, int t, int64_t limit);

/* Units that went over arc `i` since flow_save. */
int64_t flow_used(const struct flow *f, int i);

/* After flow_push fell short of its limit: is `v` on the source's side of the smallest cut? */
bool flow_source_side(const struct flow *f, int v);

#endif
