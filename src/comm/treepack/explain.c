#include "comm/treepack/explain.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

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

/* Weighted cuts, from vertices of the lattice to those of the topology. */
static enum status copy_cuts(const struct topo *t, const struct lattice *l, const struct bound *b,
                             struct proof *proof)
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
    }
    for (int v = 0; v < 2 * l->n; v++) {
        proof->switch_weight[2 * l->vertex[v / 2] + v % 2] = b->switch_weight[v];
    }
    proof->den = b->cut_den;
    proof->kind = PROOF_WEIGHTED_CUTS;
    return ST_OK;
}

static enum status copy_parts(const struct topo *t, const struct solution *s, bool reversed,
                              struct proof *proof)
{
    const struct bound *b = &s->bound;

    proof->part = mem_alloc((size_t)t->n_vertices, sizeof *proof->part);
    if (proof->part == NULL) {
        return ST_NOMEM;
    }
    for (int v = 0; v < t->n_vertices; v++) {
        /* A switch without a use belongs to any side of a cut and to no part. */
        proof->part[v] = b->kind == BOUND_CUT ? 1 : -1;
    }
    for (int v = 0; v < s->whole->n; v++) {
        int p = b->part[v];
        proof->part[s->whole->vertex[v]] = b->kind == BOUND_CUT && reversed ? 1 - p : p;
    }
    proof->kind = b->kind == BOUND_CUT ? PROOF_CUT : PROOF_PARTITION;
    proof->n_parts = b->n_parts;
    return ST_OK;
}

enum status explain_bound(const struct topo *t, const struct solution *s,
                          const struct solve_request *q, struct plan *out)
{
    const struct bound *b = &s->bound;
    struct text text = {mem_alloc(TEXT_BYTES, 1), 0};

    out->bottleneck = text.p;
    if (text.p == NULL) {
        return ST_NOMEM;
    }
    if (b->kind == BOUND_WEIGHTED_CUTS) {
        TRY(copy_cuts(t, s->whole, b, &out->proof));
        put_number(&text, "a weighted sum of %g cuts,", b->n_cuts);
        put(&text, " in which every byte counts once and every link at most as often as its "
                   "weight, allows");
        put_number(&text, " %.6g GB/s", 1e-9 * out->bound_bytes_per_s);
        return ST_OK;
    }
    if (b->part == NULL) {
        put(&text, "one device has nothing to move");
        return ST_OK;
    }
    TRY(copy_parts(t, s, q->reversed, &out->proof));
    if (b->kind == BOUND_CUT) {
        explain_cut(&text, t, q, out->proof.part);
    } else {
        explain_partition(&text, t, b, out->proof.part, 1e-9 * out->bound_bytes_per_s);
    }
    return ST_OK;
}
