#include "comm/route.h"

#include <string.h>

#include "base/mem.h"

/* What is known of a vertex while layers of equal distance grow around the source. */
struct reach {
    int hops; /* -1: not reached yet */
    int via;  /* the link it was reached by */
    int64_t width;
};

static int64_t narrower(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Grow layers from `from` until one holds `to` (-1: until nothing new is met). */
static void grow(const struct topo *t, int from, int to, struct reach *reach)
{
    bool more = true;

    for (int v = 0; v < t->n_vertices; v++) {
        reach[v] = (struct reach){-1, -1, 0};
    }
    reach[from] = (struct reach){0, -1, INT64_MAX};
    for (int hops = 1; more && (to < 0 || reach[to].hops < 0); hops++) {
        more = false;
        for (int i = 0; i < t->n_links; i++) {
            const struct topo_link *l = &t->links[i];
            const struct reach *u = &reach[l->from];
            struct reach *v = &reach[l->to];
            int64_t width = narrower(u->width, l->bytes_per_s);
            if (u->hops != hops - 1 || l->bytes_per_s <= 0 ||
                (l->from != from && topo_is_device(t, l->from))) {
                continue;
            }
            if (v->hops < 0 || (v->hops == hops && width > v->width)) {
                *v = (struct reach){hops, i, width};
                more = true;
            }
        }
    }
}

enum status route_find(const struct topo *t, int from, int to, struct path *out, bool *found)
{
    struct reach *reach = mem_alloc((size_t)t->n_vertices, sizeof *reach);
    struct path path = {NULL, 0};

    if (reach == NULL) {
        return ST_NOMEM;
    }
    grow(t, from, to, reach);
    *found = reach[to].hops >= 0;
    if (reach[to].hops > 0) {
        path.n = reach[to].hops;
        path.links = mem_alloc((size_t)path.n, sizeof *path.links);
        if (path.links == NULL) {
            mem_free(reach);
            return ST_NOMEM;
        }
        for (int k = path.n - 1, v = to; k >= 0; k--) {
            path.links[k] = reach[v].via;
            v = t->links[reach[v].via].from;
        }
    }
    mem_free(reach);
    *out = path;
    return ST_OK;
}

static enum status route_edge(struct path *path, const struct plan *p, const struct topo *t,
                              int from, int to)
{
    bool found;

    if (path->n != 0 || p->vertex_of[from] == p->vertex_of[to]) {
        return ST_OK;
    }
    TRY(route_find(t, p->vertex_of[from], p->vertex_of[to], path, &found));
    if (!found) {
        return plan_refuse(p,
                           "backend %s needs a path from rank %d (%s) to rank %d (%s), topology %s "
                           "has none that crosses no other device, choose another backend",
                           p->backend, from, t->vertices[p->vertex_of[from]].name, to,
                           t->vertices[p->vertex_of[to]].name, t->name);
    }
    return ST_OK;
}

enum status plan_route(struct plan *p, const struct topo *t)
{
    for (size_t i = 0; i < p->n_trees; i++) {
        struct tree *tree = &p->trees[i];
        for (int v = 0; v < p->n_nodes; v++) {
            if (tree->up != NULL && tree->up[v] >= 0) {
                TRY(route_edge(&tree->up_path[v], p, t, v, tree->up[v]));
            }
            if (tree->down != NULL && tree->down[v] >= 0) {
                TRY(route_edge(&tree->down_path[v], p, t, tree->down[v], v));
            }
        }
    }
    return ST_OK;
}

enum status route_matrix(const struct topo *t, int64_t **out)
{
    size_t n = (size_t)t->n_devices;
    int64_t *m = mem_alloc(n * n, sizeof *m);
    struct reach *reach = mem_alloc((size_t)t->n_vertices, sizeof *reach);

    if (m == NULL || reach == NULL) {
        mem_free(m);
        mem_free(reach);
        return ST_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        grow(t, t->devices[i], -1, reach);
        for (size_t j = 0; j < n; j++) {
            m[i * n + j] = i == j ? 0 : reach[t->devices[j]].width;
        }
    }
    mem_free(reach);
    *out = m;
    return ST_OK;
}

/* A depth-first search for a Hamiltonian path or cycle over the pairs of at least `width`. */
struct search {
    const int64_t *m;
    int n, first;
    bool closed, both_ways;
    int64_t width;
    bool *used;
    int *order;
    long budget;
};

static bool joined(const struct search *s, int a, int b)
{
    return s->m[a * s->n + b] >= s->width && (!s->both_ways || s->m[b * s->n + a] >= s->width);
}

static bool extend(struct search *s, int k)
{
    if (k == s->n) {
        return !s->closed || s->n == 1 || joined(s, s->order[s->n - 1], s->order[0]);
    }
    for (int v = 0; v < s->n; v++) {
        bool fits = k == 0 ? (s->first < 0 || v == s->first) : joined(s, s->order[k - 1], v);
        if (s->used[v] || !fits) {
            continue;
        }
        if (--s->budget < 0) {
            return false;
        }
        s->used[v] = true;
        s->order[k] = v;
        if (extend(s, k + 1)) {
            return true;
        }
        s->used[v] = false;
        if (k == 0 && s->closed) {
            return false; /* a cycle may begin anywhere */
        }
    }
    return false;
}

/* The largest width below `bound` among the pairs, or 0. */
static int64_t next_width(const int64_t *m, int n, int64_t bound)
{
    int64_t best = 0;

    for (int i = 0; i < n * n; i++) {
        if (m[i] < bound && m[i] > best) {
            best = m[i];
        }
    }
    return best;
}

enum status route_chain(const struct topo *t, int first, bool closed, bool both_ways, int *order,
                        bool *found)
{
    const long budget = 2000000; /* steps of the search for each width */
    size_t n = (size_t)t->n_devices;
    bool *used = mem_alloc(n, sizeof *used);
    int64_t *m = NULL;
    enum status st = used == NULL ? ST_NOMEM : route_matrix(t, &m);

    *found = st == ST_OK && n == 1;
    order[0] = first < 0 ? 0 : first;
    if (st == ST_OK && !*found) {
        int64_t width = INT64_MAX;
        while (!*found && (width = next_width(m, (int)n, width)) > 0) {
            struct search s = {m, (int)n, first, closed, both_ways, width, used, order, budget};
            memset(used, 0, n * sizeof *used);
            *found = extend(&s, 0);
        }
    }
    mem_free(m);
    mem_free(used);
    return st;
}
