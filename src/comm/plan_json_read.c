#include <jansson.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/plan_json.h"
#include "topo/plan_file.h"

/* What is read, for messages. */
struct source {
    const char *path;
    const struct topo *t;
    struct plan *p;
    size_t tree;
};

static enum status bad(const struct source *s, const char *what)
{
    return log_fail(ST_INPUT, "%s: not a plan that can be used: %s; make one with topo plan --json",
                    s->path, what);
}

static enum status bad_tree(const struct source *s, const char *what)
{
    return log_fail(ST_INPUT, "%s: tree %zu of the plan cannot be used: %s", s->path, s->tree,
                    what);
}

/* The devices must be those of the topology, in the same order: ranks are their places. */
static enum status read_devices(struct source *s, const json_t *root)
{
    const json_t *names = json_object_get(root, "devices");
    const json_t *relays = json_object_get(root, "relays");

    if (!json_is_array(names)) {
        return bad(s, "no list of devices");
    }
    if (json_array_size(names) != (size_t)s->t->n_devices) {
        return log_fail(ST_INPUT,
                        "%s: the plan was made for %zu devices, and topology %s has %d; make it "
                        "anew for these devices",
                        s->path, json_array_size(names), s->t->name, s->t->n_devices);
    }
    for (int r = 0; r < s->t->n_devices; r++) {
        const char *want = s->t->vertices[s->t->devices[r]].name;
        const char *name = json_string_value(json_array_get(names, (size_t)r));
        if (name == NULL || strcmp(name, want) != 0) {
            return log_fail(ST_INPUT,
                            "%s: the plan was made for other devices: rank %d is '%s' there and "
                            "'%s' in topology %s; make it anew for these devices",
                            s->path, r, name != NULL ? name : "?", want, s->t->name);
        }
    }
    s->p->n_ranks = s->p->n_nodes = s->t->n_devices;
    s->p->vertex_of = mem_alloc((size_t)s->p->n_ranks, sizeof *s->p->vertex_of);
    if (s->p->vertex_of == NULL) {
        return ST_NOMEM;
    }
    memcpy(s->p->vertex_of, s->t->devices, (size_t)s->p->n_ranks * sizeof *s->t->devices);
    for (size_t i = 0; i < json_array_size(relays); i++) {
        const char *name = json_string_value(json_array_get(relays, i));
        int vertex = name != NULL ? topo_find_vertex(s->t, name) : -1, node;
        if (vertex < 0) {
            return bad(s, "a relay that the topology does not have");
        }
        TRY(plan_add_relay(s->p, vertex, &node));
    }
    return ST_OK;
}

static enum status read_root(struct source *s, const json_t *root)
{
    const json_t *r = json_object_get(root, "root");

    s->p->root = -1;
    if (collective_has_root(s->p->collective)) {
        json_int_t v = json_integer_value(r);
        if (!json_is_integer(r) || v < 0 || v >= s->p->n_ranks) {
            return bad(s, "the root is not one of its ranks");
        }
        s->p->root = (int)v;
    } else if (r != NULL && !json_is_null(r)) {
        return bad(s, "a root, which this collective does not have");
    }
    return ST_OK;
}

static enum status read_head(struct source *s, const json_t *root)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const char *collective = json_string_value(json_object_get(root, "collective"));
    const char *backend = json_string_value(json_object_get(root, "backend"));
    const json_t *pipelined = json_object_get(root, "pipelined");
    double bound = json_number_value(json_object_get(root, "bound_gbs"));

    if (format == NULL || strcmp(format, "espalier-plan/1") != 0) {
        return bad(s, "its format is not espalier-plan/1");
    }
    if (collective == NULL || !collective_find(collective, &s->p->collective)) {
        return bad(s, "an unknown collective");
    }
    if (backend == NULL || backend[0] == '\0' || strlen(backend) >= sizeof s->p->backend) {
        return bad(s, "no name of a backend");
    }
    strcpy(s->p->backend, backend);
    s->p->pipelined = pipelined == NULL || json_is_true(pipelined);
    s->p->bound_bytes_per_s = bound > 0 ? 1e9 * bound : 0;
    TRY(read_devices(s, root));
    return read_root(s, root);
}

/* The link from `a` to `b`, of the kind of `n` letters if there is one, else the fastest. */
static int find_link(const struct topo *t, int a, int b, const char *kind, size_t n)
{
    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        if (l->from == a && l->to == b && strlen(l->kind) == n && strncmp(l->kind, kind, n) == 0) {
            return i;
        }
    }
    return n == 0 ? topo_find_link(t, a, b) : -1;
}

static enum status read_path(struct source *s, const json_t *edge, struct path *path)
{
    const json_t *via = json_object_get(edge, "via");
    const char *kind = json_string_value(json_object_get(edge, "link"));
    size_t n = json_array_size(via);

    if (n < 1 || kind == NULL) {
        return bad_tree(s, "an edge without \"via\" or \"link\"");
    }
    path->links = mem_alloc(n, sizeof *path->links);
    if (path->links == NULL) {
        return ST_NOMEM;
    }
    for (size_t i = 0; i + 1 < n; i++) {
        const char *a = json_string_value(json_array_get(via, i));
        const char *b = json_string_value(json_array_get(via, i + 1));
        int from = a != NULL ? topo_find_vertex(s->t, a) : -1;
        int to = b != NULL ? topo_find_vertex(s->t, b) : -1;
        size_t letters = strcspn(kind, ",");
        int link = from >= 0 && to >= 0 ? find_link(s->t, from, to, kind, letters) : -1;
        if (link < 0) {
            return log_fail(ST_INPUT,
                            "%s: tree %zu crosses a link %s-%s of kind %.*s that topology "
                            "%s does not have",
                            s->path, s->tree, a != NULL ? a : "?", b != NULL ? b : "?",
                            (int)letters, kind, s->t->name);
        }
        path->links[path->n++] = link;
        if (kind[letters] == ',') {
            kind += letters + 1;
        }
    }
    return ST_OK;
}

static enum status read_pass(struct source *s, const json_t *edges, bool up, int *parent,
                             struct path *paths)
{
    for (size_t i = 0; i < json_array_size(edges); i++) {
        const json_t *edge = json_array_get(edges, i);
        const json_t *child = json_object_get(edge, up ? "from" : "to");
        const json_t *other = json_object_get(edge, up ? "to" : "from");
        json_int_t v = json_integer_value(child), u = json_integer_value(other);
        if (!json_is_integer(child) || !json_is_integer(other) || v < 0 || u < 0 ||
            v >= s->p->n_nodes || u >= s->p->n_nodes) {
            return bad_tree(s, "an edge between unknown ranks");
        }
        if (parent[v] >= 0) {
            return bad_tree(s, "a rank with two parents");
        }
        parent[v] = (int)u;
        TRY(read_path(s, edge, &paths[v]));
    }
    return ST_OK;
}

static enum status read_tree(struct source *s, const json_t *tree)
{
    const json_t *share = json_object_get(tree, "share");
    const json_t *num = json_array_get(share, 0), *den = json_array_get(share, 1);
    const json_t *root = json_object_get(tree, "root");
    const json_t *up = json_object_get(tree, "up"), *down = json_object_get(tree, "down");
    struct tree *out;

    if (!json_is_integer(root) || json_integer_value(root) < 0 ||
        json_integer_value(root) >= s->p->n_nodes) {
        return bad_tree(s, "its root is no rank");
    }
    if (!json_is_integer(num) || !json_is_integer(den) || json_integer_value(num) <= 0 ||
        json_integer_value(den) < json_integer_value(num)) {
        return bad_tree(s, "its share is not a fraction between 0 and 1");
    }
    TRY(plan_add_tree(s->p, (int)json_integer_value(root),
                      share_make(json_integer_value(num), json_integer_value(den)), &out));
    if ((out->up == NULL && json_array_size(up) > 0) ||
        (out->down == NULL && json_array_size(down) > 0)) {
        return bad_tree(s, "a pass that the collective does not have");
    }
    if (out->up != NULL) {
        TRY(read_pass(s, up, true, out->up, out->up_path));
    }
    if (out->down != NULL) {
        TRY(read_pass(s, down, false, out->down, out->down_path));
    }
    return ST_OK;
}

static enum status read_plan(struct source *s, const json_t *root)
{
    const json_t *trees = json_object_get(root, "trees");

    TRY(read_head(s, root));
    for (s->tree = 0; s->tree < json_array_size(trees); s->tree++) {
        TRY(read_tree(s, json_array_get(trees, s->tree)));
    }
    return plan_check(s->p, s->t) == ST_OK ? ST_OK : bad(s, "it fails the check above");
}

enum status plan_json_read(const char *path, const struct topo *t, struct plan **out)
{
    struct source s = {.path = path, .t = t};
    json_t *root;
    enum status st;

    TRY(plan_file_load(path, &root));
    s.p = mem_alloc(1, sizeof *s.p);
    st = s.p == NULL ? ST_NOMEM : read_plan(&s, root);
    json_decref(root);
    if (st != ST_OK) {
        plan_destroy(s.p);
        return st;
    }
    *out = s.p;
    return ST_OK;
}

/* "reduce over 4 devices to rank 1" */
static void describe(enum collective c, int n_ranks, int root, char text[64])
{
    int n = snprintf(text, 64, "%s over %d devices", collective_name(c), n_ranks);

    if (collective_has_root(c)) {
        (void)snprintf(text + n, 64 - (size_t)n, " %s rank %d", c == COLL_REDUCE ? "to" : "from",
                       root);
    }
}

enum status plan_json_read_for(const char *path, const struct topo *t, const struct plan_request *q,
                               struct plan **out)
{
    struct plan *p;
    char is[64], wanted[64];

    TRY(plan_json_read(path, t, &p));
    if (p->collective != q->collective || p->n_ranks != q->n_ranks ||
        (collective_has_root(q->collective) && p->root != q->root)) {
        describe(p->collective, p->n_ranks, p->root, is);
        describe(q->collective, q->n_ranks, q->root, wanted);
        plan_destroy(p);
        return log_fail(ST_INPUT,
                        "%s: the plan is for %s, and %s is asked for; make one for that with topo "
                        "plan --json, or ask for what it is for",
                        path, is, wanted);
    }
    *out = p;
    return ST_OK;
}
