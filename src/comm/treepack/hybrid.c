#include "comm/treepack/hybrid.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/treepack/treepack.h"

enum {
    PARTS = 1000
}; /* shares of the planes are counted in thousandths */

static bool listed(const char *kinds, const char *kind)
{
    size_t n = strlen(kind);

    for (const char *p = kinds; *p != '\0'; p += strcspn(p, ","), p += *p == ',') {
        if (strcspn(p, ",") == n && strncmp(p, kind, n) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * The topology with only the links of one plane. `back[i]` is the number in `t` of its link i, so
 * that paths can be translated.
 */
static enum status make_plane(const struct topo *t, const char *kinds, bool first, int *back,
                              struct topo **out)
{
    struct topo *s;
    enum status st;

    TRY(topo_create(t->name, t->desc, &s));
    st = ST_OK;
    for (int v = 0; st == ST_OK && v < t->n_vertices; v++) {
        st = topo_add_vertex(s, t->vertices[v].name, t->vertices[v].kind, NULL);
    }
    for (int i = 0; st == ST_OK && i < t->n_links; i++) {
        if (listed(kinds, t->links[i].kind) == first) {
            back[s->n_links] = i;
            st = topo_add_link(s, &t->links[i]);
        }
    }
    if (st != ST_OK) {
        topo_destroy(s);
        return st;
    }
    memcpy(s->devices, t->devices, (size_t)t->n_devices * sizeof *t->devices);
    *out = s;
    return ST_OK;
}

/* Does every device reach and get reached by the first one? */
static enum status joins(const struct topo *t, bool *yes)
{
    bool *seen = mem_alloc((size_t)t->n_vertices, sizeof *seen);

    if (seen == NULL) {
        return ST_NOMEM;
    }
    *yes = true;
    for (int forward = 0; forward < 2 && *yes; forward++) {
        bool grown = true;
        memset(seen, 0, (size_t)t->n_vertices * sizeof *seen);
        seen[t->devices[0]] = true;
        while (grown) {
            grown = false;
            for (int i = 0; i < t->n_links; i++) {
                int a = forward == 1 ? t->links[i].from : t->links[i].to;
                int b = forward == 1 ? t->links[i].to : t->links[i].from;
                if (seen[a] && !seen[b]) {
                    seen[b] = true;
                    grown = true;
                }
            }
        }
        for (int r = 0; r < t->n_devices; r++) {
            *yes = *yes && seen[t->devices[r]];
        }
    }
    mem_free(seen);
    return ST_OK;
}

/* Copy a tree of a plane's plan with its share times part / PARTS. */
static enum status copy_tree(const struct plan *from, const struct tree *tree, int64_t part,
                             const int *back, struct plan *out)
{
    struct share share = share_make(tree->share.num * part, tree->share.den * PARTS);
    struct tree *copy;

    TRY(plan_add_tree(out, tree->root, share, &copy));
    for (int pass = 0; pass < 2; pass++) {
        const int *parent = pass == 0 ? tree->up : tree->down;
        const struct path *paths = pass == 0 ? tree->up_path : tree->down_path;
        int *to = pass == 0 ? copy->up : copy->down;
        struct path *to_paths = pass == 0 ? copy->up_path : copy->down_path;
        for (int v = 0; parent != NULL && v < from->n_ranks; v++) {
            to[v] = parent[v];
            if (parent[v] < 0) {
                continue;
            }
            to_paths[v].links = mem_alloc((size_t)paths[v].n, sizeof(int));
            if (to_paths[v].links == NULL) {
                return ST_NOMEM;
            }
            for (int k = 0; k < paths[v].n; k++) {
                to_paths[v].links[k] = back[paths[v].links[k]];
            }
            to_paths[v].n = paths[v].n;
        }
    }
    return ST_OK;
}

/* Both planes' trees, those of one root together. */
static enum status merge(struct plan *const planes[2], const int64_t parts[2], int *const back[2],
                         struct plan *out)
{
    for (int root = 0; root < out->n_ranks; root++) {
        for (int k = 0; k < 2; k++) {
            for (size_t i = 0; planes[k] != NULL && parts[k] > 0 && i < planes[k]->n_trees; i++) {
                if (planes[k]->trees[i].root == root) {
                    TRY(copy_tree(planes[k], &planes[k]->trees[i], parts[k], back[k], out));
                }
            }
        }
    }
    return ST_OK;
}

/* Eq. 8 in thousandths of the message. */
static int64_t second_part(double a, double b, double switch_s, size_t n_bytes)
{
    double part = b / (a + b);

    if (n_bytes > 0) {
        part -= switch_s * a * b / (a + b) / (double)n_bytes;
    }
    return part > 0 ? (int64_t)(part * PARTS + 0.5) : 0;
}

static enum status plan_plane(const struct topo *t, const struct plan *like,
                              const struct solve_request *q, size_t n_bytes, struct plan **out)
{
    struct plan *p = mem_alloc(1, sizeof *p);
    enum status st;

    if (p == NULL) {
        return ST_NOMEM;
    }
    p->collective = like->collective;
    p->n_ranks = p->n_nodes = like->n_ranks;
    p->root = like->root;
    p->pipelined = true;
    st = treepack_add_best(t, q, n_bytes, p);
    if (st != ST_OK) {
        plan_destroy(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

static enum status explain(const int64_t parts[2], double a, double b, const char *kinds,
                           struct plan *out)
{
    out->bound_bytes_per_s = 0; /* the planes' bounds do not add up to one of the whole */
    out->bottleneck =
        mem_printf("%.1f %% over %s at %.6g GB/s and %.1f %% over the other links at "
                   "%.6g GB/s, each plane at its own bound",
                   0.1 * (double)parts[0], kinds, 1e-9 * a, 0.1 * (double)parts[1], 1e-9 * b);
    return out->bottleneck == NULL ? ST_NOMEM : ST_OK;
}

enum status hybrid_plan(const struct topo *t, const struct solve_request *q, const char *kinds,
                        double switch_s, size_t n_bytes, struct plan *out)
{
    int *back[2] = {mem_alloc((size_t)t->n_links, sizeof(int)),
                    mem_alloc((size_t)t->n_links, sizeof(int))};
    struct topo *planes[2] = {NULL, NULL};
    struct plan *plans[2] = {NULL, NULL};
    double rate[2] = {0, 0};
    int64_t parts[2];
    enum status st = back[0] == NULL || back[1] == NULL ? ST_NOMEM : ST_OK;

    for (int k = 0; st == ST_OK && k < 2; k++) {
        bool yes = false;
        st = make_plane(t, kinds, k == 0, back[k], &planes[k]);
        if (st == ST_OK) {
            st = joins(planes[k], &yes);
        }
        if (st == ST_OK && yes) {
            st = plan_plane(planes[k], out, q, n_bytes, &plans[k]);
            rate[k] = st == ST_OK ? 1 / plan_link_seconds_per_byte(plans[k], planes[k]) : 0;
        }
    }
    if (st == ST_OK && plans[0] == NULL && plans[1] == NULL) {
        st = log_fail(ST_INPUT, "treepack: neither %s nor the other links join all devices", kinds);
    }
    if (st == ST_OK) {
        parts[1] = plans[0] == NULL   ? PARTS
                   : plans[1] == NULL ? 0
                                      : second_part(rate[0], rate[1], switch_s, n_bytes);
        parts[0] = PARTS - parts[1];
        st = merge(plans, parts, back, out);
    }
    if (st == ST_OK) {
        st = explain(parts, rate[0], rate[1], kinds, out);
    }
    for (int k = 0; k < 2; k++) {
        plan_destroy(plans[k]);
        topo_destroy(planes[k]);
        mem_free(back[k]);
    }
    return st;
}
