#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "comm/treepack/choose.h"

void pareto_fini(struct pareto *p)
{
    for (size_t i = 0; i < p->n; i++) {
        solution_fini(&p->points[i].solution);
    }
    mem_free(p->points);
    memset(p, 0, sizeof *p);
}

/* Depth of a pass: the deepest tree, and on average over the message. */
static void measure_pass(const struct packing *p, const struct lattice *l, struct candidate *c)
{
    int deepest = 0;
    double sum = 0, weight = 0;

    for (size_t i = 0; i < p->n; i++) {
        int d = packing_depth(p, l, i);
        deepest = d > deepest ? d : deepest;
        sum += (double)p->trees[i].weight * d;
        weight += (double)p->trees[i].weight;
    }
    c->depth += deepest;
    c->mean_depth += weight > 0 ? sum / weight : 0;
}

/* The most trees that any one root has. */
static size_t most_per_root(const struct packing *p)
{
    size_t most = 0;

    for (int r = 0; r < p->n_dev; r++) {
        size_t n = 0;
        for (size_t i = 0; i < p->n; i++) {
            n += p->trees[i].root == r;
        }
        most = n > most ? n : most;
    }
    return most;
}

static void measure(struct candidate *c)
{
    const struct solution *s = &c->solution;
    size_t up = most_per_root(&s->up), down = most_per_root(&s->down);

    measure_pass(&s->up, s->up_l, c);
    measure_pass(&s->down, s->down_l, c);
    c->n_trees = s->up.n > s->down.n ? s->up.n : s->down.n;
    c->n_per_root = up > down ? up : down;
    c->rate_bytes_per_s = lattice_rate(s->whole, s->rate);
}

/* Is `a` at least as good as `b` in everything? */
static bool dominates(const struct candidate *a, const struct candidate *b)
{
    return frac_compare(a->solution.rate, b->solution.rate) >= 0 && a->depth <= b->depth &&
           a->mean_depth <= b->mean_depth && a->n_trees <= b->n_trees;
}

enum status pareto_offer(struct pareto *p, struct solution *s, size_t most, bool *within)
{
    struct candidate new = {.solution = *s}, *c = &new;
    size_t kept = 0;

    measure(c);
    *within = c->n_per_root <= most;
    if (!*within) {
        solution_fini(&c->solution);
        return ST_OK;
    }

    for (size_t i = 0; i < p->n; i++) {
        if (dominates(&p->points[i], c)) {
            solution_fini(&c->solution);
            return ST_OK;
        }
    }
    for (size_t i = 0; i < p->n; i++) {
        if (dominates(c, &p->points[i])) {
            solution_fini(&p->points[i].solution);
        } else {
            p->points[kept++] = p->points[i];
        }
    }
    p->n = kept;
    if (p->n == p->room) {
        size_t room = p->room == 0 ? 8 : 2 * p->room;
        struct candidate *grown = mem_grow(p->points, p->n, room, sizeof *grown);
        if (grown == NULL) {
            solution_fini(&c->solution);
            return ST_NOMEM;
        }
        p->points = grown;
        p->room = room;
    }
    p->points[p->n++] = *c;
    return ST_OK;
}

static double cost(const struct candidate *c, double n_bytes, double alpha_s)
{
    bool small = c->solution.whole->n_dev <= SOLVE_SMALL;
    double depth = small ? c->depth : c->mean_depth;
    double steady = sqrt(n_bytes / c->rate_bytes_per_s), fill = sqrt(alpha_s * depth);
    size_t starts = small ? c->n_trees : c->n_per_root;

    return (steady + fill) * (steady + fill) + 0.25 * alpha_s * (double)starts;
}

const struct candidate *pareto_pick(const struct pareto *p, size_t n_bytes, double alpha_s)
{
    const struct candidate *best = &p->points[0];
    double n = n_bytes > 0 ? (double)n_bytes : 1e9;

    for (size_t i = 1; i < p->n; i++) {
        const struct candidate *c = &p->points[i];
        int faster = n_bytes > 0 ? 0 : frac_compare(c->solution.rate, best->solution.rate);
        if (faster > 0 || (faster == 0 && cost(c, n, alpha_s) < cost(best, n, alpha_s))) {
            best = c;
        }
    }
    return best;
}
