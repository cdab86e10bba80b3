#ifndef TREEPACK_CHOOSE_H
#define TREEPACK_CHOOSE_H

#include "comm/treepack/solve.h"

/* A solution and what it costs. */
struct candidate {
    struct solution solution;
    size_t n_trees, n_per_root; /* trees; the most at one root */
    int depth;                  /* of the deepest trees, up and down together */
    double mean_depth;          /* weighted with the shares of the message */
    double rate_bytes_per_s;
};

/* The solutions of which no other is at least as fast, as shallow and of as few trees. */
struct pareto {
    struct candidate *points;
    size_t n, room;
};

/*
 * Solve `q` in several ways (orders, ties, part of the rate given up for depth) and keep the Pareto
 * set of {rate, depth, number of trees}, the optimum rate among them. `order`, `seed`, `spread`
 * and `keep` of `q` are chosen here. With `fixed_k`: no more than so many trees per root, at the
 * best rate found with them. Errors: as solve.
 */
MUST_CHECK enum status pareto_create(const struct topo *t, const struct solve_request *q,
                                     struct pareto *out);
void pareto_fini(struct pareto *p);

/* Take over a solution and keep it, unless another dominates it or a root has more than `most`
 * trees;
 * `*within`: it has not. Errors: ST_NOMEM. */
MUST_CHECK enum status pareto_offer(struct pareto *p, struct solution *s, size_t most,
                                    bool *within);

/*
 * The point that moves `n_bytes` soonest by the cost model: the pipeline of d hops of latency
 * `alpha_s` costs (sqrt(n / rate) + sqrt(d alpha))^2, each tree a start of its own. d is the
 * deepest tree's depth; for more than 16 devices the mean one, and only the trees of one root
 * count. n_bytes = 0: the highest rate, then the lowest cost of a large message.
 */
const struct candidate *pareto_pick(const struct pareto *p, size_t n_bytes, double alpha_s);

#endif
