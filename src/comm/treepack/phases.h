#ifndef TREEPACK_PHASES_H
#define TREEPACK_PHASES_H

#include "comm/plan.h"
#include "comm/treepack/solve.h"

/*
 * Allreduce over several servers in three phases (Blink, sec. 3.5): reduce inside each server over
 * its own trees, among the servers' roots in one hop, and back. The message is cut wherever a
 * server's tree ends; each part has one tree in every server, and is cut again so that every
 * server's root is the root of all for one piece.
 *
 *     2 servers:   a ─ b ═ c ─ d      for half of the part rooted at b, for half at c
 *
 * Servers are what hangs together without NICs and the network. The edges between servers are left
 * to be routed. Errors: ST_INPUT (one server), and as solve.
 */
MUST_CHECK enum status phases_plan(const struct topo *t, const struct solve_request *q,
                                   struct plan *out);

#endif
