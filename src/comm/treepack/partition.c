#include "comm/treepack/partition.h"

#include <string.h>

#include "base/mem.h"

static int find(int *set, int v)
{
    while (set[v] != v) {
        v = set[v] = set[set[v]];
    }
    return v;
}

/* Join the switches outside that arcs connect: their components. */
static void find_components(const struct lattice *l, const int *part, int *set)
{
    for (int v = 0; v < l->n; v++) {
        set[v] = v;
    }
    for (int i = 0; i < l->m; i++) {
        const struct arc *a = &l->arcs[i];
        if (part[a->from] < 0 && part[a->to] < 0) {
            set[find(set, a->from)] = find(set, a->to);
        }
    }
}

enum status partition_rate(const struct lattice *l, const int *part, int n_parts, struct frac *rate)
{
    int *set = mem_alloc((size_t)l->n, sizeof *set);
    int64_t *in = mem_alloc(2 * (size_t)l->n, sizeof *in), *out = in + l->n, sum = 0;

    if (set == NULL || in == NULL) {
        mem_free(set);
        mem_free(in);
        return ST_NOMEM;
    }
    find_components(l, part, set);
    for (int i = 0; i < l->m; i++) {
        const struct arc *a = &l->arcs[i];
        if (part[a->from] >= 0 && part[a->to] >= 0) {
            sum += part[a->from] != part[a->to] ? a->cap : 0;
        } else if (part[a->from] >= 0) {
            in[find(set, a->to)] += a->cap;
        } else if (part[a->to] >= 0) {
            out[find(set, a->from)] += a->cap;
        }
    }
    for (int v = l->n_dev; v < l->n; v++) {
        if (part[v] < 0 && set[v] == v) {
            sum += in[v] < out[v] ? in[v] : out[v];
        }
    }
    *rate = frac_make(sum, 2 * (int64_t)(n_parts - 1));
    mem_free(set);
    mem_free(in);
    return ST_OK;
}

/*
 * Parts: what arcs of at least `width` join, switches narrower than `inside` staying outside.
 * Components without a device stay outside too.
 */
static int cut_by_width(const struct lattice *l, int64_t width, int *set, int *part)
{
    int n_parts = 0;

    for (int v = 0; v < l->n; v++) {
        set[v] = v;
        part[v] = -1;
    }
    for (int i = 0; i < l->m; i++) {
        if (l->arcs[i].cap >= width) {
            set[find(set, l->arcs[i].from)] = find(set, l->arcs[i].to);
        }
    }
    for (int v = 0; v < l->n_dev; v++) {
        int lead = find(set, v);
        if (part[lead] < 0) {
            part[lead] = n_parts++;
        }
    }
    for (int v = 0; v < l->n; v++) {
        int lead = find(set, v);
        part[v] = part[lead];
    }
    return n_parts;
}

static enum status try_width(const struct lattice *l, int64_t width, int *work, struct bound *b)
{
    int *part = work, *set = work + l->n;
    int n_parts = cut_by_width(l, width, set, part);
    struct frac rate;

    if (n_parts < 2) {
        return ST_OK;
    }
    TRY(partition_rate(l, part, n_parts, &rate));
    if (b->n_parts == 0 || frac_compare(rate, b->rate) < 0) {
        b->rate = rate;
        b->n_parts = n_parts;
        memcpy(b->part, part, (size_t)l->n * sizeof *part);
    }
    return ST_OK;
}

enum status partition_bound(const struct lattice *l, struct bound *b)
{
    int *work = mem_alloc(2 * (size_t)l->n, sizeof *work);
    enum status st = ST_OK;

    *b = (struct bound){.kind = BOUND_PARTITION};
    b->part = mem_alloc((size_t)l->n, sizeof *b->part);
    if (work == NULL || b->part == NULL) {
        mem_free(work);
        bound_fini(b);
        return ST_NOMEM;
    }
    st = try_width(l, INT64_MAX, work, b); /* every device alone */
    for (int i = 0; i < l->m && st == ST_OK; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen; j++) {
            seen = l->arcs[j].cap == l->arcs[i].cap;
        }
        if (!seen) {
            st = try_width(l, l->arcs[i].cap, work, b);
        }
    }
    mem_free(work);
    if (st != ST_OK) {
        bound_fini(b);
    }
    return st;
}
