/*
 * Certificates of bounds, added up from their definitions.
 *
 *   cut        what leads from one side to the other, over the part of the message that has to
 * cross partition  every byte enters all parts but one on the way down and leaves all parts but one
 * on the way up: 2 (parts - 1) crossings. A link between two parts serves one at a time; a group of
 * connected switches outside all parts passes on what it takes in, so that it serves no more
 * crossings than the smaller of its capacities in and out.
 */
#include "topo/plan_proof.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

static enum status bad(const struct verify *v, const char *what)
{
    return log_fail(ST_INPUT, "%s: the certificate of the plan is wrong: %s", v->path, what);
}

/* Set part[] of the named vertices; each may be named once. */
static enum status mark(const struct verify *v, const json_t *names, int part, int *parts)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        int vertex = name != NULL ? topo_find_vertex(v->t, name) : -1;
        if (vertex < 0) {
            return bad(v, "it names a vertex that the topology does not have");
        }
        if (parts[vertex] != -2) {
            return bad(v, "it names a vertex twice");
        }
        parts[vertex] = part;
    }
    return ST_OK;
}

/* Does the link join vertices of which no device is outside the plan? */
static bool usable(const struct verify *v, const struct topo_link *l)
{
    int ends[2] = {l->from, l->to};

    for (int e = 0; e < 2; e++) {
        bool known = !topo_is_device(v->t, ends[e]);
        for (int i = 0; i < v->n_nodes && !known; i++) {
            known = v->vertex[i] == ends[e];
        }
        if (!known) {
            return false;
        }
    }
    return true;
}

static enum status add_cut(const struct verify *v, const json_t *proof, int *part,
                           double *bound_gbs)
{
    double sum = 0;
    int sending = 0, receiving = 0, devices;

    TRY(mark(v, json_object_get(proof, "from"), 0, part));
    TRY(mark(v, json_object_get(proof, "to"), 1, part));
    for (int i = 0; i < v->n; i++) {
        sending += part[v->vertex[i]] == 0;
        receiving += part[v->vertex[i]] == 1;
    }
    if (sending + receiving != v->n || sending == 0 || receiving == 0) {
        return bad(v, "the two sides of its cut do not hold all devices, or one holds none");
    }
    for (int i = 0; i < v->t->n_links; i++) {
        const struct topo_link *l = &v->t->links[i];
        if (part[l->from] < 0 || part[l->to] < 0) {
            if (usable(v, l)) {
                return bad(v, "a switch is on no side of its cut");
            }
        } else if (part[l->from] == 0 && part[l->to] == 1 && usable(v, l)) {
            sum += 1e-9 * (double)l->bytes_per_s;
        }
    }
    switch (v->kind) {
    case VERIFY_BROADCAST:
    case VERIFY_REDUCE:
        if (part[v->vertex[v->fixed_root]] != (v->kind == VERIFY_BROADCAST ? 0 : 1)) {
            return bad(v, "the root is on the wrong side of its cut");
        }
        *bound_gbs = sum;
        return ST_OK;
    case VERIFY_ALLGATHER:
    case VERIFY_REDUCE_SCATTER:
        devices = v->kind == VERIFY_ALLGATHER ? sending : receiving;
        *bound_gbs = sum * v->n / devices;
        return ST_OK;
    case VERIFY_ALLREDUCE:
        *bound_gbs = sum;
        return ST_OK;
    }
    return ST_INPUT;
}

/* Number the groups of connected switches outside: group[v], -1 for vertices in parts. */
static void find_groups(const struct verify *v, const int *part, int *group)
{
    bool changed = true;

    for (int i = 0; i < v->t->n_vertices; i++) {
        group[i] = part[i] == -1 ? i : -1;
    }
    while (changed) {
        changed = false;
        for (int i = 0; i < v->t->n_links; i++) {
            int a = v->t->links[i].from, b = v->t->links[i].to;
            if (part[a] == -1 && part[b] == -1 && group[a] != group[b]) {
                int low = group[a] < group[b] ? group[a] : group[b];
                group[a] = group[b] = low;
                changed = true;
            }
        }
    }
}

static double crossing_gbs(const struct verify *v, const int *part, const int *group, double *in,
                           double *out)
{
    double sum = 0;

    for (int i = 0; i < v->t->n_links; i++) {
        const struct topo_link *l = &v->t->links[i];
        double gbs = 1e-9 * (double)l->bytes_per_s;
        if (!usable(v, l)) {
            continue;
        }
        if (part[l->from] >= 0 && part[l->to] >= 0) {
            sum += part[l->from] != part[l->to] ? gbs : 0;
        } else if (part[l->from] >= 0) {
            in[group[l->to]] += gbs;
        } else if (part[l->to] >= 0) {
            out[group[l->from]] += gbs;
        }
    }
    for (int i = 0; i < v->t->n_vertices; i++) {
        sum += in[i] < out[i] ? in[i] : out[i];
    }
    return sum;
}

static enum status add_partition(const struct verify *v, const json_t *proof, int *part,
                                 double *bound_gbs)
{
    const json_t *parts = json_object_get(proof, "parts");
    int n_parts = (int)json_array_size(parts), n = v->t->n_vertices;
    int *group = mem_alloc((size_t)n, sizeof *group);
    double *in = mem_alloc(2 * (size_t)n, sizeof *in);
    enum status st = group == NULL || in == NULL ? ST_NOMEM : ST_OK;

    for (int p = 0; st == ST_OK && p < n_parts; p++) {
        int devices = 0;
        st = mark(v, json_array_get(parts, (size_t)p), p, part);
        for (int i = 0; i < v->n; i++) {
            devices += part[v->vertex[i]] == p;
        }
        if (st == ST_OK && devices == 0) {
            st = bad(v, "a part holds no device");
        }
    }
    for (int i = 0; st == ST_OK && i < v->n_nodes; i++) {
        if (part[v->vertex[i]] < 0) {
            st = bad(v, "a device is in no part");
        }
    }
    if (st == ST_OK && (n_parts < 2 || v->kind != VERIFY_ALLREDUCE)) {
        st = bad(v, "a partition proves something about allreduce, and needs two parts");
    }
    if (st == ST_OK) {
        for (int i = 0; i < n; i++) {
            part[i] = part[i] < 0 ? -1 : part[i];
        }
        find_groups(v, part, group);
        *bound_gbs = crossing_gbs(v, part, group, in, in + n) / (2.0 * (n_parts - 1));
    }
    mem_free(group);
    mem_free(in);
    return st;
}

/* Weights of one pass at a link from a to b: sets that it enters, less what its ends pass on. */
static double weight_at(const double *switches, const double *weights, unsigned char *const *sets,
                        int n_sets, int a, int b)
{
    double sum = switches[b] - switches[a];

    for (int i = 0; i < n_sets; i++) {
        sum += !sets[i][a] && sets[i][b] ? weights[i] : 0;
    }
    return sum;
}

struct weighted {
    int n[2]; /* sets of the down and of the up pass */
    double *weights[2];
    unsigned char **sets[2]; /* [n_vertices] each */
    double *switches[2];     /* [n_vertices] */
};

static enum status read_sets(const struct verify *v, const json_t *proof, struct weighted *w,
                             double *outside)
{
    const json_t *cuts = json_object_get(proof, "cuts");

    for (size_t i = 0; i < json_array_size(cuts); i++) {
        const json_t *cut = json_array_get(cuts, i), *around = json_object_get(cut, "around");
        const char *pass = json_string_value(json_object_get(cut, "pass"));
        double weight = json_number_value(json_object_get(cut, "weight"));
        int p = pass != NULL && strcmp(pass, "up") == 0, devices = 0;
        unsigned char *set = mem_alloc((size_t)v->t->n_vertices, 1);
        if (set == NULL) {
            return ST_NOMEM;
        }
        w->weights[p][w->n[p]] = weight;
        w->sets[p][w->n[p]++] = set;
        for (size_t k = 0; k < json_array_size(around); k++) {
            const char *name = json_string_value(json_array_get(around, k));
            int vertex = name != NULL ? topo_find_vertex(v->t, name) : -1;
            if (vertex < 0) {
                return bad(v, "a cut names a vertex that the topology does not have");
            }
            set[vertex] = 1;
        }
        for (int r = 0; r < v->n; r++) {
            devices += set[v->vertex[r]];
            outside[r] += set[v->vertex[r]] ? 0 : weight;
        }
        if (devices == 0 || !(weight > 0)) {
            return bad(v, "a cut around no device or with a weight that is not positive");
        }
    }
    return ST_OK;
}

static enum status read_switches(const struct verify *v, const json_t *proof, struct weighted *w)
{
    const json_t *list = json_object_get(proof, "switches");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *pass = json_string_value(json_object_get(item, "pass"));
        double weight = json_number_value(json_object_get(item, "weight"));
        int vertex = name != NULL ? topo_find_vertex(v->t, name) : -1;
        if (vertex < 0 || topo_is_device(v->t, vertex) || !(weight >= 0)) {
            return bad(v, "a weight that is not of a switch or negative");
        }
        w->switches[pass != NULL && strcmp(pass, "up") == 0][vertex] = weight;
    }
    return ST_OK;
}

static double add_weights(const struct verify *v, const struct weighted *w, const double *outside)
{
    double sum = 0, least = outside[0];

    for (int i = 0; i < v->t->n_links; i++) {
        const struct topo_link *l = &v->t->links[i];
        if (usable(v, l)) {
            double down =
                weight_at(w->switches[0], w->weights[0], w->sets[0], w->n[0], l->from, l->to);
            double up =
                weight_at(w->switches[1], w->weights[1], w->sets[1], w->n[1], l->to, l->from);
            sum += 1e-9 * (double)l->bytes_per_s * fmax(0, fmax(down, up));
        }
    }
    for (int r = 1; r < v->n; r++) {
        least = outside[r] < least ? outside[r] : least;
    }
    return least > 0 ? sum / least : 0;
}

static enum status add_weighted(const struct verify *v, const json_t *proof, double *bound_gbs)
{
    size_t n_cuts = json_array_size(json_object_get(proof, "cuts")), n = (size_t)v->t->n_vertices;
    struct weighted w = {{0, 0}, {NULL, NULL}, {NULL, NULL}, {NULL, NULL}};
    double *outside = mem_alloc((size_t)v->n, sizeof *outside);
    enum status st = outside == NULL ? ST_NOMEM : ST_OK;

    for (int p = 0; p < 2; p++) {
        w.weights[p] = mem_alloc(n_cuts, sizeof(double));
        w.sets[p] = mem_alloc(n_cuts, sizeof(unsigned char *));
        w.switches[p] = mem_alloc(n, sizeof(double));
        if (w.weights[p] == NULL || w.sets[p] == NULL || w.switches[p] == NULL) {
            st = ST_NOMEM;
        }
    }
    if (st == ST_OK && (v->kind != VERIFY_ALLREDUCE || n_cuts == 0)) {
        st = bad(v, "weighted cuts prove something about allreduce, and need a cut");
    }
    if (st == ST_OK) {
        st = read_sets(v, proof, &w, outside);
    }
    if (st == ST_OK) {
        st = read_switches(v, proof, &w);
    }
    if (st == ST_OK) {
        *bound_gbs = add_weights(v, &w, outside);
    }
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < w.n[p]; i++) {
            mem_free(w.sets[p][i]);
        }
        mem_free(w.weights[p]);
        mem_free(w.sets[p]);
        mem_free(w.switches[p]);
    }
    mem_free(outside);
    return st;
}

enum status plan_proof_add_up(const struct verify *v, double *bound_gbs)
{
    const json_t *proof = json_object_get(v->root, "bottleneck");
    const char *kind = json_string_value(json_object_get(proof, "kind"));
    int *part = mem_alloc((size_t)v->t->n_vertices, sizeof *part);
    enum status st;

    if (part == NULL) {
        return ST_NOMEM;
    }
    for (int i = 0; i < v->t->n_vertices; i++) {
        part[i] = -2;
    }
    if (kind != NULL && strcmp(kind, "cut") == 0) {
        st = add_cut(v, proof, part, bound_gbs);
    } else if (kind != NULL && strcmp(kind, "partition") == 0) {
        st = add_partition(v, proof, part, bound_gbs);
    } else if (kind != NULL && strcmp(kind, "weighted-cuts") == 0) {
        st = add_weighted(v, proof, bound_gbs);
    } else {
        st = bad(v, "a bound without a cut or a partition that proves it");
    }
    mem_free(part);
    return st;
}
