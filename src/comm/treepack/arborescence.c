#include "comm/treepack/arborescence.h"

#include <string.h>

#include "base/mem.h"

struct edge {
    int from, to, origin; /* origin: the edge one level up */
    double length;
};

/* A level of contraction: n vertices, the edges between them. */
struct level {
    int n, m, root;
    struct edge *edges;
    int *best;   /* [n] the shortest edge into each vertex */
    int *group;  /* [n] its vertex one level down */
    int *colour; /* [n] work */
};

static void level_fini(struct level *g)
{
    mem_free(g->edges);
    mem_free(g->best);
    mem_free(g->group);
    mem_free(g->colour);
}

static enum status level_init(struct level *g, int n, int m, int root)
{
    *g = (struct level){.n = n, .root = root};
    g->edges = mem_alloc((size_t)m, sizeof *g->edges);
    g->best = mem_alloc((size_t)n, sizeof *g->best);
    g->group = mem_alloc((size_t)n, sizeof *g->group);
    g->colour = mem_alloc((size_t)n, sizeof *g->colour);
    if (g->edges == NULL || g->best == NULL || g->group == NULL || g->colour == NULL) {
        level_fini(g);
        return ST_NOMEM;
    }
    return ST_OK;
}

static bool choose_best(struct level *g)
{
    for (int v = 0; v < g->n; v++) {
        g->best[v] = -1;
    }
    for (int e = 0; e < g->m; e++) {
        int v = g->edges[e].to;
        if (v != g->root && (g->best[v] < 0 || g->edges[e].length < g->edges[g->best[v]].length)) {
            g->best[v] = e;
        }
    }
    for (int v = 0; v < g->n; v++) {
        if (v != g->root && g->best[v] < 0) {
            return false;
        }
    }
    return true;
}

/* Give every cycle of best edges one number, every other vertex its own; returns their count, and
 * whether there was a cycle. */
static int find_cycles(struct level *g, bool *cyclic)
{
    int next = 0;

    *cyclic = false;
    for (int v = 0; v < g->n; v++) {
        g->group[v] = -1;
        g->colour[v] = -1;
    }
    for (int s = 0; s < g->n; s++) {
        int v = s;
        while (v != g->root && g->colour[v] < 0) {
            g->colour[v] = s;
            v = g->edges[g->best[v]].from;
        }
        if (v != g->root && g->colour[v] == s && g->group[v] < 0) {
            int u = v; /* the walk has met itself: a new cycle */
            *cyclic = true;
            do {
                g->group[u] = next;
                u = g->edges[g->best[u]].from;
            } while (u != v);
            next++;
        }
    }
    for (int v = 0; v < g->n; v++) {
        g->group[v] = g->group[v] < 0 ? next++ : g->group[v];
    }
    return next;
}

static bool in_cycle(const struct level *g, int v)
{
    for (int u = 0; u < g->n; u++) {
        if (u != v && g->group[u] == g->group[v]) {
            return true;
        }
    }
    return false;
}

/* chosen[v]: the edge of g into v. */
static enum status solve_level(struct level *g, int *chosen, bool *found)
{
    struct level below;
    bool cyclic;
    int n;
    enum status st;

    *found = choose_best(g);
    if (!*found) {
        return ST_OK;
    }
    memcpy(chosen, g->best, (size_t)g->n * sizeof *chosen);
    n = find_cycles(g, &cyclic);
    if (!cyclic) {
        return ST_OK;
    }
    TRY(level_init(&below, n, g->m, g->group[g->root]));
    for (int e = 0; e < g->m; e++) {
        struct edge x = g->edges[e];
        int v = x.to;
        if (g->group[x.from] != g->group[v]) {
            x.length -= v != g->root && in_cycle(g, v) ? g->edges[g->best[v]].length : 0;
            x.from = g->group[x.from];
            x.to = g->group[v];
            x.origin = e;
            below.edges[below.m++] = x;
        }
    }
    int *picked = mem_alloc((size_t)n, sizeof *picked);
    st = picked == NULL ? ST_NOMEM : solve_level(&below, picked, found);
    for (int c = 0; st == ST_OK && *found && c < n; c++) {
        if (c != below.root) {
            int e = below.edges[picked[c]].origin;
            chosen[g->edges[e].to] = e; /* opens the cycle there */
        }
    }
    mem_free(picked);
    level_fini(&below);
    return st;
}

enum status arborescence_find(const struct lattice *l, const double *length, int root, int *arc,
                              bool *found)
{
    struct level g;
    enum status st;

    TRY(level_init(&g, l->n_dev, l->m, root));
    for (int i = 0; i < l->m; i++) {
        const struct arc *a = &l->arcs[i];
        if (a->from < l->n_dev && a->to < l->n_dev && a->cap > 0) {
            g.edges[g.m++] = (struct edge){a->from, a->to, i, length[i]};
        }
    }
    st = solve_level(&g, arc, found);
    for (int v = 0; st == ST_OK && *found && v < l->n_dev; v++) {
        arc[v] = v == root ? -1 : g.edges[arc[v]].origin;
    }
    level_fini(&g);
    return st;
}

void spanning_tree_find(const struct lattice *l, const double *length, int root, int *arc,
                        bool *found)
{
    for (int v = 0; v < l->n_dev; v++) {
        arc[v] = v == root ? -1 : -2;
    }
    for (int step = 1; step < l->n_dev; step++) {
        int best = -1;
        for (int i = 0; i < l->m; i++) {
            const struct arc *a = &l->arcs[i];
            if (a->from < l->n_dev && a->to < l->n_dev && a->cap > 0 && arc[a->from] != -2 &&
                arc[a->to] == -2 && (best < 0 || length[i] < length[best])) {
                best = i;
            }
        }
        *found = best >= 0;
        if (best < 0) {
            return;
        }
        arc[l->arcs[best].to] = best;
    }
    *found = true;
}
