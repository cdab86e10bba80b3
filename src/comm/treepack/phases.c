#include "comm/treepack/phases.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/treepack/treepack.h"

/* One server: its devices and its plan, with its own numbers of ranks, vertices and links. */
struct server {
    struct topo *t;
    struct plan *plan;
    int *ranks, n;   /* of the whole */
    int *links;      /* the number of each of its links in the whole */
    size_t tree;     /* the tree at the position reached */
    struct share at; /* where that tree ends */
};

static int find(int *set, int v)
{
    while (set[v] != v) {
        v = set[v] = set[set[v]];
    }
    return v;
}

static bool is_network(const struct topo *t, int v)
{
    return t->vertices[v].kind == TOPO_NET || t->vertices[v].kind == TOPO_NIC;
}

static void find_servers(const struct topo *t, int *set)
{
    for (int v = 0; v < t->n_vertices; v++) {
        set[v] = v;
    }
    for (int i = 0; i < t->n_links; i++) {
        int a = t->links[i].from, b = t->links[i].to;
        if (!is_network(t, a) && !is_network(t, b)) {
            set[find(set, a)] = find(set, b);
        }
    }
    for (int v = 0; v < t->n_vertices; v++) {
        set[v] = find(set, v);
    }
}

/* The part of the topology whose vertices have the representative `lead`. */
static enum status cut_out(const struct topo *t, const int *set, int lead, struct server *s)
{
    s->ranks = mem_alloc((size_t)t->n_devices, sizeof *s->ranks);
    s->links = mem_alloc((size_t)t->n_links, sizeof *s->links);
    if (s->ranks == NULL || s->links == NULL) {
        return ST_NOMEM;
    }
    TRY(topo_create(t->name, "one server", &s->t));
    for (int r = 0; r < t->n_devices; r++) {
        int v = t->devices[r];
        if (set[v] == lead) {
            s->ranks[s->n++] = r;
            TRY(topo_add_vertex(s->t, t->vertices[v].name, t->vertices[v].kind, NULL));
        }
    }
    for (int v = 0; v < t->n_vertices; v++) {
        if (set[v] == lead && !topo_is_device(t, v)) {
            TRY(topo_add_vertex(s->t, t->vertices[v].name, t->vertices[v].kind, NULL));
        }
    }
    for (int i = 0; i < t->n_links; i++) {
        struct topo_link l = t->links[i];
        if (set[l.from] == lead && set[l.to] == lead) {
            l.from = topo_find_vertex(s->t, t->vertices[l.from].name);
            l.to = topo_find_vertex(s->t, t->vertices[l.to].name);
            s->links[s->t->n_links] = i;
            TRY(topo_add_link(s->t, &l));
        }
    }
    return ST_OK;
}

static enum status plan_server(struct server *s, const struct solve_request *q)
{
    s->plan = mem_alloc(1, sizeof *s->plan);
    if (s->plan == NULL) {
        return ST_NOMEM;
    }
    s->plan->collective = COLL_ALLREDUCE;
    s->plan->n_ranks = s->plan->n_nodes = s->n;
    s->plan->root = -1;
    TRY(treepack_add_best(s->t, q, 0, s->plan));
    s->at = s->plan->trees[0].share;
    return ST_OK;
}

/* One pass of a server's tree, in the numbers of the whole. */
static enum status copy_pass(const struct server *s, const int *parent, const struct path *paths,
                             int *to, struct path *to_paths)
{
    for (int i = 0; i < s->n; i++) {
        int v = s->ranks[i];
        if (parent[i] < 0) {
            continue;
        }
        to[v] = s->ranks[parent[i]];
        to_paths[v].links = mem_alloc((size_t)paths[i].n, sizeof(int));
        if (to_paths[v].links == NULL) {
            return ST_NOMEM;
        }
        for (int k = 0; k < paths[i].n; k++) {
            to_paths[v].links[k] = s->links[paths[i].links[k]];
        }
        to_paths[v].n = paths[i].n;
    }
    return ST_OK;
}

static const struct tree *tree_at(const struct server *s)
{
    return &s->plan->trees[s->tree];
}

/* The part at hand: a tree for every server as the root of all. */
static enum status add_part(const struct server *servers, int n, struct share width,
                            struct plan *out)
{
    for (int top = 0; top < n; top++) {
        int root = servers[top].ranks[tree_at(&servers[top])->root];
        struct tree *tree;
        TRY(plan_add_tree(out, root, share_make(width.num, width.den * n), &tree));
        for (int k = 0; k < n; k++) {
            const struct tree *own = tree_at(&servers[k]);
            TRY(copy_pass(&servers[k], own->up, own->up_path, tree->up, tree->up_path));
            TRY(copy_pass(&servers[k], own->down, own->down_path, tree->down, tree->down_path));
            if (k != top) {
                tree_set_parent(tree, servers[k].ranks[own->root], root);
            }
        }
    }
    return ST_OK;
}

static int compare(struct share a, struct share b)
{
    return frac_compare((struct frac){a.num, a.den}, (struct frac){b.num, b.den});
}

/* Lay the servers' trees side by side over the message; a part ends where any tree ends. */
static enum status add_parts(struct server *servers, int n, struct plan *out)
{
    struct share begin = {0, 1};

    for (;;) {
        struct share end = servers[0].at;
        for (int k = 1; k < n; k++) {
            end = compare(servers[k].at, end) < 0 ? servers[k].at : end;
        }
        TRY(add_part(servers, n,
                     share_make(end.num * begin.den - begin.num * end.den, end.den * begin.den),
                     out));
        for (int k = 0; k < n; k++) {
            struct server *s = &servers[k];
            if (compare(s->at, end) == 0 && ++s->tree < s->plan->n_trees) {
                struct share next = tree_at(s)->share;
                s->at =
                    share_make(s->at.num * next.den + next.num * s->at.den, s->at.den * next.den);
            }
        }
        begin = end;
        if (compare(begin, (struct share){1, 1}) >= 0) {
            return ST_OK;
        }
    }
}

static enum status plan_all(const struct topo *t, const struct solve_request *q, int *set,
                            struct server *servers, int *n, struct plan *out)
{
    find_servers(t, set);
    for (int r = 0; r < t->n_devices; r++) {
        bool seen = false;
        for (int p = 0; p < r && !seen; p++) {
            seen = set[t->devices[p]] == set[t->devices[r]];
        }
        if (!seen) {
            struct server *s = &servers[(*n)++];
            TRY(cut_out(t, set, set[t->devices[r]], s));
            TRY(plan_server(s, q));
        }
    }
    if (*n < 2) {
        return log_fail(ST_INPUT,
                        "treepack: three-phase is for several servers, topology %s is "
                        "one; leave it out",
                        t->name);
    }
    return add_parts(servers, *n, out);
}

enum status phases_plan(const struct topo *t, const struct solve_request *q, struct plan *out)
{
    int *set = mem_alloc((size_t)t->n_vertices, sizeof *set), n = 0;
    struct server *servers = mem_alloc((size_t)t->n_devices, sizeof *servers);
    enum status st = set == NULL || servers == NULL ? ST_NOMEM : ST_OK;

    if (st == ST_OK && q->kind != SOLVE_ALLREDUCE) {
        st = log_fail(ST_UNSUPPORTED, "treepack: three-phase is a way to do allreduce only");
    }
    if (st == ST_OK) {
        st = plan_all(t, q, set, servers, &n, out);
    }
    for (int k = 0; k < n; k++) {
        topo_destroy(servers[k].t);
        plan_destroy(servers[k].plan);
        mem_free(servers[k].ranks);
        mem_free(servers[k].links);
    }
    mem_free(servers);
    mem_free(set);
    return st;
}
