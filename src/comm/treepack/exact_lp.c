#include "comm/treepack/exact_lp.h"

#include <string.h>

#include "base/mem.h"

__extension__ typedef __int128 wide;

enum {
    MAX_PIVOTS = 20000
};

static int64_t *row_of(const struct exact_lp *lp, int i) /* -1: the objective */
{
    return lp->a + (size_t)(i + 1) * (size_t)(lp->n_vars + 1);
}

void exact_lp_fini(struct exact_lp *lp)
{
    mem_free(lp->a);
    mem_free(lp->basic);
    mem_free(lp->nonbasic);
    memset(lp, 0, sizeof *lp);
}

static enum status make_room(struct exact_lp *lp)
{
    size_t width = (size_t)lp->n_vars + 1, old = (size_t)lp->room, room = old == 0 ? 64 : 2 * old;
    int64_t *a;
    int *basic;

    if (lp->n_rows < lp->room) {
        return ST_OK;
    }
    a = mem_grow(lp->a, old == 0 ? 0 : (old + 1) * width, (room + 1) * width, sizeof *a);
    if (a == NULL) {
        return ST_NOMEM;
    }
    lp->a = a;
    basic = mem_grow(lp->basic, old, room, sizeof *basic);
    if (basic == NULL) {
        return ST_NOMEM;
    }
    lp->basic = basic;
    lp->room = (int)room;
    return ST_OK;
}

static int64_t fit(struct exact_lp *lp, wide x)
{
    if (x > INT64_MAX / 4 || x < -(INT64_MAX / 4)) {
        lp->overflow = true;
        return 0;
    }
    return (int64_t)x;
}

/* Exchange the basic variable of row r and the non-basic one of column c. */
static void pivot(struct exact_lp *lp, int r, int c)
{
    int64_t *pr = row_of(lp, r), p = pr[c], old = lp->den, sign = p < 0 ? -1 : 1;
    int v;

    for (int i = -1; i < lp->n_rows; i++) {
        int64_t *row = row_of(lp, i), f = row[c];
        if (i == r || (f == 0 && p == old)) {
            continue;
        }
        for (int j = 0; j <= lp->n_vars; j++) {
            if (j != c && (row[j] != 0 || (f != 0 && pr[j] != 0))) {
                row[j] = fit(lp, sign * (((wide)row[j] * p - (wide)f * pr[j]) / old));
            }
        }
        row[c] = -sign * f;
    }
    for (int j = 0; j <= lp->n_vars; j++) {
        pr[j] *= sign;
    }
    pr[c] = sign * old;
    lp->den = sign * p;
    v = lp->basic[r];
    lp->basic[r] = lp->nonbasic[c];
    lp->nonbasic[c] = v;
}

enum status exact_lp_init(struct exact_lp *lp, int n_vars, int first, int64_t limit)
{
    memset(lp, 0, sizeof *lp);
    lp->n_vars = n_vars;
    lp->den = 1;
    lp->nonbasic = mem_alloc((size_t)n_vars, sizeof *lp->nonbasic);
    if (lp->nonbasic == NULL || make_room(lp) != ST_OK) {
        exact_lp_fini(lp);
        return ST_NOMEM;
    }
    for (int v = 0; v < n_vars; v++) {
        lp->nonbasic[v] = v;
        row_of(lp, -1)[v] = v >= first ? -1 : 0;
        row_of(lp, 0)[v] = v >= first ? 1 : 0;
    }
    row_of(lp, 0)[n_vars] = limit;
    lp->basic[0] = n_vars;
    lp->n_rows = 1;
    pivot(lp, 0, first); /* now no column can raise the objective: dual feasible */
    return ST_OK;
}

enum status exact_lp_add(struct exact_lp *lp, const int64_t *row, int64_t right)
{
    int64_t *out;

    TRY(make_room(lp));
    out = row_of(lp, lp->n_rows);
    for (int j = 0; j < lp->n_vars; j++) {
        int v = lp->nonbasic[j];
        out[j] = v < lp->n_vars ? fit(lp, (wide)row[v] * lp->den) : 0;
    }
    out[lp->n_vars] = fit(lp, (wide)right * lp->den);
    for (int i = 0; i < lp->n_rows; i++) {
        int v = lp->basic[i];
        if (v < lp->n_vars && row[v] != 0) {
            for (int j = 0; j <= lp->n_vars; j++) {
                out[j] = fit(lp, (wide)out[j] - (wide)row[v] * row_of(lp, i)[j]);
            }
        }
    }
    lp->basic[lp->n_rows] = lp->n_vars + lp->n_rows;
    lp->n_rows++;
    return ST_OK;
}

/* The row that is violated most, or -1. */
static int leaving_row(const struct exact_lp *lp)
{
    int best = -1;
    int64_t least = 0;

    for (int i = 0; i < lp->n_rows; i++) {
        int64_t b = row_of(lp, i)[lp->n_vars];
        if (b < least || (b == least && b < 0 && lp->basic[i] < lp->basic[best])) {
            least = b;
            best = i;
        }
    }
    return best;
}

/* The column that keeps the objective row non-negative, or -1. */
static int entering_column(const struct exact_lp *lp, int r)
{
    const int64_t *row = row_of(lp, r), *objective = row_of(lp, -1);
    int best = -1;

    for (int j = 0; j < lp->n_vars; j++) {
        if (row[j] >= 0) {
            continue;
        }
        if (best < 0) {
            best = j;
            continue;
        }
        wide left = (wide)objective[j] * -row[best], right = (wide)objective[best] * -row[j];
        if (left < right || (left == right && lp->nonbasic[j] < lp->nonbasic[best])) {
            best = j;
        }
    }
    return best;
}

bool exact_lp_solve(struct exact_lp *lp)
{
    for (int k = 0; k < MAX_PIVOTS && !lp->overflow; k++) {
        int r = leaving_row(lp), c;
        if (r < 0) {
            return true;
        }
        c = entering_column(lp, r);
        if (c < 0) {
            return false;
        }
        pivot(lp, r, c);
    }
    return false;
}

int64_t exact_lp_objective(const struct exact_lp *lp)
{
    return row_of(lp, -1)[lp->n_vars];
}

int64_t exact_lp_value(const struct exact_lp *lp, int v)
{
    for (int i = 0; i < lp->n_rows; i++) {
        if (lp->basic[i] == v) {
            return row_of(lp, i)[lp->n_vars];
        }
    }
    return 0;
}

int64_t exact_lp_multiplier(const struct exact_lp *lp, int i)
{
    for (int j = 0; j < lp->n_vars; j++) {
        if (lp->nonbasic[j] == lp->n_vars + i) {
            return row_of(lp, -1)[j];
        }
    }
    return 0;
}
