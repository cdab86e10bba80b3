#ifndef TREEPACK_EXACT_LP_H
#define TREEPACK_EXACT_LP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * A linear programme in exact arithmetic: maximise the sum of some variables, all variables at
 * least 0, under rows of small integers that are added as they are found to be violated. Dual
 * simplex on a condensed integer tableau with one common denominator (Edmonds, Bareiss); all
 * entries are minors of the constraint matrix and stay small for the cuts of graphs.
 */
struct exact_lp {
    int n_vars, n_rows, room;
    int64_t den;
    int64_t *a;    /* [room + 1][n_vars + 1]: the objective, then the rows; last the right side */
    int *basic;    /* [room] variable of each row; n_vars + i is the slack of row i */
    int *nonbasic; /* [n_vars] variable of each column */
    bool overflow; /* an entry left 64 bits: the values mean nothing any more */
};

/* Maximise the sum of the variables from `first` on, which is at most `limit`. Errors: ST_NOMEM. */
MUST_CHECK enum status exact_lp_init(struct exact_lp *lp, int n_vars, int first, int64_t limit);
void exact_lp_fini(struct exact_lp *lp);

/* Add sum over v of row[v] v <= right. Errors: ST_NOMEM. */
MUST_CHECK enum status exact_lp_add(struct exact_lp *lp, const int64_t *row, int64_t right);

/* Make it optimal again. False if it overflowed or did not end. */
bool exact_lp_solve(struct exact_lp *lp);

/* Numerators over lp->den: of the objective, of variable v, of the multiplier of row i. */
int64_t exact_lp_objective(const struct exact_lp *lp);
int64_t exact_lp_value(const struct exact_lp *lp, int v);
int64_t exact_lp_multiplier(const struct exact_lp *lp, int i);

#endif
