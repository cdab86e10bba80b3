/*
 * Batched packing of out-trees. A batch is a set of equal trees under construction: a root, a
 * multiplicity m, the set R of vertices reached. Invariant: for every set X of devices, the
 * remaining capacity into X is at least the sum of m over the unfinished batches whose R misses X.
 *
 *   A batch takes an arc (x, y), x in R, y not in R, as often as the invariant allows:
 *
 *       mu = min(m, cap(x,y), flow(x → y) - sum of m over the other unfinished batches)
 *
 *   where the flow runs over the remaining capacities and, for every other unfinished batch i, a
 *   vertex that x reaches with m_i and that reaches R_i for free. Sets that contain y, miss x and
 *   miss R_i need m_i themselves; the flow minus the sum is the least slack of all sets. If mu < m,
 *   the batch is cut in two and the rest continues without the arc.
 */
#include "comm/treepack/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/treepack/improve.h"
#include "comm/treepack/maxflow.h"

struct batch {
    int root, size;
    int64_t m;
    bool finished;
    int *arc, *depth; /* [n_dev] the arc into it; its depth or -1 */
};

struct packer {
    const struct lattice *l;
    enum pack_order order;
    int n, n_arcs;
    int *ids;       /* [n_arcs] the arcs between devices, in the order of trial */
    int64_t *left;  /* [n_arcs] remaining capacity */
    bool *dead;     /* [n_arcs] cannot be used by the batch at hand any more */
    int64_t *tried; /* [n_arcs] mu, as far as known: an upper bound */
    struct batch *batches;
    size_t n_batches, room;
    struct flow flow;
    int gate;        /* first of the n arcs x → hub */
    int64_t waiting; /* sum of m over the other unfinished batches */
};

static enum status add_batch(struct packer *p, const struct batch *like, int64_t m)
{
    struct batch b = *like;

    if (p->n_batches == p->room) {
        size_t room = p->room == 0 ? 64 : 2 * p->room;
        struct batch *grown = mem_grow(p->batches, p->n_batches, room, sizeof *grown);
        if (grown == NULL) {
            return ST_NOMEM;
        }
        p->batches = grown;
        p->room = room;
    }
    b.m = m;
    b.arc = mem_alloc(2 * (size_t)p->n, sizeof *b.arc);
    if (b.arc == NULL) {
        return ST_NOMEM;
    }
    b.depth = b.arc + p->n;
    if (like->arc != NULL) {
        memcpy(b.arc, like->arc, 2 * (size_t)p->n * sizeof *b.arc);
    } else {
        for (int v = 0; v < p->n; v++) {
            b.arc[v] = -1;
            b.depth[v] = v == b.root ? 0 : -1;
        }
    }
    p->batches[p->n_batches++] = b;
    return ST_OK;
}

/* The network for the batch at hand: what is left, the hub, the other unfinished batches. */
static enum status build_network(struct packer *p, size_t now)
{
    struct flow *f = &p->flow;
    int extra = 0, arcs = 0, hub = p->n, next = p->n + 1;

    for (size_t i = 0; i < p->n_batches; i++) {
        if (!p->batches[i].finished && i != now) {
            extra += p->batches[i].size > 1;
            arcs += 1 + p->batches[i].size;
        }
    }
    TRY(flow_reserve(f, p->n + 1 + extra, 2 * (p->n_arcs + p->n + arcs)));
    flow_reset(f, p->n + 1 + extra);
    p->gate = 0;
    for (int v = 0; v < p->n; v++) {
        (void)flow_arc(f, v, hub, 0, 0);
    }
    for (int k = 0; k < p->n_arcs; k++) {
        if (p->left[k] > 0) {
            const struct arc *a = &p->l->arcs[p->ids[k]];
            (void)flow_arc(f, a->from, a->to, p->left[k], 0);
        }
    }
    p->waiting = 0;
    for (size_t i = 0; i < p->n_batches; i++) {
        const struct batch *b = &p->batches[i];
        if (b->finished || i == now) {
            continue;
        }
        p->waiting += b->m;
        if (b->size == 1) {
            (void)flow_arc(f, hub, b->root, b->m, 0);
            continue;
        }
        (void)flow_arc(f, hub, next, b->m, 0);
        for (int v = 0; v < p->n; v++) {
            if (b->depth[v] >= 0) {
                (void)flow_arc(f, next, v, FLOW_INF, 0);
            }
        }
        next++;
    }
    flow_save(f);
    return ST_OK;
}

/* How often may the batch take arc number k? */
static int64_t measure(struct packer *p, const struct batch *b, int k)
{
    const struct arc *a = &p->l->arcs[p->ids[k]];
    int64_t want = b->m < p->left[k] ? b->m : p->left[k];
    int64_t got;

    flow_restore(&p->flow);
    p->flow.cap[2 * (p->gate + a->from)] = FLOW_INF;
    got = flow_push(&p->flow, a->from, a->to, p->waiting + want) - p->waiting;
    return got;
}

/* Can the batch still take arc k, at this depth (or any, if negative)? */
static bool candidate(const struct packer *p, const struct batch *b, int k, int depth)
{
    const struct arc *a = &p->l->arcs[p->ids[k]];

    return !p->dead[k] && p->left[k] > 0 && b->depth[a->from] >= 0 && b->depth[a->to] < 0 &&
           (depth < 0 || b->depth[a->from] == depth);
}

/* The arc with the largest mu among the candidates of one depth, or -1. Lazy: an arc is measured
 * only while its upper bound beats the best one found. */
static int best_arc(struct packer *p, const struct batch *b, int depth, int64_t *mu)
{
    int best = -1;

    *mu = 0;
    for (;;) {
        int top = -1;
        int64_t bound = *mu;
        for (int k = 0; k < p->n_arcs; k++) {
            if (p->tried[k] >= 0 || !candidate(p, b, k, depth)) {
                continue;
            }
            int64_t up = b->m < p->left[k] ? b->m : p->left[k];
            if (up > bound) {
                bound = up;
                top = k;
                if (up == b->m) {
                    break;
                }
            }
        }
        if (top < 0) {
            return best;
        }
        p->tried[top] = measure(p, b, top);
        if (p->tried[top] <= 0) {
            p->dead[top] = true; /* slack only shrinks */
        } else if (p->tried[top] > *mu) {
            *mu = p->tried[top];
            best = top;
        }
    }
}

static int choose_arc(struct packer *p, const struct batch *b, int64_t *mu)
{
    int deepest = 0, k = -1;

    for (int i = 0; i < p->n_arcs; i++) {
        p->tried[i] = -1;
    }
    if (p->order == PACK_FEW) {
        return best_arc(p, b, -1, mu);
    }
    for (int v = 0; v < p->n; v++) {
        deepest = b->depth[v] > deepest ? b->depth[v] : deepest;
    }
    for (int d = 0; d <= deepest; d++) {
        int64_t here;
        int best = best_arc(p, b, d, &here);
        if (best >= 0 && k < 0) {
            k = best;
            *mu = here;
        }
        if (k >= 0 && (p->order == PACK_SHALLOW || here == b->m)) {
            k = best;
            *mu = here;
            break;
        }
    }
    return k;
}

static enum status grow_batch(struct packer *p, size_t now)
{
    memset(p->dead, 0, (size_t)p->n_arcs * sizeof *p->dead);
    while (p->batches[now].size < p->n) {
        int64_t mu;
        int k;
        TRY(build_network(p, now));
        k = choose_arc(p, &p->batches[now], &mu);
        if (k < 0) {
            return log_fail(ST_INTERNAL, "treepack: the trees of root %d do not fit",
                            p->batches[now].root);
        }
        if (mu < p->batches[now].m) {
            struct batch rest = p->batches[now];
            TRY(add_batch(p, &rest, rest.m - mu));
            p->batches[now].m = mu;
        }
        struct batch *b = &p->batches[now];
        const struct arc *a = &p->l->arcs[p->ids[k]];
        b->arc[a->to] = p->ids[k];
        b->depth[a->to] = b->depth[a->from] + 1;
        b->size++;
        p->left[k] -= mu;
    }
    p->batches[now].finished = true;
    return ST_OK;
}

/* Arcs between devices, the fattest first; ties in the order of the lattice or by `seed`. */
static void order_arcs(struct packer *p, uint64_t seed)
{
    struct rng r = rng_make(seed, RNG_TEST, 0);

    for (int i = 0; i < p->l->m; i++) {
        if (p->l->arcs[i].from < p->n && p->l->arcs[i].to < p->n && p->l->arcs[i].cap > 0) {
            p->ids[p->n_arcs++] = i;
        }
    }
    for (int i = p->n_arcs - 1; seed != 0 && i > 0; i--) {
        int j = (int)rng_below(&r, (uint64_t)i, (uint64_t)i + 1), t = p->ids[i];
        p->ids[i] = p->ids[j];
        p->ids[j] = t;
    }
    for (int i = 0; i < p->n_arcs; i++) {
        p->left[i] = p->l->arcs[p->ids[i]].cap;
    }
}

static enum status pack_all(struct packer *p, const int64_t *demand, const struct pack_how *how,
                            struct packing *out)
{
    size_t m = (size_t)p->l->m;

    p->ids = mem_alloc(m, sizeof *p->ids);
    p->left = mem_alloc(m, sizeof *p->left);
    p->dead = mem_alloc(m, sizeof *p->dead);
    p->tried = mem_alloc(m, sizeof *p->tried);
    if (p->ids == NULL || p->left == NULL || p->dead == NULL || p->tried == NULL) {
        return ST_NOMEM;
    }
    order_arcs(p, how->seed);
    for (int r = 0; r < p->n; r++) {
        struct batch b = {.root = r, .size = 1};
        int64_t left = demand[r];
        for (int parts = how->parts > 1 ? how->parts : 1; left > 0; parts--) {
            int64_t part = (left + parts - 1) / parts;
            TRY(add_batch(p, &b, part));
            left -= part;
        }
    }
    for (size_t i = 0; i < p->n_batches; i++) {
        TRY(grow_batch(p, i));
        TRY(packing_add(out, p->batches[i].root, p->batches[i].m, p->batches[i].arc));
    }
    return ST_OK;
}

enum status pack_trees(const struct lattice *l, const int64_t *demand, const struct pack_how *how,
                       struct packing *out)
{
    struct packer p = {.l = l, .order = how->order, .n = l->n_dev};
    enum status st;

    flow_init(&p.flow);
    packing_init(out, l->n_dev);
    st = pack_all(&p, demand, how, out);
    if (st == ST_OK && how->order != PACK_FEW) {
        st = improve_depth(l, out, how->cut ? out->n : 0);
    }
    for (size_t i = 0; i < p.n_batches; i++) {
        mem_free(p.batches[i].arc);
    }
    mem_free(p.batches);
    mem_free(p.ids);
    mem_free(p.left);
    mem_free(p.dead);
    mem_free(p.tried);
    flow_fini(&p.flow);
    if (st != ST_OK) {
        packing_fini(out);
    }
    return st;
}
