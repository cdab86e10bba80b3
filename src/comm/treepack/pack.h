#ifndef TREEPACK_PACK_H
#define TREEPACK_PACK_H

#include "comm/treepack/lattice.h"

/* A tree that is used `weight` times: the arc that enters each device, -1 at the root. */
struct branch {
    int root;
    int64_t weight;
    int *arc; /* [n_dev] */
};

struct packing {
    int n_dev;
    size_t n, room;
    struct branch *trees;
};

void packing_init(struct packing *p, int n_dev);
void packing_fini(struct packing *p);

/* Append a copy of `arc`, or add to the weight of the tree that is equal. Errors: ST_NOMEM. */
MUST_CHECK enum status packing_add(struct packing *p, int root, int64_t weight, const int *arc);

MUST_CHECK enum status packing_copy(const struct packing *p, struct packing *out);

/* Longest way from the root of tree i, in arcs. */
int packing_depth(const struct packing *p, const struct lattice *l, size_t i);

enum pack_order {
    PACK_SHALLOW, /* vertices near the root first, the largest share among those */
    PACK_FEW,     /* the largest share first, wherever it hangs */
    PACK_WHOLE,   /* vertices near the root first, over arcs that take all trees of a batch */
};

struct pack_how {
    enum pack_order order;
    uint64_t seed; /* permutes ties; 0 keeps the order of the arcs */
    int parts;     /* begin with so many batches of equal size for each root; 0 = 1 */
    bool cut;      /* up to twice as many trees, where that makes them less high */
};

/*
 * Pack demand[r] out-trees rooted at each device r into a lattice without switches (its arcs
 * between devices; others are ignored), exactly and with multiplicities (Edmonds 1973; the batches
 * are those of Bérczi and Frank 2010). That many trees must fit: for every set X of devices the
 * capacity into X is at least the demand outside X. Errors: ST_NOMEM; ST_INTERNAL if the demand
 * does not fit.
 */
MUST_CHECK enum status pack_trees(const struct lattice *l, const int64_t *demand,
                                  const struct pack_how *how, struct packing *out);

#endif
