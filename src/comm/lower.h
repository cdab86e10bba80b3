#ifndef COMM_LOWER_H
#define COMM_LOWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/program.h"

/* How a program is made of a plan, tree by tree: hops first, then operations and their order. */

/* One hop of one tree, before hops are joined: dst = src[0] (op src[1]). */
struct draft {
    struct program_ref src[2], dst;
    int n_src, hub; /* hub: the node at the parent's end */
    const struct path *path;
    bool finish;
};

/* Work space for lowering one tree. */
struct lower {
    const struct plan *plan;
    struct program *p;
    struct draft *drafts; /* [2 n_nodes + 1] */
    size_t n_drafts;
    int *order;                /* [n_nodes] breadth first from the root */
    int *first, *child;        /* children of v: child[first[v]] ... child[first[v + 1] - 1] */
    int *height;               /* [n_nodes] of the subtree below a node */
    int *count;                /* [n_nodes + 1] */
    uint64_t *before, *direct; /* a row of bits for each operation: nodes' posts, then operations */
    size_t row;
    size_t cap_ops, cap_refs, cap_ints;
};

/* Errors: ST_NOMEM; `l` may then only be released. */
MUST_CHECK enum status lower_init(struct lower *l, const struct plan *plan, struct program *p);
void lower_fini(struct lower *l);

/* Append the operations of `t` to the program; sets op and n_ops of `*out`. Errors: ST_NOMEM. */
MUST_CHECK enum status lower_tree(struct lower *l, const struct tree *t, struct program_tree *out);

/* lower_hops.c: write the hops of `t` to l->drafts, in an order in which they could run. */
void lower_hops(struct lower *l, const struct tree *t);

static inline bool lower_same(struct program_ref a, struct program_ref b)
{
    return a.node == b.node && a.buf == b.buf;
}

#endif
