#ifndef TREEPACK_BOUND_H
#define TREEPACK_BOUND_H

#include "comm/treepack/lattice.h"

enum bound_kind {
    BOUND_CUT,       /* what leaves part 0 */
    BOUND_PARTITION, /* what joins several parts */
    BOUND_WEIGHTED_CUTS,
};

/* A set of vertices that the trees of a pass enter (down) or leave (up), and its weight. */
struct bound_cut {
    bool up;
    unsigned char *inside; /* [l->n] */
    int64_t weight;
};

/*
 * A proved upper bound of the message rate, in units of the lattice, with its certificate: the part
 * of each vertex, -1 for a switch in no part.
 */
struct bound {
    enum bound_kind kind;
    struct frac rate;
    int n_parts;
    int *part; /* [l->n]; NULL for weighted cuts */
    /*
     * Weighted cuts, all weights over cut_den: with k(e) the larger of the two sums of weights of
     * the cuts that arc e crosses in a pass (corrected by the weights of the switches at its ends),
     * rate <= sum of k(e) cap(e) / the least weight of the cuts around a root.
     */
    struct bound_cut *cuts;
    int n_cuts;
    int64_t cut_den, *switch_weight; /* [2 l->n]: down and up */
};

void bound_fini(struct bound *b);

/*
 * Broadcast from `root`: the smallest maximum flow from it to another device (Edmonds 1973). For
 * reduce pass the reversed lattice. Errors: ST_NOMEM, ST_INPUT (a device cannot be reached).
 */
MUST_CHECK enum status bound_broadcast(const struct lattice *l, int root, struct bound *b);

/*
 * Allgather: N times the largest rate per root x such that every set S of vertices that lacks a
 * device can send out what its devices contribute, x |S| <= out(S). For reduce-scatter pass the
 * reversed lattice. Exact, by Newton's iteration over cuts. Errors as above, and ST_INPUT when the
 * capacities are so finely graded that 64 bits do not hold the products.
 */
MUST_CHECK enum status bound_allgather(const struct lattice *l, struct bound *b);

#endif
