/*
 * The independent checker of plans. It reads the file itself and counts in exact fractions: the
 * load of a link is the sum of the shares that cross it, over one common denominator.
 */
#include "topo/plan_verify.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/plan_file.h"
#include "topo/plan_proof.h"

/* Two values that were printed with 12 digits. */
static bool same_number(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static enum status bad(const struct verify *v, const char *what)
{
    return log_fail(ST_INPUT, "%s: the plan is wrong: %s", v->path, what);
}

static enum status bad_tree(const struct verify *v, const char *what, const char *where)
{
    return log_fail(ST_INPUT, "%s: the plan is wrong: tree %zu, %s pass: %s", v->path, v->tree,
                    where, what);
}

static enum status read_devices(struct verify *v)
{
    const json_t *names = json_object_get(v->root, "devices");
    const json_t *relays = json_object_get(v->root, "relays");
    size_t n = json_array_size(names), n_relays = json_array_size(relays);

    if (n == 0 || n > (size_t)v->t->n_devices || n_relays > (size_t)v->t->n_vertices) {
        return bad(v, "its list of devices does not fit the topology");
    }
    v->n = (int)n;
    v->n_nodes = (int)(n + n_relays);
    v->vertex = mem_alloc(n + n_relays, sizeof *v->vertex);
    if (v->vertex == NULL) {
        return ST_NOMEM;
    }
    for (int i = 0; i < v->n_nodes; i++) {
        const json_t *name = i < v->n ? json_array_get(names, (size_t)i)
                                      : json_array_get(relays, (size_t)(i - v->n));
        v->vertex[i] = json_is_string(name) ? topo_find_vertex(v->t, json_string_value(name)) : -1;
        if (v->vertex[i] < 0 || (i < v->n && !topo_is_device(v->t, v->vertex[i]))) {
            return bad(v, "it names a device that the topology does not have");
        }
        for (int j = 0; i < v->n && j < i; j++) { /* a relay may be in the memory of a device */
            if (v->vertex[j] == v->vertex[i]) {
                return bad(v, "it names a device twice");
            }
        }
    }
    return ST_OK;
}

static enum status read_head(struct verify *v)
{
    static const char *const names[] = {"broadcast", "reduce", "allreduce", "reduce-scatter",
                                        "allgather"};
    const char *format = json_string_value(json_object_get(v->root, "format"));
    const char *name = json_string_value(json_object_get(v->root, "collective"));
    const json_t *root = json_object_get(v->root, "root");
    int kind = -1;

    if (format == NULL || strcmp(format, "espalier-plan/1") != 0) {
        return bad(v, "its format is not espalier-plan/1");
    }
    for (int i = 0; name != NULL && i < 5; i++) {
        kind = strcmp(name, names[i]) == 0 ? i : kind;
    }
    if (kind < 0) {
        return bad(v, "an unknown collective");
    }
    v->kind = (enum verify_kind)kind;
    v->has_up =
        v->kind == VERIFY_REDUCE || v->kind == VERIFY_ALLREDUCE || v->kind == VERIFY_REDUCE_SCATTER;
    v->has_down =
        v->kind == VERIFY_BROADCAST || v->kind == VERIFY_ALLREDUCE || v->kind == VERIFY_ALLGATHER;
    TRY(read_devices(v));
    v->fixed_root = -1;
    if (v->kind == VERIFY_BROADCAST || v->kind == VERIFY_REDUCE) {
        if (!json_is_integer(root) || json_integer_value(root) < 0 ||
            json_integer_value(root) >= v->n) {
            return bad(v, "its root is none of its ranks");
        }
        v->fixed_root = (int)json_integer_value(root);
    } else if (root != NULL && !json_is_null(root)) {
        return bad(v, "a root, which this collective does not have");
    }
    return ST_OK;
}

static enum status read_share(struct verify *v, const json_t *tree, int64_t *num, int64_t *den)
{
    const json_t *share = json_object_get(tree, "share");
    const json_t *a = json_array_get(share, 0), *b = json_array_get(share, 1);

    if (json_array_size(share) != 2 || !json_is_integer(a) || !json_is_integer(b) ||
        json_integer_value(a) <= 0 || json_integer_value(b) < json_integer_value(a)) {
        return bad_tree(v, "its share is no fraction between 0 and 1", "any");
    }
    *num = json_integer_value(a);
    *den = json_integer_value(b);
    return ST_OK;
}

/* A common denominator of all shares. */
static enum status find_denominator(struct verify *v, const json_t *trees)
{
    v->den = 1;
    for (v->tree = 0; v->tree < json_array_size(trees); v->tree++) {
        int64_t num, den, a, b;
        TRY(read_share(v, json_array_get(trees, v->tree), &num, &den));
        a = v->den;
        b = den;
        while (b != 0) {
            int64_t r = a % b;
            a = b;
            b = r;
        }
        if (__builtin_mul_overflow(v->den, den / a, &v->den) || v->den > INT64_MAX / 4096) {
            return bad(v, "its shares have no common denominator of 51 bits");
        }
    }
    return ST_OK;
}

/* The link between two vertices of the kind that starts at `*kind`, which moves on past a comma. */
static int next_link(const struct topo *t, int a, int b, const char **kind)
{
    size_t n = strcspn(*kind, ",");
    int found = -1;

    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        if (l->from == a && l->to == b && strlen(l->kind) == n && strncmp(l->kind, *kind, n) == 0) {
            found = i;
        }
    }
    *kind += (*kind)[n] == ',' ? n + 1 : 0;
    return found;
}

/* Follow the links of one edge, adding `units` to their loads. */
static enum status walk_edge(struct verify *v, const json_t *edge, int from, int to, int64_t units,
                             const char *pass)
{
    const json_t *via = json_object_get(edge, "via");
    const char *kind = json_string_value(json_object_get(edge, "link"));
    int at = -1;

    if (json_array_size(via) == 0 || kind == NULL) {
        return bad_tree(v, "an edge does not say which links it crosses", pass);
    }
    for (size_t i = 0; i < json_array_size(via); i++) {
        const char *name = json_string_value(json_array_get(via, i));
        int vertex = name != NULL ? topo_find_vertex(v->t, name) : -1;
        bool last = i + 1 == json_array_size(via);
        if (vertex < 0 || (i == 0 && vertex != v->vertex[from]) ||
            (last && vertex != v->vertex[to])) {
            return bad_tree(v, "the way of an edge does not join its ranks", pass);
        }
        if (i > 0) {
            int link = next_link(v->t, at, vertex, &kind);
            if (link < 0) {
                return bad_tree(v, "an edge crosses a link that does not exist", pass);
            }
            if (!last && topo_is_device(v->t, vertex)) {
                return bad_tree(v, "an edge crosses another device", pass);
            }
            v->load[link] += units;
        }
        at = vertex;
    }
    return ST_OK;
}

/* Does every rank reach the root over its parents? Relays may stand aside. */
static enum status check_span(struct verify *v, int root, const char *pass)
{
    for (int i = 0; i < v->n_nodes; i++) {
        int at = i, steps = 0;
        if (i >= v->n && v->parent[i] < 0) {
            continue;
        }
        while (at != root && v->parent[at] >= 0 && steps++ < v->n_nodes) {
            at = v->parent[at];
        }
        if (at != root) {
            return bad_tree(v, "it does not span: a rank does not hang on the root", pass);
        }
    }
    return v->parent[root] < 0 ? ST_OK : bad_tree(v, "the root has a parent", pass);
}

static enum status check_pass(struct verify *v, const json_t *edges, bool up, int root,
                              int64_t units)
{
    const char *pass = up ? "up" : "down";

    for (int i = 0; i < v->n_nodes; i++) {
        v->parent[i] = -1;
    }
    for (size_t i = 0; i < json_array_size(edges); i++) {
        const json_t *edge = json_array_get(edges, i);
        const json_t *f = json_object_get(edge, "from"), *t = json_object_get(edge, "to");
        json_int_t from = json_integer_value(f), to = json_integer_value(t);
        if (!json_is_integer(f) || !json_is_integer(t) || from < 0 || to < 0 ||
            from >= v->n_nodes || to >= v->n_nodes) {
            return bad_tree(v, "an edge between unknown ranks", pass);
        }
        int child = (int)(up ? from : to);
        if (v->parent[child] >= 0) {
            return bad_tree(v, "a rank has two parents", pass);
        }
        v->parent[child] = (int)(up ? to : from);
        TRY(walk_edge(v, edge, (int)from, (int)to, units, pass));
    }
    return check_span(v, root, pass);
}

static enum status check_tree(struct verify *v, const json_t *tree, int64_t *of_root,
                              int64_t *total)
{
    const json_t *root = json_object_get(tree, "root");
    const json_t *up = json_object_get(tree, "up"), *down = json_object_get(tree, "down");
    json_int_t r = json_integer_value(root);
    int64_t num, den, units;

    if (!json_is_integer(root) || r < 0 || r >= v->n_nodes ||
        (v->fixed_root >= 0 && r != v->fixed_root) || (v->kind != VERIFY_ALLREDUCE && r >= v->n)) {
        return bad_tree(v, "its root does not fit the collective", "any");
    }
    TRY(read_share(v, tree, &num, &den));
    units = num * (v->den / den);
    *total += units;
    of_root[r] += units;
    if (*total > v->den) {
        return bad(v, "the shares sum to more than 1");
    }
    if (v->has_up) {
        TRY(check_pass(v, up, true, (int)r, units));
    } else if (json_array_size(up) > 0) {
        return bad_tree(v, "the collective has no such pass", "up");
    }
    if (v->has_down) {
        TRY(check_pass(v, down, false, (int)r, units));
    } else if (json_array_size(down) > 0) {
        return bad_tree(v, "the collective has no such pass", "down");
    }
    return ST_OK;
}

static enum status check_trees(struct verify *v)
{
    const json_t *trees = json_object_get(v->root, "trees");
    int64_t *of_root = mem_alloc((size_t)v->n_nodes, sizeof *of_root), total = 0;
    enum status st = of_root == NULL ? ST_NOMEM : find_denominator(v, trees);

    for (v->tree = 0; st == ST_OK && v->tree < json_array_size(trees); v->tree++) {
        st = check_tree(v, json_array_get(trees, v->tree), of_root, &total);
    }
    if (st == ST_OK && total != v->den) {
        st = bad(v, "the shares do not sum to 1");
    }
    for (int r = 0; st == ST_OK && r < v->n; r++) {
        if ((v->kind == VERIFY_ALLGATHER || v->kind == VERIFY_REDUCE_SCATTER) &&
            of_root[r] * v->n != v->den) {
            st = bad(v, "the shares of a root do not sum to 1/P, the size of its block");
        }
    }
    mem_free(of_root);
    return st;
}

/* The rate that the fullest link allows, in GB/s; 0 if nothing moves. */
static double find_rate(const struct verify *v)
{
    const struct topo_link *worst = NULL;
    int64_t load = 0;

    for (int i = 0; i < v->t->n_links; i++) {
        const struct topo_link *l = &v->t->links[i];
        if (worst == NULL || (long double)v->load[i] * (long double)worst->bytes_per_s >
                                 (long double)load * (long double)l->bytes_per_s) {
            worst = l;
            load = v->load[i];
        }
    }
    return load == 0 ? 0 : 1e-9 * (double)worst->bytes_per_s * ((double)v->den / (double)load);
}

static enum status check_claims(struct verify *v, FILE *report)
{
    const json_t *claim = json_object_get(v->root, "algbw_gbs");
    const json_t *bound = json_object_get(v->root, "bound_gbs");
    double rate = find_rate(v), proved = 0;

    if (rate > 0 && (!json_is_number(claim) || !same_number(json_number_value(claim), rate))) {
        return log_fail(ST_INPUT, "%s: the plan is wrong: algbw_gbs is %.9g, its links allow %.9g",
                        v->path, json_number_value(claim), rate);
    }
    if (rate > 0 && json_is_number(bound)) {
        TRY(plan_proof_add_up(v, &proved));
        if (!same_number(json_number_value(bound), proved)) {
            return log_fail(ST_INPUT,
                            "%s: the plan is wrong: bound_gbs is %.9g, its certificate proves %.9g",
                            v->path, json_number_value(bound), proved);
        }
        if (rate > proved * (1 + 1e-9)) {
            return log_fail(ST_INPUT, "%s: the plan is wrong: its rate %.9g exceeds the bound %.9g",
                            v->path, rate, proved);
        }
    }
    if (report != NULL) {
        const size_t n_trees = json_array_size(json_object_get(v->root, "trees"));
        (void)fprintf(report, "%s: sound: %s, %d devices, %zu tree%s, %.6g GB/s", v->path,
                      json_string_value(json_object_get(v->root, "collective")), v->n, n_trees,
                      n_trees == 1 ? "" : "s", rate);
        if (proved > 0) {
            (void)fprintf(report, ", bound %.6g GB/s%s", proved,
                          same_number(rate, proved) ? ": optimal" : "");
        }
        (void)fputc('\n', report);
    }
    return ST_OK;
}

/* The plan may have been made for some kinds of links only; `*own` is then the rest of the lattice.
 */
static enum status keep_links(struct verify *v, struct topo **own)
{
    const json_t *links = json_object_get(v->root, "links");

    if (links == NULL || json_is_null(links) || v->t->kept != NULL) {
        return ST_OK;
    }
    if (!json_is_string(links)) {
        return bad(v, "its kinds of links are no text");
    }
    TRY(topo_keep_links(v->t, json_string_value(links), own));
    v->t = *own;
    return ST_OK;
}

enum status plan_verify(const char *path, const struct topo *t, FILE *report)
{
    struct verify v = {.path = path, .t = t};
    struct topo *own = NULL;
    enum status st;

    TRY(plan_file_load(path, &v.root));
    st = keep_links(&v, &own);
    if (st == ST_OK) {
        st = read_head(&v);
    }
    if (st == ST_OK) {
        v.parent = mem_alloc((size_t)v.n_nodes, sizeof *v.parent);
        v.load = mem_alloc((size_t)v.t->n_links, sizeof *v.load);
        st = v.parent == NULL || v.load == NULL ? ST_NOMEM : check_trees(&v);
    }
    if (st == ST_OK) {
        st = check_claims(&v, report);
    }
    json_decref(v.root);
    topo_destroy(own);
    mem_free(v.vertex);
    mem_free(v.parent);
    mem_free(v.load);
    return st;
}
