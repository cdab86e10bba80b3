#ifndef TREEPACK_BOXSET_H
#define TREEPACK_BOXSET_H

#include "comm/treepack/lattice.h"

/*
 * Equal boxes of devices: what arcs of at least `width` join. Device number i of every box plays
 * the same part.
 */
struct boxset {
    const struct lattice *l;
    int64_t width;
    int n_boxes, size;
    int *box;         /* [n] of each vertex, -1 between the boxes */
    int *number;      /* [n_dev] */
    int *member;      /* [n_dev] device number i of box b at b * size + i */
    int *set, *via;   /* [n] work; via[v]: the arc by which the last search came to v, or -1 */
    int *head, *next; /* arcs by their start */
    int64_t *load;    /* [m] how often each arc is used by what was joined */
};

MUST_CHECK enum status boxset_init(struct boxset *b, const struct lattice *l); /* ST_NOMEM */
void boxset_fini(struct boxset *b);

/* Is `arc` the first of its capacity, and so a width worth trying? */
bool boxset_is_new_width(const struct lattice *l, int arc);

/* Number the boxes that arcs of at least `width` form; false unless there are several, equal ones
 * of two devices or more. Loads start at 0. */
bool boxset_find(struct boxset *b, int64_t width);

/* The arcs by which switches reach from device `from`, inside or outside its box: via[]. */
void boxset_search(struct boxset *b, int from, bool inside);

/* Append to `out` an arc from `from` to `to` along via[]; `uses` trees take it. *index: its number,
 * -1 if there is no way. Errors: ST_NOMEM. */
MUST_CHECK enum status boxset_join(struct boxset *b, struct lattice *out, int from, int to,
                                   int64_t uses, int *index);

/* Do the loads, in trees of rate / units each, stay within the capacities? */
bool boxset_carries(const struct boxset *b, struct frac rate, int64_t units);

#endif
