/*
 * Multiplicative weights (Garg and Könemann 1998; Chekuri and Quanrud 2017). Every arc has a length
 * that grows with its use. Each round takes the shortest tree, as often as its thinnest arc allows,
 * and stretches its arcs:
 *
 *     length(e) *= 1 + eps bottleneck / cap(e),      until sum of length(e) cap(e) >= 1
 *
 * Scaled down by the fullest arc, the trees together are within 1 - eps of the optimum, but there
 * are many of them with tiny weights. Reduction: choose among them, whole units first, then halves,
 * thirds and so on, until the chosen ones come within the threshold.
 */
#include "comm/treepack/mwu.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/treepack/arborescence.h"

enum {
    MAX_DEN = 12,
    MAX_NODES = 400000,
    MAX_ITERATIONS = 2000000
};

void mwu_result_fini(struct mwu_result *r)
{
    lattice_destroy(r->l);
    packing_fini(&r->raw);
    packing_fini(&r->reduced);
    memset(r, 0, sizeof *r);
}

struct state {
    const struct lattice *l;
    const int *rev; /* allreduce: arcs come in pairs that are used alike; else NULL */
    int root;
    double *length;
    int *arc;
    int64_t *load;
    size_t *order; /* of the candidates in the search */
};

static enum status find_tree(struct state *s, bool *found)
{
    if (s->rev != NULL) {
        spanning_tree_find(s->l, s->length, s->root, s->arc, found);
        return ST_OK;
    }
    return arborescence_find(s->l, s->length, s->root, s->arc, found);
}

static double stretch(struct state *s, double epsilon, int64_t bottleneck)
{
    double grown = 0;

    for (int v = 0; v < s->l->n_dev; v++) {
        int i = s->arc[v];
        if (i < 0) {
            continue;
        }
        double more = s->length[i] * epsilon * (double)bottleneck / (double)s->l->arcs[i].cap;
        s->length[i] += more;
        grown += more * (double)s->l->arcs[i].cap;
        if (s->rev != NULL) {
            s->length[s->rev[i]] = s->length[i];
        }
    }
    return grown;
}

static enum status iterate(struct state *s, double epsilon, struct mwu_result *r)
{
    int m = s->rev != NULL ? s->l->m / 2 : s->l->m;
    double delta = pow(m / (1 - epsilon), -1 / epsilon), total = m * delta;

    for (int i = 0; i < s->l->m; i++) {
        s->length[i] = delta / (double)s->l->arcs[i].cap;
    }
    for (r->iterations = 0; total < 1 && r->iterations < MAX_ITERATIONS; r->iterations++) {
        int64_t bottleneck = INT64_MAX;
        bool found;
        TRY(find_tree(s, &found));
        if (!found) {
            return log_fail(ST_INPUT, "treepack: the devices are not all connected by these "
                                      "links; allow more kinds of links or other devices");
        }
        for (int v = 0; v < s->l->n_dev; v++) {
            int64_t cap = s->arc[v] >= 0 ? s->l->arcs[s->arc[v]].cap : INT64_MAX;
            bottleneck = cap < bottleneck ? cap : bottleneck;
        }
        TRY(packing_add(&r->raw, s->root, bottleneck, s->arc));
        total += stretch(s, epsilon, bottleneck);
    }
    return ST_OK;
}

/* The rate of a packing after scaling by its fullest arc. */
static struct frac rate_of(const struct state *s, const struct packing *p)
{
    struct frac worst = {0, 1};
    int64_t sum = 0;

    memset(s->load, 0, (size_t)s->l->m * sizeof *s->load);
    for (size_t i = 0; i < p->n; i++) {
        sum += p->trees[i].weight;
        for (int v = 0; v < p->n_dev; v++) {
            int a = p->trees[i].arc[v];
            if (a >= 0) {
                s->load[s->rev != NULL && s->rev[a] < a ? s->rev[a] : a] += p->trees[i].weight;
            }
        }
    }
    for (int i = 0; i < s->l->m; i++) {
        struct frac f = frac_make(s->load[i], s->l->arcs[i].cap);
        worst = frac_compare(f, worst) > 0 ? f : worst;
    }
    return worst.num == 0 ? worst : frac_make(sum * worst.den, worst.num);
}

/* The search for few trees: take candidates in order, each as often as it still fits. */
struct search {
    const struct state *s;
    const struct packing *from;
    int64_t *left;  /* [m] capacity in 1/den units */
    int64_t *count; /* [from->n] of the trees taken now, and in the best choice */
    int64_t *best;
    int64_t taken, most, target;
    int nodes;
};

static int arc_key(const struct state *s, int a)
{
    return s->rev != NULL && s->rev[a] < a ? s->rev[a] : a;
}

static bool fits(const struct search *f, size_t i)
{
    const int *arc = f->from->trees[i].arc;

    for (int v = 0; v < f->from->n_dev; v++) {
        if (arc[v] >= 0 && f->left[arc_key(f->s, arc[v])] < 1) {
            return false;
        }
    }
    return true;
}

static void take(struct search *f, size_t i, int64_t sign)
{
    const int *arc = f->from->trees[i].arc;

    for (int v = 0; v < f->from->n_dev; v++) {
        if (arc[v] >= 0) {
            f->left[arc_key(f->s, arc[v])] -= sign;
        }
    }
    f->count[i] += sign;
    f->taken += sign;
}

/* No more trees can follow than capacity is left into the poorest device. */
static int64_t most_more(const struct search *f)
{
    int64_t least = INT64_MAX;

    for (int v = 0; v < f->from->n_dev; v++) {
        int64_t in = 0;
        for (int i = 0; i < f->s->l->m; i++) {
            in += f->s->l->arcs[i].to == v ? f->left[arc_key(f->s, i)] : 0;
        }
        if ((f->s->rev != NULL || v != f->s->root) && in < least) {
            least = in;
        }
    }
    return least;
}

static void search_from(struct search *f, size_t k)
{
    if (f->taken > f->most) {
        f->most = f->taken;
        memcpy(f->best, f->count, f->from->n * sizeof *f->best);
    }
    if (f->most >= f->target || ++f->nodes > MAX_NODES || f->taken + most_more(f) <= f->most) {
        return;
    }
    for (; k < f->from->n && f->most < f->target && f->nodes <= MAX_NODES; k++) {
        size_t i = f->s->order[k];
        if (fits(f, i)) {
            take(f, i, 1);
            search_from(f, k); /* the same tree may be taken again */
            take(f, i, -1);
        }
    }
}

/* Heaviest first: what the iterations liked is likely to be kept. */
static void order_candidates(struct state *s, const struct packing *p)
{
    for (size_t i = 0; i < p->n; i++) {
        size_t k = i;
        for (; k > 0 && p->trees[s->order[k - 1]].weight < p->trees[i].weight; k--) {
            s->order[k] = s->order[k - 1];
        }
        s->order[k] = i;
    }
}

static enum status reduce_with(struct state *s, struct mwu_result *r, struct search *f, int den)
{
    const struct lattice *l = s->l;

    memset(f->count, 0, r->raw.n * sizeof *f->count);
    for (int i = 0; i < l->m; i++) {
        f->left[i] = l->arcs[i].cap * den;
    }
    f->taken = f->most = 0;
    f->nodes = 0;
    /* Whole trees cannot exceed the optimum, which is at least the rate found. */
    f->target = (r->raw_rate.num * den + r->raw_rate.den - 1) / r->raw_rate.den;
    search_from(f, 0);
    packing_fini(&r->reduced);
    for (size_t i = 0; i < r->raw.n; i++) {
        if (f->best[i] > 0) {
            TRY(packing_add(&r->reduced, s->root, f->best[i], r->raw.trees[i].arc));
        }
    }
    r->reduced_rate = frac_make(f->most, den);
    r->den = den;
    return ST_OK;
}

static enum status reduce(struct state *s, double threshold, struct mwu_result *r)
{
    struct search f = {.s = s, .from = &r->raw};
    double whole = (double)r->raw_rate.num / (double)r->raw_rate.den, reached = 0;
    enum status st = ST_NOMEM;

    s->order = mem_alloc(r->raw.n, sizeof *s->order);
    f.left = mem_alloc((size_t)s->l->m, sizeof *f.left);
    f.count = mem_alloc(r->raw.n, sizeof *f.count);
    f.best = mem_alloc(r->raw.n, sizeof *f.best);
    if (s->order != NULL && f.left != NULL && f.count != NULL && f.best != NULL) {
        st = ST_OK;
        order_candidates(s, &r->raw);
    }
    for (int den = 1; st == ST_OK && den <= MAX_DEN && reached < (1 - threshold) * whole; den++) {
        st = reduce_with(s, r, &f, den);
        reached = (double)r->reduced_rate.num / (double)r->reduced_rate.den;
    }
    mem_free(f.left);
    mem_free(f.count);
    mem_free(f.best);
    return st;
}

static enum status run(const struct topo *t, const struct solve_request *q,
                       const struct mwu_options *o, struct mwu_result *r, struct state *s, int *rev)
{
    const struct lattice *l = r->l;

    if (l->n > l->n_dev || q->kind == SOLVE_ALLGATHER ||
        (q->kind == SOLVE_ALLREDUCE && !lattice_pair(l, t, rev))) {
        return log_fail(ST_UNSUPPORTED, "treepack: mwu packs broadcast, reduce and allreduce over "
                                        "direct links, not these; leave out mwu");
    }
    s->l = l;
    s->rev = q->kind == SOLVE_ALLREDUCE ? rev : NULL;
    s->root = q->kind == SOLVE_ALLREDUCE ? 0 : q->root;
    TRY(iterate(s, o->epsilon, r));
    r->raw_rate = rate_of(s, &r->raw);
    TRY(reduce(s, o->threshold, r));
    for (size_t i = 0; s->rev != NULL && i < r->reduced.n; i++) {
        solve_centre(&r->reduced, l, rev, i);
    }
    return ST_OK;
}

enum status mwu_pack(const struct topo *t, const struct solve_request *q,
                     const struct mwu_options *o, struct mwu_result *out)
{
    struct mwu_result r = {0};
    struct state s = {0};
    struct lattice *l = NULL;
    int *rev = NULL;
    enum status st = lattice_create(t, &l);

    packing_init(&r.raw, t->n_devices);
    packing_init(&r.reduced, t->n_devices);
    if (st == ST_OK) {
        st = lattice_copy(l, q->reversed, &r.l);
    }
    if (st == ST_OK) {
        rev = mem_alloc((size_t)l->m, sizeof *rev);
        s.length = mem_alloc((size_t)l->m, sizeof *s.length);
        s.load = mem_alloc((size_t)l->m, sizeof *s.load);
        s.arc = mem_alloc((size_t)l->n_dev, sizeof *s.arc);
        st = rev == NULL || s.length == NULL || s.load == NULL || s.arc == NULL
                 ? ST_NOMEM
                 : run(t, q, o, &r, &s, rev);
    }
    lattice_destroy(l);
    mem_free(rev);
    mem_free(s.length);
    mem_free(s.load);
    mem_free(s.arc);
    mem_free(s.order);
    if (st != ST_OK) {
        mwu_result_fini(&r);
        return st;
    }
    *out = r;
    return ST_OK;
}
