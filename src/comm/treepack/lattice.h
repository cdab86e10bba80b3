#ifndef TREEPACK_LATTICE_H
#define TREEPACK_LATTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "topo/topo.h"

/*
 * The graph that the planner computes on. Everything is an integer: capacities are counted in a
 * unit of bytes per second that divides all of them.
 */
__extension__ typedef __int128 wide;

/* A fraction in lowest terms, den > 0. */
struct frac {
    int64_t num, den;
};

struct frac frac_make(int64_t num, int64_t den); /* den != 0 */
int frac_compare(struct frac a, struct frac b);  /* below, equal to or above 0, as a - b */
int64_t gcd64(int64_t a, int64_t b);

/* A connection from vertex to vertex that crosses the links `links` of the topology in order. */
struct arc {
    int from, to;
    int64_t cap; /* units */
    int *links;
    int n_links;
    int first, second; /* the arcs that it was joined from, or -1 */
};

/*
 * Vertices 0 ... n_dev-1 are the devices in rank order, the others switches, NICs and nets, which
 * forward only. One unit of capacity is unit.num / unit.den bytes per second.
 */
struct lattice {
    int n, n_dev, m, room;
    struct arc *arcs;
    int *vertex; /* [n] of the topology */
    struct frac unit;
};

/*
 * The lattice of a topology. Switches from which or to which nothing leads are dropped. Errors:
 * ST_NOMEM.
 */
MUST_CHECK enum status lattice_create(const struct topo *t, struct lattice **out);
void lattice_destroy(struct lattice *l); /* takes NULL */

/* A copy, with every arc turned around if `reversed` (the links of its path are then in reverse
 * order: last crossed first). Errors: ST_NOMEM. */
MUST_CHECK enum status lattice_copy(const struct lattice *l, bool reversed, struct lattice **out);

/* Append an arc whose path is that of arc `a` and then that of arc `b` (or -1). Errors: ST_NOMEM.
 */
MUST_CHECK enum status lattice_join(struct lattice *l, int a, int b, int64_t cap);

/* A lattice with the vertices of `l` and no arcs. Errors: ST_NOMEM. */
MUST_CHECK enum status lattice_empty(const struct lattice *l, struct lattice **out);

/* Append an arc of `out` that runs over the `n` arcs `path` of `l`, given from the last to the
 * first. Errors: ST_NOMEM. */
MUST_CHECK enum status lattice_chain(struct lattice *out, const struct lattice *l, const int *path,
                                     int n, int64_t cap);

/* Multiply every capacity by `by`; the unit shrinks accordingly. False on overflow. */
bool lattice_scale(struct lattice *l, int64_t by);

/* Capacity that enters and leaves a vertex. */
int64_t lattice_in(const struct lattice *l, int v);
int64_t lattice_out(const struct lattice *l, int v);

/*
 * rev[a]: the arc from a's end to its start with the same capacity over the same kinds of links.
 * Returns false if some arc has no such partner: the lattice is not symmetric.
 */
bool lattice_pair(const struct lattice *l, const struct topo *t, int *rev);

/* `units` as bytes per second. */
double lattice_rate(const struct lattice *l, struct frac units);

#endif
