/*
 * Edge-disjoint Hamiltonian cycles by backtracking: one cycle after the other, each from vertex 0
 * on, in dictionary order. A set of cycles is met once only: a cycle does not come before the last
 * one, and its second vertex is smaller than its last, which leaves out its reverse.
 */
#include "comm/ring/pack_cycles.h"

#include <string.h>

struct packing_search {
    int *units, n, n_cycles;
    long budget;
    bool *used;
    int *orders;
};

static void use_edge(struct packing_search *s, int a, int b, int by)
{
    s->units[a * s->n + b] -= by;
    s->units[b * s->n + a] -= by;
}

/* Has every vertex edges left for `n_cycles` more cycles? */
static bool enough_left(const struct packing_search *s, int n_cycles)
{
    for (int a = 0; a < s->n; a++) {
        int sum = 0;
        for (int b = 0; b < s->n; b++) {
            sum += s->units[a * s->n + b];
        }
        if (sum < 2 * n_cycles) {
            return false;
        }
    }
    return true;
}

static bool extend(struct packing_search *s, int cycle, int k, bool free);

/* All vertices stand in order: close the cycle and go on with the next. */
static bool close_cycle(struct packing_search *s, int cycle)
{
    int n = s->n, *order = s->orders + cycle * n, last = order[n - 1];
    bool ok = false;

    if (last < order[1] || s->units[last * n] == 0) {
        return false;
    }
    use_edge(s, last, 0, 1);
    if (cycle + 1 == s->n_cycles) {
        ok = true;
    } else if (enough_left(s, s->n_cycles - cycle - 1)) {
        memset(s->used, 0, (size_t)n * sizeof *s->used);
        ok = extend(s, cycle + 1, 0, false);
        for (int v = 0; !ok && v < n; v++) {
            s->used[v] = true;
        }
    }
    if (!ok) {
        use_edge(s, last, 0, -1);
    }
    return ok;
}

/* Place vertex k of a cycle; `free`: it is already behind the last cycle in dictionary order. */
static bool extend(struct packing_search *s, int cycle, int k, bool free)
{
    int n = s->n, *order = s->orders + cycle * n;
    int first = k == 0 || cycle == 0 || free ? 0 : order[k - n];

    if (k == n) {
        return close_cycle(s, cycle);
    }
    for (int v = first; v < (k == 0 ? 1 : n); v++) {
        if (s->used[v] || (k > 0 && s->units[order[k - 1] * n + v] == 0)) {
            continue;
        }
        if (--s->budget < 0) {
            return false;
        }
        s->used[v] = true;
        order[k] = v;
        if (k > 0) {
            use_edge(s, order[k - 1], v, 1);
        }
        if (extend(s, cycle, k + 1, free || v > first)) {
            return true;
        }
        if (k > 0) {
            use_edge(s, order[k - 1], v, -1);
        }
        s->used[v] = false;
    }
    return false;
}

bool pack_cycles(int *units, int n, int n_cycles, long budget, bool *used, int *orders,
                 bool *exhausted)
{
    struct packing_search s = {units, n, n_cycles, budget, used, orders};
    bool ok = false;

    if (enough_left(&s, n_cycles)) {
        memset(used, 0, (size_t)n * sizeof *used);
        ok = extend(&s, 0, 0, true);
    }
    *exhausted = s.budget < 0;
    return ok;
}
