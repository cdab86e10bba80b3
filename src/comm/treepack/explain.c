#include "comm/treepack/explain.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "comm/treepack/dead_ends.h"

enum {
    TEXT_BYTES = 1024
};

/* Text that is cut off with "..." when it is full. */
struct text {
    char *p;
    size_t n;
};

static void put(struct text *t, const char *word)
{
    size_t n = strlen(word);

    if (t->n + n + 4 < TEXT_BYTES) {
        memcpy(t->p + t->n, word, n + 1);
        t->n += n;
    }
}

/* The devices of one part in braces; "all but {...}" where that is shorter. */
static void put_devices(struct text *text, const struct topo *t, const int *part, int which)
{
    int inside = 0, shown = 0;
    bool others;

    for (int r = 0; r < t->n_devices; r++) {
        inside += part[t->devices[r]] == which;
    }
    others = 2 * inside > t->n_devices + 1;
    put(text, others ? "all devices but {" : "{");
    for (int r = 0; r < t->n_devices; r++) {
        if ((part[t->devices[r]] == which) != others) {
            if (shown++ < 16) {
                put(text, shown > 1 ? " " : "");
                put(text, t->vertices[t->devices[r]].name);
            }
        }
    }
    put(text, shown > 16 ? " ...}" : "}");
}

static void put_number(struct text *text, const char *fmt, double x)
{
    char word[64];

    (void)snprintf(word, sizeof word, fmt, x);
    put(text, word);
}

/* Capacity from part 0 to part 1 in GB/s, and its summands. */
static double put_cut(struct text *text, const struct topo *t, const int *part)
{
    double sum = 0;
    int shown = 0;

    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        if (part[l->from] == 0 && part[l->to] == 1) {
            double gbs = 1e-9 * (double)l->bytes_per_s;
            sum += gbs;
            if (shown++ < 8) {
                put(text, shown > 1 ? " + " : "");
                put(text, t->vertices[l->from].name);
                put(text, ">");
                put(text, t->vertices[l->to].name);
                put_number(text, " %g", gbs);
            }
        }
    }
    put(text, shown > 8 ? " + ..." : "");
    put_number(text, " = %.6g GB/s", sum);
    return sum;
}

static void explain_cut(struct text *text, const struct topo *t, const struct solve_request *q,
                        const int *part)
{
    double sum;

    put(text, "from ");
    put_devices(text, t, part, 0);
    put(text, " to ");
    put_devices(text, t, part, 1);
    put(text, " lead ");
    sum = put_cut(text, t, part);
    if (q->kind == SOLVE_BROADCAST) {
        put(text, ", and the whole message has to cross");
    } else {
        int devices = 0;
        for (int r = 0; r < t->n_devices; r++) {
            devices += part[t->devices[r]] == (q->reversed ? 1 : 0);
        }
        put(text, ", and");
        put_number(text, " %g", devices);
        put_number(text, "/%g of the message have to cross: ", t->n_devices);
        put_number(text, "%.6g GB/s", sum * t->n_devices / devices);
    }
}

static void explain_partition(struct text *text, const struct topo *t, const struct bound *b,
                              const int *part, double rate_gbs)
{
    double crossings = 2.0 * (b->n_parts - 1);

    put(text, "every byte crosses between the");
    put_number(text, " %g parts", b->n_parts);
    for (int p = 0; p < b->n_parts && p < 8 && b->n_parts < t->n_devices; p++) {
        put(text, " ");
        put_devices(text, t, part, p);
    }
    if (b->n_parts == t->n_devices) {
        put(text, " (each device is one)");
    }
    put_number(text, " %g times", crossings);
    put_number(text, ", and the links between them carry %.6g GB/s", rate_gbs * crossings);
    put_number(text, ": %.6g GB/s", rate_gbs);
}

/* Room for a value of each vertex, and which of them the lattice leaves out. */
struct values {
    const struct topo *t;
    bool *left;
    int64_t *value;
};

static enum status values_init(struct values *s, const struct topo *t, const struct lattice *l)
{
    *s = (struct values){t, mem_alloc((size_t)t->n_vertices, sizeof *s->left),
                         mem_alloc((size_t)t->n_vertices, sizeof *s->value)};
    if (s->left == NULL || s->value == NULL) {
        return ST_NOMEM;
    }
    for (int v = 0; v < t->n_vertices; v++) {
        s->left[v] = true;
    }
    for (int v = 0; v < l->n; v++) {
        s->left[l->vertex[v]] = false;
    }
    return ST_OK;
}

static void values_fini(struct values *s)
{
    mem_free(s->left);
    mem_free(s->value);
}

static void level_set(struct values *s, bool up, unsigned char *inside)
{
    for (int v = 0; v < s->t->n_vertices; v++) {
        s->value[v] = inside[v];
    }
    dead_ends_level(s->t, s->left, up, s->value);
    for (int v = 0; v < s->t->n_vertices; v++) {
        inside[v] = (unsigned char)s->value[v];
    }
}

/* `weight`: [n_vertices] pairs, of which those of one pass. */
static void level_weights(struct values *s, bool up, int64_t *weight)
{
    for (int v = 0; v < s->t->n_vertices; v++) {
        s->value[v] = weight[2 * v + up];
    }
    dead_ends_level(s->t, s->left, up, s->value);
    for (int v = 0; v < s->t->n_vertices; v++) {
        weight[2 * v + up] = s->value[v];
    }
}

static void level_cut(struct values *s, int *part)
{
    for (int v = 0; v < s->t->n_vertices; v++) {
        s->value[v] = part[v];
    }
    dead_ends_level(s->t, s->left, false, s->value);
    for (int v = 0; v < s->t->n_vertices; v++) {
        part[v] = (int)s->value[v];
    }
}

/* Weighted cuts, from vertices of the lattice to those of the topology. */
static enum status copy_cuts(const struct topo *t, const struct lattice *l, const struct bound *b,
                             struct values *values, struct proof *proof)
{
    size_t n = (size_t)t->n_vertices;

    proof->cuts = mem_alloc((size_t)b->n_cuts, sizeof *proof->cuts);
    proof->switch_weight = mem_alloc(2 * n, sizeof *proof->switch_weight);
    if (proof->cuts == NULL || proof->switch_weight == NULL) {
        return ST_NOMEM;
    }
    for (int i = 0; i < b->n_cuts; i++) {
        struct proof_cut *cut = &proof->cuts[i];
        *cut = (struct proof_cut){b->cuts[i].up, b->cuts[i].weight, mem_alloc(n, 1)};
        proof->n_cuts++;
        if (cut->inside == NULL) {
            return ST_NOMEM;
        }
        for (int v = 0; v < l->n; v++) {
            cut->inside[l->vertex[v]] = b->cuts[i].inside[v];
        }
        level_set(values, cut->up, cut->inside);
    }
    for (int v = 0; v < 2 * l->n; v++) {
        proof->switch_weight[2 * l->vertex[v / 2] + v % 2] = b->switch_weight[v];
    }
    level_weights(values, false, proof->switch_weight);
    level_weights(values, true, proof->switch_weight);
    proof->den = b->cut_den;
    proof->kind = PROOF_WEIGHTED_CUTS;
    return ST_OK;
}

static enum status copy_parts(const struct topo *t, const struct solution *s, bool reversed,
                              struct values *values, struct proof *proof)
{
    const struct bound *b = &s->bound;

    proof->part = mem_alloc((size_t)t->n_vertices, sizeof *proof->part);
    if (proof->part == NULL) {
        return ST_NOMEM;
    }
    for (int v = 0; v < t->n_vertices; v++) {
        proof->part[v] = b->kind == BOUND_CUT ? 1 : -1;
    }
    for (int v = 0; v < s->whole->n; v++) {
        int p = b->part[v];
        proof->part[s->whole->vertex[v]] = b->kind == BOUND_CUT && reversed ? 1 - p : p;
    }
    if (b->kind == BOUND_CUT) {
        level_cut(values, proof->part);
    } else {
        dead_ends_join(t, values->left, proof->part);
    }
    proof->kind = b->kind == BOUND_CUT ? PROOF_CUT : PROOF_PARTITION;
    proof->n_parts = b->n_parts;
    return ST_OK;
}

static enum status explain(const struct topo *t, const struct solution *s,
                           const struct solve_request *q, struct values *values, struct text *text,
                           struct plan *out)
{
    const struct bound *b = &s->bound;

    if (b->kind == BOUND_WEIGHTED_CUTS) {
        TRY(copy_cuts(t, s->whole, b, values, &out->proof));
        put_number(text, "a weighted sum of %g cuts,", b->n_cuts);
        put(text, " in which every byte counts once and every link at most as often as its "
                  "weight, allows");
        put_number(text, " %.6g GB/s", 1e-9 * out->bound_bytes_per_s);
        return ST_OK;
    }
    if (b->part == NULL) {
        put(text, "one device has nothing to move");
        return ST_OK;
    }
    TRY(copy_parts(t, s, q->reversed, values, &out->proof));
    if (b->kind == BOUND_CUT) {
        explain_cut(text, t, q, out->proof.part);
    } else {
        explain_partition(text, t, b, out->proof.part, 1e-9 * out->bound_bytes_per_s);
    }
    return ST_OK;
}

enum status explain_bound(const struct topo *t, const struct solution *s,
                          const struct solve_request *q, struct plan *out)
{
    struct text text = {mem_alloc(TEXT_BYTES, 1), 0};
    struct values values;
    enum status st;

    out->bottleneck = text.p;
    if (text.p == NULL) {
        return ST_NOMEM;
    }
    st = values_init(&values, t, s->whole);
    if (st == ST_OK) {
        st = explain(t, s, q, &values, &text, out);
    }
    values_fini(&values);
    return st;
}
