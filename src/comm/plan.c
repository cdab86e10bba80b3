#include "comm/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "comm/nccl/nccl.h"

enum {
    MAX_PLANNERS = 64
};

static const char *const collective_names[] = {
    [COLL_BROADCAST] = "broadcast", [COLL_REDUCE] = "reduce",
    [COLL_ALLREDUCE] = "allreduce", [COLL_REDUCE_SCATTER] = "reduce-scatter",
    [COLL_ALLGATHER] = "allgather",
};

const char *collective_name(enum collective c)
{
    return collective_names[c];
}

bool collective_find(const char *name, enum collective *out)
{
    for (size_t i = 0; i < sizeof collective_names / sizeof *collective_names; i++) {
        if (strcmp(name, collective_names[i]) == 0) {
            *out = (enum collective)i;
            return true;
        }
    }
    return false;
}

bool collective_has_up(enum collective c)
{
    return c == COLL_REDUCE || c == COLL_ALLREDUCE || c == COLL_REDUCE_SCATTER;
}

bool collective_has_down(enum collective c)
{
    return c == COLL_BROADCAST || c == COLL_ALLREDUCE || c == COLL_ALLGATHER;
}

bool collective_has_root(enum collective c)
{
    return c == COLL_BROADCAST || c == COLL_REDUCE;
}

static enum status unknown_backend(const char *backend)
{
    const char *names[MAX_PLANNERS], *nearest;
    char list[512] = "";
    size_t n = 0;

    for (; n < MAX_PLANNERS && planner_at(n) != NULL; n++) {
        names[n] = planner_at(n)->name;
        if (strlen(list) + strlen(names[n]) + 3 < sizeof list) {
            strcat(strcat(list, n == 0 ? "" : ", "), names[n]);
        }
    }
    nearest = text_nearest(backend, names, n);
    return log_fail(ST_INPUT, "unknown backend '%s', [comm] backend, %s%s%suse one of: %s", backend,
                    nearest != NULL ? "did you mean '" : "", nearest != NULL ? nearest : "",
                    nearest != NULL ? "'? " : "", list);
}

static enum status check_request(const struct topo *t, const struct plan_request *q)
{
    if (q->n_ranks < 1 || q->n_ranks != t->n_devices) {
        return log_fail(ST_INPUT,
                        "%d ranks do not fit topology %s, which has %d devices, give as many "
                        "devices as ranks",
                        q->n_ranks, t->name, t->n_devices);
    }
    if (collective_has_root(q->collective) && (q->root < 0 || q->root >= q->n_ranks)) {
        return log_fail(ST_INPUT, "no rank %d for the root of %s, there are %d ranks", q->root,
                        collective_name(q->collective), q->n_ranks);
    }
    return ST_OK;
}

static enum status begin(struct plan *p, const char *backend, const struct topo *t,
                         const struct plan_request *q)
{
    p->collective = q->collective;
    (void)snprintf(p->backend, sizeof p->backend, "%s", backend);
    p->n_ranks = p->n_nodes = q->n_ranks;
    p->root = collective_has_root(q->collective) ? q->root : -1;
    p->pipelined = true;
    p->quiet = q->quiet;
    p->vertex_of = mem_alloc((size_t)p->n_ranks, sizeof *p->vertex_of);
    if (p->vertex_of == NULL) {
        return ST_NOMEM;
    }
    memcpy(p->vertex_of, t->devices, (size_t)p->n_ranks * sizeof *p->vertex_of);
    return ST_OK;
}

static enum status lay_trees(struct plan *p, const struct planner_ops *ops, const struct topo *t,
                             const struct plan_request *q)
{
    TRY(ops->plan(t, q, p));
    TRY(plan_route(p, t));
    return plan_check(p, t);
}

/* Without `ops` there are no trees. */
static enum status create(const char *backend, const struct planner_ops *ops, const struct topo *t,
                          const struct plan_request *q, struct plan **out)
{
    struct plan *p;
    enum status st;

    TRY(check_request(t, q));
    p = mem_alloc(1, sizeof *p);
    if (p == NULL) {
        return ST_NOMEM;
    }
    st = begin(p, backend, t, q);
    st = st == ST_OK && ops != NULL ? lay_trees(p, ops, t, q) : st;
    if (st != ST_OK) {
        plan_destroy(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

enum status plan_create_with(const struct planner_ops *ops, const struct topo *t,
                             const struct plan_request *q, struct plan **out)
{
    return create(ops->name, ops, t, q, out);
}

enum status plan_create_bare(const char *backend, const struct topo *t,
                             const struct plan_request *q, struct plan **out)
{
    return create(backend, NULL, t, q, out);
}

enum status plan_create(const char *backend, const struct topo *t, const struct plan_request *q,
                        struct plan **out)
{
    const struct planner_ops *ops = planner_find(backend);

    if (ops == NULL) {
        return strcmp(backend, "nccl") == 0 ? nccl_refuse() : unknown_backend(backend);
    }
    return plan_create_with(ops, t, q, out);
}

static void free_paths(struct path *paths, int n)
{
    for (int v = 0; paths != NULL && v < n; v++) {
        mem_free(paths[v].links);
    }
    mem_free(paths);
}

static void tree_fini(struct tree *t, int n_nodes)
{
    mem_free(t->up);
    mem_free(t->down);
    free_paths(t->up_path, n_nodes);
    free_paths(t->down_path, n_nodes);
}

static void proof_fini(struct proof *proof)
{
    for (int i = 0; i < proof->n_cuts; i++) {
        mem_free(proof->cuts[i].inside);
    }
    mem_free(proof->cuts);
    mem_free(proof->switch_weight);
    mem_free(proof->part);
}

void plan_destroy(struct plan *p)
{
    if (p == NULL) {
        return;
    }
    for (size_t i = 0; i < p->n_trees; i++) {
        tree_fini(&p->trees[i], p->n_nodes);
    }
    mem_free(p->trees);
    mem_free(p->vertex_of);
    mem_free(p->bottleneck);
    proof_fini(&p->proof);
    mem_free(p);
}

enum status plan_add_relay(struct plan *p, int vertex, int *node)
{
    size_t n = (size_t)p->n_nodes;
    int *grown = mem_grow(p->vertex_of, n, n + 1, sizeof *grown);

    if (grown == NULL) {
        return ST_NOMEM;
    }
    p->vertex_of = grown;
    p->vertex_of[p->n_nodes] = vertex;
    *node = p->n_nodes++;
    return ST_OK;
}

/* One pass of a new tree: no parents, no paths. */
static bool pass_init(int n_nodes, int **parent, struct path **path)
{
    *parent = mem_alloc((size_t)n_nodes, sizeof **parent);
    *path = mem_alloc((size_t)n_nodes, sizeof **path);
    for (int v = 0; *parent != NULL && v < n_nodes; v++) {
        (*parent)[v] = -1;
    }
    return *parent != NULL && *path != NULL;
}

enum status plan_add_tree(struct plan *p, int root, struct share share, struct tree **out)
{
    size_t n = p->n_trees;
    struct tree tree = {.root = root, .share = share};
    bool ok = true;

    if ((n & (n - 1)) == 0) { /* the array doubles at powers of two */
        struct tree *grown = mem_grow(p->trees, n, n == 0 ? 1 : 2 * n, sizeof *grown);
        if (grown == NULL) {
            return ST_NOMEM;
        }
        p->trees = grown;
    }
    if (collective_has_up(p->collective)) {
        ok = pass_init(p->n_nodes, &tree.up, &tree.up_path);
    }
    if (ok && collective_has_down(p->collective)) {
        ok = pass_init(p->n_nodes, &tree.down, &tree.down_path);
    }
    if (!ok) {
        tree_fini(&tree, p->n_nodes);
        return ST_NOMEM;
    }
    p->trees[n] = tree;
    p->n_trees++;
    *out = &p->trees[n];
    return ST_OK;
}

void tree_set_parent(struct tree *t, int node, int parent)
{
    if (t->up != NULL) {
        t->up[node] = parent;
    }
    if (t->down != NULL) {
        t->down[node] = parent;
    }
}

enum status plan_refuse(const struct plan *p, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return p->quiet ? ST_INPUT : log_fail(ST_INPUT, "%s", text);
}
