/*
 * Hamiltonian paths. With few vertices by sets (Held and Karp 1962): for every set S the vertices
 * from which a path leads through all of S, each from the sets that lack one vertex; 2^n n steps.
 * With more by depth first search.
 */
#include "comm/hamilton.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

static const long budget = 2000000; /* steps of the depth-first search */

/* The vertices that an edge leads to from `a`, as bits. */
static unsigned targets(const struct hamilton *q, int a)
{
    unsigned set = 0;

    for (int b = 0; b < q->n; b++) {
        set |= (unsigned)(b != a && q->joined[a * q->n + b]) << b;
    }
    return set;
}

/* starts[S]: where paths through S can begin, of which the end may be last in the whole. */
static void fill_starts(const struct hamilton *q, const unsigned *to, int first, uint16_t *starts)
{
    for (unsigned set = 1; set < 1U << q->n; set++) {
        unsigned from = 0;
        for (int v = 0; v < q->n; v++) {
            unsigned rest = set & ~(1U << v);
            bool ends = rest == 0 && (!q->closed || q->n == 1 || (to[v] >> first & 1));
            if ((set >> v & 1) && (ends || (rest != 0 && (starts[rest] & to[v]) != 0))) {
                from |= 1U << v;
            }
        }
        starts[set] = (uint16_t)from;
    }
}

static enum status find_exactly(const struct hamilton *q, int *order, bool *found)
{
    int first = q->first < 0 && q->closed ? 0 : q->first; /* a cycle may begin anywhere */
    unsigned to[HAMILTON_EXACT], left = (1U << q->n) - 1, next;
    uint16_t *starts = mem_alloc((size_t)1 << q->n, sizeof *starts);

    if (starts == NULL) {
        return ST_NOMEM;
    }
    for (int v = 0; v < q->n; v++) {
        to[v] = targets(q, v);
    }
    fill_starts(q, to, first, starts);
    next = starts[left] & (first < 0 ? left : 1U << first);
    *found = next != 0;
    for (int k = 0; next != 0; k++) {
        int v = 0;
        while (!(next >> v & 1)) {
            v++;
        }
        order[k] = v;
        left &= ~(1U << v);
        next = starts[left] & to[v];
    }
    mem_free(starts);
    return ST_OK;
}

struct search {
    const struct hamilton *q;
    bool *used;
    int *order;
    long left;
};

static bool joined(const struct search *s, int a, int b)
{
    return s->q->joined[a * s->q->n + b];
}

static bool extend(struct search *s, int k)
{
    int n = s->q->n, first = s->q->first;

    if (k == n) {
        return !s->q->closed || joined(s, s->order[n - 1], s->order[0]);
    }
    for (int v = 0; v < n; v++) {
        bool fits = k == 0 ? (first < 0 || v == first) : joined(s, s->order[k - 1], v);
        if (s->used[v] || !fits) {
            continue;
        }
        if (--s->left < 0) {
            return false;
        }
        s->used[v] = true;
        s->order[k] = v;
        if (extend(s, k + 1)) {
            return true;
        }
        s->used[v] = false;
        if (k == 0 && s->q->closed) {
            return false; /* a cycle may begin anywhere */
        }
    }
    return false;
}

static enum status find_within_limit(const struct hamilton *q, int *order, bool *found)
{
    size_t n = (size_t)q->n;
    struct search s = {q, mem_alloc(n, sizeof *s.used), mem_alloc(n, sizeof *s.order), budget};
    enum status st = s.used == NULL || s.order == NULL ? ST_NOMEM : ST_OK;

    if (st == ST_OK) {
        *found = extend(&s, 0);
    }
    if (st == ST_OK && *found) {
        memcpy(order, s.order, n * sizeof *order);
    }
    mem_free(s.used);
    mem_free(s.order);
    return st;
}

enum status hamilton_find(const struct hamilton *q, int *order, bool *found)
{
    return q->n <= HAMILTON_EXACT ? find_exactly(q, order, found)
                                  : find_within_limit(q, order, found);
}
