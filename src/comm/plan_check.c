#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/plan.h"
#include "comm/share.h"

/* What is being looked at, for messages. */
struct view {
    const struct plan *p;
    const struct topo *t;
    size_t tree;
    const char *pass;
};

static enum status bad(const struct view *v, const char *what, int node)
{
    return log_fail(ST_INTERNAL, "plan of %s (%s) is wrong: %s, tree %zu, %s pass, node %d",
                    v->p->backend, collective_name(v->p->collective), what, v->tree, v->pass, node);
}

static enum status check_path(const struct view *v, const struct path *path, int from, int to)
{
    const struct topo *t = v->t;
    int at = v->p->vertex_of[from];

    for (int k = 0; k < path->n; k++) {
        int i = path->links[k];
        if (i < 0 || i >= t->n_links || t->links[i].from != at) {
            return bad(v, "the path of an edge is broken", from);
        }
        if (k > 0 && topo_is_device(t, at)) {
            return bad(v, "the path of an edge crosses another device", from);
        }
        at = t->links[i].to;
    }
    return at == v->p->vertex_of[to] ? ST_OK : bad(v, "the path of an edge ends elsewhere", from);
}

/* Does the walk from `node` over its parents end at the root? */
static bool reaches(const int *parent, int n_nodes, int node, int root)
{
    for (int k = 0; k < n_nodes; k++) {
        if (node == root) {
            return true;
        }
        node = parent[node];
        if (node < 0 || node >= n_nodes) {
            return false;
        }
    }
    return false;
}

static bool has_child(const int *parent, int n_nodes, int node)
{
    for (int v = 0; v < n_nodes; v++) {
        if (parent[v] == node) {
            return true;
        }
    }
    return false;
}

static enum status check_pass(const struct view *v, int root, const int *parent,
                              const struct path *paths, bool up)
{
    const struct plan *p = v->p;

    if (parent[root] != -1) {
        return bad(v, "the root has a parent", root);
    }
    for (int i = 0; i < p->n_nodes; i++) {
        bool relay = i >= p->n_ranks;
        if (relay && i != root && parent[i] == -1 && !has_child(parent, p->n_nodes, i)) {
            continue; /* a relay may stand aside */
        }
        if (!reaches(parent, p->n_nodes, i, root)) {
            return bad(v, "a node does not hang on the root", i);
        }
        if (relay && !has_child(parent, p->n_nodes, i)) {
            return bad(v, "a relay is a leaf", i);
        }
        if (i != root) {
            TRY(check_path(v, &paths[i], up ? i : parent[i], up ? parent[i] : i));
        }
    }
    return ST_OK;
}

static enum status check_tree(struct view *v)
{
    const struct plan *p = v->p;
    const struct tree *t = &p->trees[v->tree];
    int limit = p->collective == COLL_ALLREDUCE ? p->n_nodes : p->n_ranks;

    v->pass = "any";
    if (t->root < 0 || t->root >= limit || (p->root >= 0 && t->root != p->root)) {
        return bad(v, "the root does not fit the collective", t->root);
    }
    if (t->share.num <= 0 || t->share.den <= 0) {
        return bad(v, "a share is not positive", t->root);
    }
    if ((t->up != NULL) != collective_has_up(p->collective) ||
        (t->down != NULL) != collective_has_down(p->collective)) {
        return bad(v, "the passes do not fit the collective", t->root);
    }
    if (t->up != NULL) {
        v->pass = "up";
        TRY(check_pass(v, t->root, t->up, t->up_path, true));
    }
    if (t->down != NULL) {
        v->pass = "down";
        TRY(check_pass(v, t->root, t->down, t->down_path, false));
    }
    return ST_OK;
}

/* Rank r's block is the r-th: trees sorted by root, the shares of each root 1/P in sum. */
static enum status check_blocks(struct view *v)
{
    const struct plan *p = v->p;
    size_t i = 0;

    for (int r = 0; r < p->n_ranks; r++) {
        struct share sum = {0, 1};
        v->tree = i;
        for (; i < p->n_trees && p->trees[i].root == r; i++) {
            if (!share_add(sum, p->trees[i].share, &sum)) {
                return bad(v, "the shares have no common denominator of 64 bits", r);
            }
        }
        if (!share_equal(sum, (struct share){1, p->n_ranks})) {
            return bad(v, "the shares of a root are not its block, or the trees not sorted", r);
        }
    }
    return ST_OK;
}

static enum status check_nodes(struct view *v)
{
    const struct plan *p = v->p;

    v->pass = "any";
    if (p->n_ranks < 1 || p->n_nodes < p->n_ranks || p->n_trees < 1) {
        return bad(v, "it has no ranks or no trees", -1);
    }
    for (int i = 0; i < p->n_nodes; i++) {
        int vertex = p->vertex_of[i];
        if (vertex < 0 || vertex >= v->t->n_vertices ||
            (i < p->n_ranks && !topo_is_device(v->t, vertex))) {
            return bad(v, "a node runs on no vertex of the topology that could hold it", i);
        }
    }
    return ST_OK;
}

enum status plan_check(const struct plan *p, const struct topo *t)
{
    struct view v = {.p = p, .t = t};
    struct share sum = {0, 1};

    TRY(check_nodes(&v));
    for (v.tree = 0; v.tree < p->n_trees; v.tree++) {
        TRY(check_tree(&v));
        if (!share_add(sum, p->trees[v.tree].share, &sum)) {
            return bad(&v, "the shares have no common denominator of 64 bits", -1);
        }
    }
    v.tree = 0;
    if (!share_equal(sum, (struct share){1, 1})) {
        return bad(&v, "the shares do not sum to 1", -1);
    }
    if (p->collective == COLL_REDUCE_SCATTER || p->collective == COLL_ALLGATHER) {
        TRY(check_blocks(&v));
    }
    return ST_OK;
}

/* The part of the message that crosses `link`. */
static double link_load(const struct plan *p, int link)
{
    double load = 0;

    for (size_t i = 0; i < p->n_trees; i++) {
        const struct tree *t = &p->trees[i];
        const struct path *paths[2] = {t->up_path, t->down_path};
        int crossings = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (int v = 0; paths[pass] != NULL && v < p->n_nodes; v++) {
                for (int k = 0; k < paths[pass][v].n; k++) {
                    crossings += paths[pass][v].links[k] == link;
                }
            }
        }
        load += crossings * (double)t->share.num / (double)t->share.den;
    }
    return load;
}

/* Add what crosses every link to load[n_links], in one go over the trees. */
static void add_loads(const struct plan *p, double *load)
{
    for (size_t i = 0; i < p->n_trees; i++) {
        const struct tree *t = &p->trees[i];
        const struct path *paths[2] = {t->up_path, t->down_path};
        double share = (double)t->share.num / (double)t->share.den;
        for (int pass = 0; pass < 2; pass++) {
            for (int v = 0; paths[pass] != NULL && v < p->n_nodes; v++) {
                for (int k = 0; k < paths[pass][v].n; k++) {
                    load[paths[pass][v].links[k]] += share;
                }
            }
        }
    }
}

double plan_link_seconds_per_byte(const struct plan *p, const struct topo *t)
{
    double *load = mem_alloc((size_t)t->n_links, sizeof *load), worst = 0;

    if (load != NULL) {
        add_loads(p, load);
    }
    for (int i = 0; i < t->n_links; i++) {
        /* Without memory the same sums, one link at a time. */
        double s = (load != NULL ? load[i] : link_load(p, i)) / (double)t->links[i].bytes_per_s;
        worst = s > worst ? s : worst;
    }
    mem_free(load);
    return worst;
}

static int depth_of(const int *parent, int n_nodes, int node)
{
    int depth = 0;

    for (; parent[node] >= 0 && depth < n_nodes; node = parent[node]) {
        depth++;
    }
    return depth;
}

int plan_depth(const struct plan *p)
{
    int deepest = 0;

    for (size_t i = 0; i < p->n_trees; i++) {
        const int *passes[2] = {p->trees[i].up, p->trees[i].down};
        for (int pass = 0; pass < 2; pass++) {
            for (int v = 0; passes[pass] != NULL && v < p->n_nodes; v++) {
                int d = depth_of(passes[pass], p->n_nodes, v);
                deepest = d > deepest ? d : deepest;
            }
        }
    }
    return deepest;
}
