#ifndef COMM_PLAN_H
#define COMM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "topo/topo.h"

enum collective {
    COLL_BROADCAST,
    COLL_REDUCE,
    COLL_ALLREDUCE,
    COLL_REDUCE_SCATTER,
    COLL_ALLGATHER,
};

/* A part of the message, num / den, in lowest terms. */
struct share {
    int64_t num, den;
};

/* The links that an edge of a tree crosses, in order: indices into topo->links. */
struct path {
    int *links;
    int n;
};

/*
 * One rooted spanning tree over the nodes of a plan. In the up pass data is reduced from each node
 * towards the root along up[]; in the down pass it is copied away from the root along down[].
 */
struct tree {
    int root;
    struct share share;
    int *up; /* [n_nodes] the parent each node sends to; -1 at the root. NULL: the tree has no up
                pass */
    int *
        down; /* [n_nodes] the parent each node receives from; -1 at the root. NULL: no down pass */
    struct path *up_path;   /* [n_nodes] node -> up[node]; n = 0 where there is no parent */
    struct path *down_path; /* [n_nodes] down[node] -> node */
};

/*
 * What proves a bound, by the part of each vertex of the topology. A cut: what leads from part 0 to
 * part 1. A partition: what joins the parts, which hold all devices; -1 is a switch in none of
 * them. Weighted cuts: see proof_cut.
 */
enum proof_kind {
    PROOF_NONE,
    PROOF_CUT,
    PROOF_PARTITION,
    PROOF_WEIGHTED_CUTS,
};

/*
 * A set of vertices that every down tree (or up tree) rooted outside enters (or leaves). A switch
 * passes on no more than it takes in; its weight adds that up with the cuts.
 */
struct proof_cut {
    bool up;
    int64_t weight;
    unsigned char *inside; /* [n_vertices] */
};

struct proof {
    enum proof_kind kind;
    int n_parts;
    int *part; /* [n_vertices]; NULL for weighted cuts */
    struct proof_cut *cuts;
    int n_cuts;
    int64_t *switch_weight; /* [2 n_vertices]: of the down and the up pass */
    int64_t den;            /* of all weights */
};

/*
 * Any collective as a forest. The message is cut in the order of the trees: tree t carries the
 * elements from floor(n S_t) to floor(n S_{t+1}), S_t being the sum of the shares before it. For
 * reduce-scatter and allgather the trees are sorted by root, and the shares of root r sum to 1/P,
 * so that rank r's block is the r-th.
 *
 * Nodes 0 ... n_ranks-1 are the ranks. A node from n_ranks on is a relay with memory of its own
 * (the host of `central-host`): it contributes nothing and may be a root; node v runs on vertex
 * vertex_of[v].
 */
struct plan {
    enum collective collective;
    char backend[32];
    int n_ranks, n_nodes;
    int *vertex_of; /* [n_nodes] */
    int root;       /* broadcast and reduce; else -1 */
    struct tree *trees;
    size_t n_trees;
    bool pipelined;           /* false: each hop waits for the whole share (mst) */
    size_t chunk_bytes;       /* 0: chosen from the cost model */
    double bound_bytes_per_s; /* proved upper bound of algbw on this topology, 0 if none was
                                 computed */
    char *bottleneck;         /* the bound's proof as a sentence, or NULL */
    bool quiet;               /* as in the request */
    struct proof proof;
};

struct plan_request {
    enum collective collective;
    int n_ranks;
    int root;            /* broadcast and reduce */
    size_t n_bytes;      /* size of the message the plan is meant for; 0 = large */
    const char *options; /* planner-specific text from the config, or NULL */
    bool quiet;          /* a trial: say nothing if the topology does not fit */
};

/* A way to lay a collective over a topology. It only writes a forest; it moves no bytes. */
struct planner_ops {
    const char *name; /* value of [comm] backend */
    const char *desc; /* one line, shown by --help */
    MUST_CHECK enum status (*plan)(const struct topo *t, const struct plan_request *q,
                                   struct plan *out);
};

/* The names for `collective` in configs and files; NULL / false for unknown ones. */
const char *collective_name(enum collective c);
bool collective_find(const char *name, enum collective *out);

/* The registered planner of that name, or NULL; and all of them in order (NULL past the end). */
const struct planner_ops *planner_find(const char *name);
const struct planner_ops *planner_at(size_t i);

/*
 * Make the plan of `backend` and check it. Errors: ST_INPUT with a reason (unknown backend with the
 * nearest name, topology without what the backend needs), ST_NOMEM. `*out` is written only on
 * success.
 */
MUST_CHECK enum status plan_create(const char *backend, const struct topo *t,
                                   const struct plan_request *q, struct plan **out);

/* The same with a planner that need not be registered. */
MUST_CHECK enum status plan_create_with(const struct planner_ops *ops, const struct topo *t,
                                        const struct plan_request *q, struct plan **out);

/* A plan without trees: the collective is left to a library. Nothing checks it. */
MUST_CHECK enum status plan_create_bare(const char *backend, const struct topo *t,
                                        const struct plan_request *q, struct plan **out);
void plan_destroy(struct plan *p); /* takes NULL */

/* --- For planners --- */

/* Append a tree without edges: every parent -1. `*out` is valid until the next call. Errors:
 * ST_NOMEM. */
MUST_CHECK enum status plan_add_tree(struct plan *p, int root, struct share share,
                                     struct tree **out);

/*
 * Append a relay, a node without a contribution that runs on `vertex`; call before the first tree.
 * `*node` is its number. Errors: ST_NOMEM.
 */
MUST_CHECK enum status plan_add_relay(struct plan *p, int vertex, int *node);

/* The topology does not have what the plan needs: log it, unless this is only a trial. Returns
 * ST_INPUT. */
MUST_CHECK enum status plan_refuse(const struct plan *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Hang `node` under `parent` in every pass that the tree has. */
void tree_set_parent(struct tree *t, int node, int parent);

/*
 * Give every edge that has no path yet the cheapest one in `t` (fewest links, then the fattest)
 * that crosses no other device. Errors: ST_INPUT naming two ranks that are not connected so;
 * ST_NOMEM.
 */
MUST_CHECK enum status plan_route(struct plan *p, const struct topo *t);

/* Does the collective have a pass towards the roots, or one away from them? */
bool collective_has_up(enum collective c);
bool collective_has_down(enum collective c);

/* Is one rank the root of all trees? */
bool collective_has_root(enum collective c);

/* num/den in lowest terms; den > 0. */
struct share share_make(int64_t num, int64_t den);

/* --- For everybody --- */

/*
 * Check a plan against its topology: trees span, shares are positive and sum to exactly 1, roots
 * fit the collective, edges run along existing links from end to end. Errors: ST_INTERNAL with the
 * reason logged.
 */
MUST_CHECK enum status plan_check(const struct plan *p, const struct topo *t);

/* Seconds per message byte that the fullest link needs: max over links of (sum of shares over it) /
 * capacity. */
double plan_link_seconds_per_byte(const struct plan *p, const struct topo *t);

/* Longest path of a tree's pass in hops, maximum over trees and passes. */
int plan_depth(const struct plan *p);

#endif
