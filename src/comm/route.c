#include "comm/route.h"

#include <limits.h>

#include "base/mem.h"
#include "comm/hamilton.h"

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

/* The capacity of the cheapest path between every ordered pair of ranks, 0 where there is none, and
 * its links, if `hops` is not NULL: [n, n] at [from * n + to]. */
static enum status make_matrix(const struct topo *t, int64_t **out, int *hops)
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
            if (hops != NULL) {
                hops[i * n + j] = reach[t->devices[j]].hops;
            }
        }
    }
    mem_free(reach);
    *out = m;
    return ST_OK;
}

/* Ranks that `a` reaches and that reach it; `*last` is one of them. */
static int count_neighbours(const int64_t *m, int n, int a, int *last)
{
    int count = 0;

    for (int b = 0; b < n; b++) {
        if (m[a * n + b] > 0 && m[b * n + a] > 0) {
            count++;
            *last = b;
        }
    }
    return count;
}

enum status route_why_not(const struct topo *t, bool closed, char text[192])
{
    int n = t->n_devices, last = 0, n_ends = 0, ends[3] = {0};
    int64_t *m;

    TRY(make_matrix(t, &m, NULL));
    (void)snprintf(text, 192, "no order of them leads from each to the next");
    for (int a = 0; a < n && n_ends < 3; a++) {
        int count = count_neighbours(m, n, a, &last);
        const char *name = t->vertices[t->devices[a]].name;
        if (count == 0) {
            (void)snprintf(text, 192, "%s has no neighbour", name);
            break;
        }
        if (count == 1 && closed) {
            (void)snprintf(text, 192, "%s has no neighbour but %s", name,
                           t->vertices[t->devices[last]].name);
            break;
        }
        if (count == 1) {
            ends[n_ends++] = t->devices[a];
        }
    }
    if (n_ends == 3) {
        (void)snprintf(text, 192, "%s, %s and %s have only one neighbour each",
                       t->vertices[ends[0]].name, t->vertices[ends[1]].name,
                       t->vertices[ends[2]].name);
    }
    mem_free(m);
    return ST_OK;
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

/* What may join a rank to the next one. */
struct reachable {
    int n;
    const int64_t *width; /* [n, n] */
    const int *hops;      /* [n, n] */
    bool both_ways;
};

/* Which pairs are joined by at least `width` over at most `hops` links, in either direction if that
 * is asked for? */
static void join(const struct reachable *r, int64_t width, int hops, bool *joined)
{
    for (int a = 0; a < r->n; a++) {
        for (int b = 0; b < r->n; b++) {
            int there = a * r->n + b, back = b * r->n + a;
            joined[there] = r->width[there] >= width && r->hops[there] <= hops &&
                            (!r->both_ways || r->width[back] >= width);
        }
    }
}

/* The widest chain, and then over as few links from each to the next as it takes. */
static enum status find_chain(const struct reachable *r, const struct hamilton *q, bool *joined,
                              int *order, bool *found)
{
    int64_t width = INT64_MAX;
    bool shorter = false;

    while (!*found && (width = next_width(r->width, r->n, width)) > 0) {
        join(r, width, INT_MAX, joined);
        TRY(hamilton_find(q, order, found));
    }
    for (int hops = 1; *found && !shorter; hops++) {
        join(r, width, hops, joined);
        TRY(hamilton_find(q, order, &shorter));
    }
    return ST_OK;
}

enum status route_chain(const struct topo *t, int first, bool closed, bool both_ways, int *order,
                        bool *found)
{
    size_t n = (size_t)t->n_devices;
    bool *joined = mem_alloc(n * n, sizeof *joined);
    int *hops = mem_alloc(n * n, sizeof *hops);
    int64_t *width = NULL;
    enum status st = joined == NULL || hops == NULL ? ST_NOMEM : make_matrix(t, &width, hops);
    struct reachable r = {(int)n, width, hops, both_ways};
    struct hamilton q = {joined, (int)n, first, closed};

    *found = st == ST_OK && n == 1;
    order[0] = first < 0 ? 0 : first;
    if (st == ST_OK && n > 1) {
        st = find_chain(&r, &q, joined, order, found);
    }
    mem_free(width);
    mem_free(hops);
    mem_free(joined);
    return st;
}
