#include "comm/treepack/improve.h"

#include <string.h>

#include "base/mem.h"

enum {
    MAX_PASSES = 6,
    MAX_WORK = 40000000,
    HEIGHT = 100000, /* what a level of a tree counts against one of a vertex */
};

struct improver {
    const struct lattice *l;
    struct packing *p;
    size_t room;   /* trees that the arrays have room for */
    int64_t *left; /* [m] capacity that no tree uses */
    int *depth;    /* [room][n_dev] of every tree */
    int *high;     /* [room] of every tree: its depth */
    int *work;     /* [n_dev] */
    int least;     /* levels that a tree more must save */
    int64_t spent;
};

static int *depths_of(const struct improver *m, size_t i)
{
    return m->depth + i * (size_t)m->p->n_dev;
}

/* Depths of all vertices of a tree; returns the largest, or -1 for a cycle. */
static int find_depths(const struct improver *m, size_t i, int *depth)
{
    const int *arc = m->p->trees[i].arc;
    int high = 0;

    for (int v = 0; v < m->p->n_dev; v++) {
        int d = 0;
        for (int u = v; arc[u] >= 0; u = m->l->arcs[arc[u]].from) {
            if (++d > m->p->n_dev) {
                return -1;
            }
        }
        depth[v] = d;
        high = d > high ? d : high;
    }
    return high;
}

static int64_t sum_of(const int *depth, int n)
{
    int64_t sum = 0;

    for (int v = 0; v < n; v++) {
        sum += depth[v];
    }
    return sum;
}

/* Would tree i be better with `arc` into its end? Height counts most, then the sum of depths; the
 * change of HEIGHT x height + sum of depths is returned, or a large number if it makes a cycle. */
static int64_t gain(struct improver *m, size_t i, int arc)
{
    int y = m->l->arcs[arc].to, old = m->p->trees[i].arc[y], high;
    int64_t before, after;

    m->p->trees[i].arc[y] = arc;
    high = find_depths(m, i, m->work);
    m->p->trees[i].arc[y] = old;
    m->spent += m->p->n_dev;
    if (high < 0) {
        return INT64_MAX / 4;
    }
    before = (int64_t)m->high[i] * HEIGHT + sum_of(depths_of(m, i), m->p->n_dev);
    after = (int64_t)high * HEIGHT + sum_of(m->work, m->p->n_dev);
    return after - before;
}

static void set_arc(struct improver *m, size_t i, int arc)
{
    m->p->trees[i].arc[m->l->arcs[arc].to] = arc;
    m->high[i] = find_depths(m, i, depths_of(m, i));
}

/* Hang y of tree i elsewhere, over what is left. */
static bool try_left(struct improver *m, size_t i, int arc)
{
    int y = m->l->arcs[arc].to, old = m->p->trees[i].arc[y];
    int64_t w = m->p->trees[i].weight;

    if (old < 0 || old == arc || m->left[arc] < w ||
        depths_of(m, i)[m->l->arcs[arc].from] + 1 >= depths_of(m, i)[y] || gain(m, i, arc) >= 0) {
        return false;
    }
    m->left[arc] -= w;
    m->left[old] += w;
    set_arc(m, i, arc);
    return true;
}

/* Split `weight` units off tree i, as the last tree. False if there is no room. */
static bool cut(struct improver *m, size_t i, int64_t weight)
{
    struct branch *old = &m->p->trees[i], *new = &m->p->trees[m->p->n];
    int *arc;

    if (m->p->n == m->room) {
        return false;
    }
    arc = mem_alloc((size_t)m->p->n_dev, sizeof *arc);
    if (arc == NULL) {
        return false; /* only an improvement is lost */
    }
    memcpy(arc, old->arc, (size_t)m->p->n_dev * sizeof *arc);
    *new = (struct branch){old->root, weight, arc};
    old->weight -= weight;
    m->high[m->p->n] = find_depths(m, m->p->n, depths_of(m, m->p->n));
    m->p->n++;
    return true;
}

/* Exchange the arcs into y of two trees, or of one and of a part of the other. */
static bool try_exchange(struct improver *m, size_t i, size_t j, int y)
{
    int a = m->p->trees[i].arc[y], b = m->p->trees[j].arc[y];
    int64_t more = m->p->trees[i].weight - m->p->trees[j].weight;
    int64_t least = more == 0 ? 0 : -m->least * (int64_t)HEIGHT + HEIGHT / 2;

    if (a < 0 || b < 0 || a == b || (more != 0 && (m->least == 0 || m->p->n == m->room))) {
        return false;
    }
    /* One of the two must come nearer. */
    if (depths_of(m, i)[m->l->arcs[b].from] >= depths_of(m, i)[m->l->arcs[a].from] &&
        depths_of(m, j)[m->l->arcs[a].from] >= depths_of(m, j)[m->l->arcs[b].from]) {
        return false;
    }
    if (gain(m, i, b) + gain(m, j, a) >= least) {
        return false;
    }
    if (more != 0 && !cut(m, more > 0 ? i : j, more > 0 ? more : -more)) {
        return false;
    }
    set_arc(m, i, b);
    set_arc(m, j, a);
    return true;
}

static bool pass(struct improver *m)
{
    bool better = false;

    for (int k = 0; k < m->l->m; k++) {
        const struct arc *a = &m->l->arcs[k];
        for (size_t i = 0; m->left[k] > 0 && a->to < m->p->n_dev && i < m->p->n; i++) {
            better = try_left(m, i, k) || better;
        }
    }
    for (int y = 0; y < m->p->n_dev; y++) {
        for (size_t i = 0; i < m->p->n; i++) {
            for (size_t j = i + 1; j < m->p->n && m->spent < MAX_WORK; j++) {
                better = try_exchange(m, i, j, y) || better;
            }
        }
    }
    return better;
}

enum status improve_depth(const struct lattice *l, struct packing *p, size_t extra)
{
    struct improver m = {.l = l, .p = p, .room = p->n + extra};
    size_t n_dev = (size_t)p->n_dev;
    enum status st = ST_NOMEM;

    m.left = mem_alloc((size_t)l->m, sizeof *m.left);
    m.depth = mem_alloc(m.room * n_dev, sizeof *m.depth);
    m.high = mem_alloc(m.room, sizeof *m.high);
    m.work = mem_alloc(n_dev, sizeof *m.work);
    if (extra > 0 && m.room > p->room) {
        struct branch *grown = mem_grow(p->trees, p->n, m.room, sizeof *grown);
        if (grown == NULL) {
            goto out;
        }
        p->trees = grown;
        p->room = m.room;
    }
    if (m.left != NULL && m.depth != NULL && m.high != NULL && m.work != NULL) {
        st = ST_OK;
        for (int k = 0; k < l->m; k++) {
            m.left[k] = l->arcs[k].from < p->n_dev && l->arcs[k].to < p->n_dev ? l->arcs[k].cap : 0;
        }
        for (size_t i = 0; i < p->n; i++) {
            for (int v = 0; v < p->n_dev; v++) {
                if (p->trees[i].arc[v] >= 0) {
                    m.left[p->trees[i].arc[v]] -= p->trees[i].weight;
                }
            }
            m.high[i] = find_depths(&m, i, depths_of(&m, i));
        }
        for (m.least = extra > 0 ? 3 : 0; m.least >= 0; m.least--) {
            for (int k = 0; k < MAX_PASSES && m.spent < MAX_WORK && pass(&m); k++) {
            }
        }
    }
out:
    mem_free(m.left);
    mem_free(m.depth);
    mem_free(m.high);
    mem_free(m.work);
    return st;
}
