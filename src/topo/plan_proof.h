#ifndef TOPO_PLAN_PROOF_H
#define TOPO_PLAN_PROOF_H

#include <jansson.h>

#include "topo/topo.h"

enum verify_kind {
    VERIFY_BROADCAST,
    VERIFY_REDUCE,
    VERIFY_ALLREDUCE,
    VERIFY_REDUCE_SCATTER,
    VERIFY_ALLGATHER,
};

/* A plan file under examination. */
struct verify {
    const char *path;
    const struct topo *t;
    json_t *root; /* the file */
    enum verify_kind kind;
    bool has_up, has_down;
    int n, n_nodes, fixed_root; /* n: ranks */
    int *vertex;                /* [n_nodes] */
    int *parent;                /* [n_nodes] of the pass at hand */
    int64_t *load, den;         /* [n_links] shares over it, in parts of den */
    size_t tree;
};

/*
 * What the file's certificate proves, in GB/s, from the topology alone. Links between devices of
 * which one is not in the plan do not count. Errors: ST_INPUT, logged.
 */
MUST_CHECK enum status plan_proof_add_up(const struct verify *v, double *bound_gbs);

#endif
