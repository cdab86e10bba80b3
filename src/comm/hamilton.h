#ifndef COMM_HAMILTON_H
#define COMM_HAMILTON_H

#include <stdbool.h>

#include "base/status.h"

/* A directed graph, and which way through all of its vertices is wanted. */
struct hamilton {
    const bool *joined; /* [n, n] does an edge lead from a to b? at [a * n + b] */
    int n;
    int first;   /* the vertex to begin with, or -1 for any */
    bool closed; /* must an edge lead from the last to the first? */
};

enum {
    HAMILTON_EXACT = 16 /* vertices up to which `found` is certain */
};

/*
 * The Hamiltonian path, or cycle, that is smallest in dictionary order. Up to HAMILTON_EXACT
 * vertices all are considered; beyond, the search may end at its limit with `found` false. `order`
 * [n] is written only where one is found. Errors: ST_NOMEM.
 */
MUST_CHECK enum status hamilton_find(const struct hamilton *q, int *order, bool *found);

#endif
