#include "comm/route.h"

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

    TRY(route_matrix(t, &m));
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

/* Which pairs are joined by at least `width`, with `both_ways` in either direction? */
static void join(const int64_t *m, int n, bool both_ways, int64_t width, bool *joined)
{
    for (int a = 0; a < n; a++) {
        for (int b = 0; b < n; b++) {
            joined[a * n + b] = m[a * n + b] >= width && (!both_ways || m[b * n + a] >= width);
        }
    }
}

enum status route_chain(const struct topo *t, int first, bool closed, bool both_ways, int *order,
                        bool *found)
{
    int n = t->n_devices;
    bool *joined = mem_alloc((size_t)n * (size_t)n, sizeof *joined);
    int64_t *m = NULL, width = INT64_MAX;
    enum status st = joined == NULL ? ST_NOMEM : route_matrix(t, &m);
    struct hamilton q = {joined, n, first, closed};

    *found = st == ST_OK && n == 1;
    order[0] = first < 0 ? 0 : first;
    while (st == ST_OK && !*found && (width = next_width(m, n, width)) > 0) {
        join(m, n, both_ways, width, joined);
        st = hamilton_find(&q, order, found);
    }
    mem_free(m);
    mem_free(joined);
    return st;
}
