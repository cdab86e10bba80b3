#ifndef TESTS_TREEPACK_CLASSES_H
#define TESTS_TREEPACK_CLASSES_H

#include "topo/topo.h"

/* A DGX-1, for the enumeration of its sub-topologies. */
struct machine {
    struct topo *t; /* NVLink only */
    int lanes[8][8];
};

/* The GPUs `ranks` and the lanes between them. */
struct sub {
    int n, ranks[8];
    int lanes[8][8];
};

/* Open a topology of 8 GPUs by name or path; close with topo_destroy(m->t). Errors: as topo_open.
 */
MUST_CHECK enum status machine_open(struct machine *m, const char *name);

/* One of each class of isomorphic connected subsets of 3 to 8 GPUs; returns their number. */
int classes(const struct machine *m, struct sub *out);

#endif
