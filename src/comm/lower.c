#include "comm/lower.h"

#include <string.h>

#include "base/mem.h"
#include "comm/bits.h"

void lower_fini(struct lower *l)
{
    mem_free(l->drafts);
    mem_free(l->order);
    mem_free(l->first);
    mem_free(l->child);
    mem_free(l->height);
    mem_free(l->count);
    mem_free(l->before);
    mem_free(l->direct);
}

enum status lower_init(struct lower *l, const struct plan *plan, struct program *p)
{
    size_t n = (size_t)plan->n_nodes, n_ops = 2 * n + 1;

    *l = (struct lower){.plan = plan, .p = p};
    l->row = bits_words(n + n_ops);
    l->drafts = mem_alloc(n_ops, sizeof *l->drafts);
    l->order = mem_alloc(n, sizeof *l->order);
    l->first = mem_alloc(n + 1, sizeof *l->first);
    l->child = mem_alloc(n, sizeof *l->child);
    l->height = mem_alloc(n, sizeof *l->height);
    l->count = mem_alloc(n + 1, sizeof *l->count);
    l->before = mem_alloc(n_ops * l->row, sizeof *l->before);
    l->direct = mem_alloc(n_ops * l->row, sizeof *l->direct);
    return l->drafts == NULL || l->order == NULL || l->first == NULL || l->child == NULL ||
                   l->height == NULL || l->count == NULL || l->before == NULL || l->direct == NULL
               ? ST_NOMEM
               : ST_OK;
}

/* Make room for `more` entries behind the first `n`. */
static enum status reserve(void *array, size_t *cap, size_t n, size_t more, size_t elem_bytes)
{
    void **slot = array;
    size_t want = *cap == 0 ? 64 : *cap;
    void *grown;

    if (n + more <= *cap) {
        return ST_OK;
    }
    while (want < n + more) {
        want *= 2;
    }
    grown = mem_grow(*slot, n, want, elem_bytes);
    if (grown == NULL) {
        return ST_NOMEM;
    }
    *slot = grown;
    *cap = want;
    return ST_OK;
}

/* May `d` join the operation that begins with draft `head`? It must work at the same node: add to
 * the same sum, or hand on what the operation read or wrote there. */
static bool joins(const struct lower *l, const struct draft *head, const struct draft *d)
{
    if (!l->p->spec.fuse || d->hub != head->hub) {
        return false;
    }
    if (d->n_src == 2) {
        return lower_same(d->dst, head->dst);
    }
    return lower_same(d->src[0], head->dst) ||
           (head->n_src == 1 && lower_same(d->src[0], head->src[0]));
}

static enum status emit_op(struct lower *l, const struct draft *head, size_t n)
{
    struct program *p = l->p;
    struct program_op op = {.src = p->n_refs, .path = n == 1 ? head->path : NULL};

    TRY(reserve(&p->ops, &l->cap_ops, p->n_ops, 1, sizeof *p->ops));
    TRY(reserve(&p->refs, &l->cap_refs, p->n_refs, 2 * n + 2, sizeof *p->refs));
    for (size_t k = 0; k < n; k++) {
        const struct draft *d = &head[k];
        bool adds = lower_same(d->dst, head->dst);
        for (int i = k == 0 ? 0 : 1; adds && i < d->n_src; i++) {
            p->refs[p->n_refs++] = d->src[i];
            op.n_src++;
        }
        op.finish = op.finish || d->finish;
    }
    op.dst = p->n_refs;
    for (size_t k = 0; k < n; k++) {
        if (k == 0 || !lower_same(head[k].dst, head->dst)) {
            p->refs[p->n_refs++] = head[k].dst;
            op.n_dst++;
        }
    }
    p->ops[p->n_ops++] = op;
    return ST_OK;
}

static bool contains(const struct program_ref *refs, int n, struct program_ref r)
{
    for (int i = 0; i < n; i++) {
        if (lower_same(refs[i], r)) {
            return true;
        }
    }
    return false;
}

/* Does the order of the two matter: does one write what the other reads or writes? */
static bool conflict(const struct program *p, const struct program_op *a,
                     const struct program_op *b)
{
    const struct program_ref *as = p->refs + a->src, *ad = p->refs + a->dst;
    const struct program_ref *bs = p->refs + b->src, *bd = p->refs + b->dst;

    for (int i = 0; i < a->n_dst; i++) {
        if (contains(bs, b->n_src, ad[i]) || contains(bd, b->n_dst, ad[i])) {
            return true;
        }
    }
    for (int i = 0; i < a->n_src; i++) {
        if (contains(bd, b->n_dst, as[i])) {
            return true;
        }
    }
    return false;
}

/* The fewest earlier operations and posts that order operation `i` of the tree behind everything it
 * conflicts with: the latest first, skipping what those follow already. */
static void find_deps(struct lower *l, const struct program_op *ops, size_t i)
{
    size_t n_nodes = (size_t)l->plan->n_nodes;
    uint64_t *before = l->before + i * l->row, *direct = l->direct + i * l->row;
    const struct program_op *op = &ops[i];

    memset(before, 0, l->row * sizeof *before);
    memset(direct, 0, l->row * sizeof *direct);
    for (size_t j = i; j-- > 0;) {
        if (!bits_get(before, n_nodes + j) && conflict(l->p, op, &ops[j])) {
            bits_set(direct, n_nodes + j);
            bits_set(before, n_nodes + j);
            bits_or(before, l->before + j * l->row, l->row);
        }
    }
    for (size_t k = op->src; k < op->dst + (size_t)op->n_dst; k++) {
        size_t node = (size_t)l->p->refs[k].node;
        if (!bits_get(before, node)) {
            bits_set(direct, node);
            bits_set(before, node);
        }
    }
}

/* Turn the rows of bits into the lists of operation `i`. */
static enum status emit_lists(struct lower *l, struct program_op *ops, size_t n_ops, size_t i)
{
    struct program *p = l->p;
    size_t n_nodes = (size_t)l->plan->n_nodes;
    struct program_op *op = &ops[i];
    const uint64_t *direct = l->direct + i * l->row;

    TRY(reserve(&p->ints, &l->cap_ints, p->n_ints, 2 * n_nodes + n_ops, sizeof *p->ints));
    op->posts = p->n_ints;
    for (size_t v = 0; v < n_nodes; v++) {
        if (bits_get(direct, v)) {
            p->ints[p->n_ints++] = (int)v;
            op->n_posts++;
        }
    }
    op->ranks = p->n_ints;
    for (int v = 0; v < p->n_ranks; v++) {
        for (size_t k = op->src; k < op->dst + (size_t)op->n_dst; k++) {
            if (p->refs[k].node == v) {
                p->ints[p->n_ints++] = v;
                op->n_ranks++;
                break;
            }
        }
    }
    op->next = p->n_ints;
    op->n_deps = op->n_posts;
    for (size_t j = 0; j < n_ops; j++) {
        op->n_deps += bits_get(direct, n_nodes + j);
        if (bits_get(l->direct + j * l->row, n_nodes + i)) {
            p->ints[p->n_ints++] = (int)j;
            op->n_next++;
        }
    }
    return ST_OK;
}

/* The last operation of the way up: its result leaves the program. */
static void sink_last(struct program *p)
{
    struct program_op *op = &p->ops[p->n_ops - 1];

    p->n_refs -= (size_t)op->n_dst;
    op->n_dst = 0;
    op->sinks = true;
}

/* Rounds that have to follow the operation, if what comes next can only go one by one. */
static int rounds_after(const struct program *p, const struct program_op *ops,
                        const struct program_op *op)
{
    const int *next = p->ints + op->next;
    int most = 0;

    for (int i = 0; i < op->n_next; i++) {
        int rounds = ops[next[i]].n_after;
        for (int k = 0; k < op->n_next; k++) {
            rounds += ops[next[k]].n_after >= ops[next[i]].n_after;
        }
        most = rounds > most ? rounds : most;
    }
    return most;
}

/* What follows an operation comes later in the list. */
static void find_rounds(const struct program *p, struct program_op *ops, size_t n_ops)
{
    for (size_t i = 0; i < n_ops; i++) { /* as early as possible */
        for (int k = 0; k < ops[i].n_next; k++) {
            int *next = &ops[p->ints[ops[i].next + (size_t)k]].round;
            *next = ops[i].round + 1 > *next ? ops[i].round + 1 : *next;
        }
    }
    for (size_t i = n_ops; i-- > 0;) {
        ops[i].n_after = rounds_after(p, ops, &ops[i]);
        ops[i].round = ops[i].n_src > 1 ? ops[i].round : -ops[i].n_after;
    }
}

enum status lower_tree(struct lower *l, const struct tree *t, struct program_tree *out)
{
    struct program *p = l->p;

    lower_hops(l, t);
    out->op = p->n_ops;
    for (size_t k = 0, n; k < l->n_drafts; k += n) {
        for (n = 1; k + n < l->n_drafts && joins(l, &l->drafts[k], &l->drafts[k + n]); n++) {
        }
        TRY(emit_op(l, &l->drafts[k], n));
    }
    if (p->sink.take != NULL) {
        sink_last(p);
    }
    out->n_ops = p->n_ops - out->op;
    for (size_t i = 0; i < out->n_ops; i++) {
        find_deps(l, p->ops + out->op, i);
    }
    for (size_t i = 0; i < out->n_ops; i++) {
        TRY(emit_lists(l, p->ops + out->op, out->n_ops, i));
    }
    find_rounds(p, p->ops + out->op, out->n_ops);
    return ST_OK;
}
