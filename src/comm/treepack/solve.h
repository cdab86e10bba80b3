#ifndef TREEPACK_SOLVE_H
#define TREEPACK_SOLVE_H

#include "comm/treepack/bound.h"
#include "comm/treepack/pack.h"

/* What a collective's trees look like, without the names of plans. */
enum solve_kind {
    SOLVE_BROADCAST, /* out-trees from one root */
    SOLVE_ALLGATHER, /* out-trees, the same weight from every device */
    SOLVE_ALLREDUCE, /* trees up and down, roots free */
};

enum {
    SOLVE_SMALL = 16 /* devices up to which many ways are tried */
};

struct solve_request {
    enum solve_kind kind;
    bool reversed; /* reduce instead of broadcast, reduce-scatter instead of allgather */
    int root;
    struct pack_how how;
    int64_t fixed_k; /* trees per root, for a rate below the optimum if need be; 0 = exact */
    int spread;      /* split each port of a switch among about that many others; 0 = evenly among
                        all: shallow trees, but many */
    int keep;        /* percent of the optimum rate to pack, 1 to 100; less leaves room for shallow
                        trees; 0 = 100 */
};

/*
 * A packing with its proof. Down trees are arcs of `down_l`. Up trees are arcs of `up_l`, which is
 * reversed: an arc there runs from the parent to the child, and the data the other way, crossing
 * the links of its path from the last to the first.
 *
 * `rate` and `bound.rate` are message rates in units of `whole`. The weights of all trees of a pass
 * sum to the same number, and a tree carries weight / sum of the message.
 */
struct solution {
    struct lattice *whole; /* reversed for reversed requests */
    struct bound bound;
    struct frac rate;
    struct lattice *down_l, *up_l; /* NULL: no such pass */
    struct packing down, up;
};

/*
 * Solve it. Errors: ST_NOMEM; ST_INPUT, ST_UNSUPPORTED with the reason logged. `*out` is written
 * only on success.
 */
MUST_CHECK enum status solve(const struct topo *t, const struct solve_request *q,
                             struct solution *out);

/*
 * How many unit trees the exact packing has over all roots, a measure of its effort; 1 for direct
 * allreduce, which is cheap, and 0 for a closed form. Errors: as solve.
 */
MUST_CHECK enum status solve_count(const struct topo *t, const struct solve_request *q,
                                   int64_t *trees);

/* The rate of the message, in bytes per second, with q->fixed_k equal trees per root; for allreduce
 * with half of each link for either pass, and 0 without switches. Errors: ST_NOMEM. */
MUST_CHECK enum status solve_fixed_rate(const struct topo *t, const struct solve_request *q,
                                        double *bytes_per_s);

void solution_fini(struct solution *s); /* takes a zeroed one */

/* For each link the one that runs back, same kind and rate, or -1; true if all have one. Errors:
 * none. rev[t->n_links]. */
bool solve_mirror_links(const struct topo *t, int *rev);

/* A copy of `l` whose paths use the opposite links. Errors: ST_NOMEM. */
MUST_CHECK enum status solve_mirror(const struct lattice *l, const int *rev, struct lattice **out);

/*
 * Of `units` trees of a whole rate, the number that q->keep leaves; `*by` is multiplied where finer
 * units are needed for that.
 */
int64_t solve_keep_part(const struct solve_request *q, int64_t units, int64_t *by);

/* Log that 64 bits do not hold the capacities' products. */
MUST_CHECK enum status solve_too_fine(void);

/* Turn tree i of `p` around so that its root is a centre of it; rev[] pairs the arcs of the
 * lattice.
 */
void solve_centre(struct packing *p, const struct lattice *l, const int *rev, size_t i);

#endif
