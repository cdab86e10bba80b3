#include "comm/program.h"

#include <string.h>

#include "base/mem.h"
#include "comm/bits.h"
#include "comm/share.h"

enum {
    MIN_CHUNK = 128 << 10,   /* below, the cost of starting an operation shows */
    STREAM_BYTES = 32 << 20, /* of all ranks' results: more than the last cache holds */
    MAX_CHUNK = 256 << 10    /* two of them stay in a core's own cache */
};

/* One hop of one tree, before hops are joined: dst = src[0] (op src[1]). */
struct draft {
    struct program_ref src[2], dst;
    int n_src, hub; /* hub: the node at the parent's end */
    const struct path *path;
    bool finish;
};

/* Work space for lowering one tree. */
struct lower {
    const struct plan *plan;
    struct program *p;
    struct draft *drafts; /* [2 n_nodes + 1] */
    size_t n_drafts;
    int *order;                /* [n_nodes] breadth first from the root */
    int *first, *child;        /* children of v: child[first[v]] ... child[first[v + 1] - 1] */
    int *height;               /* [n_nodes] of the subtree below a node */
    int *count;                /* [n_nodes + 1] */
    uint64_t *before, *direct; /* a row of bits for each operation: nodes' posts, then operations */
    size_t row;
    size_t cap_ops, cap_refs, cap_ints;
};

static void lower_fini(struct lower *l)
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

static enum status lower_init(struct lower *l, const struct plan *plan, struct program *p)
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

/* Order the children of every node by the height of what hangs on them; equal ones stay in order.
 */
static void sort_children(struct lower *l, int sign)
{
    for (int v = 0; v < l->plan->n_nodes; v++) {
        for (int i = l->first[v] + 1; i < l->first[v + 1]; i++) {
            int c = l->child[i], k = i;
            for (; k > l->first[v] && sign * l->height[c] < sign * l->height[l->child[k - 1]];
                 k--) {
                l->child[k] = l->child[k - 1];
            }
            l->child[k] = c;
        }
    }
}

/*
 * Children lists, and all nodes breadth first. What takes longest goes first on the way down and
 * last on the way up (`sign` -1 and 1), so that it never waits for what has time.
 */
static int walk(struct lower *l, const int *parent, int root, int sign)
{
    int n = l->plan->n_nodes, n_order = 0;

    memset(l->count, 0, ((size_t)n + 1) * sizeof *l->count);
    for (int v = 0; v < n; v++) {
        if (parent[v] >= 0) {
            l->count[parent[v] + 1]++;
        }
    }
    for (int v = 0; v < n; v++) {
        l->count[v + 1] += l->count[v];
    }
    memcpy(l->first, l->count, ((size_t)n + 1) * sizeof *l->first);
    for (int v = 0; v < n; v++) {
        if (parent[v] >= 0) {
            l->child[l->count[parent[v]]++] = v;
        }
    }
    l->order[n_order++] = root;
    for (int k = 0; k < n_order; k++) {
        for (int i = l->first[l->order[k]]; i < l->first[l->order[k] + 1]; i++) {
            l->order[n_order++] = l->child[i];
        }
    }
    memset(l->height, 0, (size_t)n * sizeof *l->height);
    for (int k = n_order - 1; k > 0; k--) {
        int v = l->order[k], up = parent[v];
        l->height[up] = l->height[v] + 1 > l->height[up] ? l->height[v] + 1 : l->height[up];
    }
    sort_children(l, sign);
    return n_order;
}

static struct program_ref ref(const struct lower *l, int node, enum program_buf buf)
{
    if (node >= l->plan->n_ranks) {
        buf = BUF_TMP;
    } else if (buf == BUF_OUT && l->p->spec.in_place) {
        buf = BUF_IN;
    }
    return (struct program_ref){node, buf};
}

/* Where the partial sum of `v` grows. */
static struct program_ref sum_ref(const struct lower *l, const struct tree *t, int v)
{
    bool result = l->plan->collective == COLL_ALLREDUCE || v == t->root;

    return ref(l, v, result ? BUF_OUT : BUF_TMP);
}

static bool same(struct program_ref a, struct program_ref b)
{
    return a.node == b.node && a.buf == b.buf;
}

static struct draft *push_copy(struct lower *l, int hub, struct program_ref src,
                               struct program_ref dst, const struct path *path)
{
    struct draft *d = &l->drafts[l->n_drafts++];

    memset(d, 0, sizeof *d);
    d->hub = hub;
    d->src[0] = src;
    d->n_src = 1;
    d->dst = dst;
    d->path = path;
    return d;
}

static void draft_up(struct lower *l, const struct tree *t)
{
    int n = walk(l, t->up, t->root, 1);

    for (int k = n - 1; k >= 0; k--) {
        int v = l->order[k];
        bool holds = v < l->plan->n_ranks; /* something of its own to add to */
        struct program_ref sum = sum_ref(l, t, v), own = ref(l, v, BUF_IN);
        for (int i = l->first[v]; i < l->first[v + 1]; i++) {
            int c = l->child[i];
            bool leaf = l->first[c] == l->first[c + 1];
            struct program_ref theirs = leaf ? ref(l, c, BUF_IN) : sum_ref(l, t, c);
            struct draft *d = push_copy(l, v, holds ? own : theirs, sum, &t->up_path[c]);
            if (holds) {
                d->n_src = 2;
                d->src[1] = theirs;
            }
            holds = true;
            own = sum;
        }
        if (v == t->root && n > 1) {
            l->drafts[l->n_drafts - 1].finish = l->p->spec.redop == REDOP_MEAN && l->p->n_ranks > 1;
        } else if (v == t->root && !same(own, sum)) {
            push_copy(l, v, own, sum, NULL); /* alone */
        }
    }
}

static void draft_down(struct lower *l, const struct tree *t)
{
    bool summed = l->plan->collective == COLL_ALLREDUCE;
    struct program_ref from = ref(l, t->root, summed ? BUF_OUT : BUF_IN);
    struct program_ref result = ref(l, t->root, BUF_OUT);
    int n = walk(l, t->down, t->root, -1);

    if (!same(from, result)) {
        push_copy(l, t->root, from, result, NULL);
    }
    for (int k = 0; k < n; k++) {
        int v = l->order[k];
        for (int i = l->first[v]; i < l->first[v + 1]; i++) {
            int c = l->child[i];
            push_copy(l, v, v == t->root ? from : ref(l, v, BUF_OUT), ref(l, c, BUF_OUT),
                      &t->down_path[c]);
        }
    }
}

/* May `d` join the operation that begins with draft `head`? It must work at the same node: add to
 * the same sum, or hand on what the operation read or wrote there. */
static bool joins(const struct lower *l, const struct draft *head, const struct draft *d)
{
    if (!l->p->spec.fuse || d->hub != head->hub) {
        return false;
    }
    if (d->n_src == 2) {
        return same(d->dst, head->dst);
    }
    return same(d->src[0], head->dst) || (head->n_src == 1 && same(d->src[0], head->src[0]));
}

static enum status emit_op(struct lower *l, const struct draft *head, size_t n)
{
    struct program *p = l->p;
    struct program_op op = {.src = p->n_refs, .path = n == 1 ? head->path : NULL};

    TRY(reserve(&p->ops, &l->cap_ops, p->n_ops, 1, sizeof *p->ops));
    TRY(reserve(&p->refs, &l->cap_refs, p->n_refs, 2 * n + 2, sizeof *p->refs));
    for (size_t k = 0; k < n; k++) {
        const struct draft *d = &head[k];
        bool adds = same(d->dst, head->dst);
        for (int i = k == 0 ? 0 : 1; adds && i < d->n_src; i++) {
            p->refs[p->n_refs++] = d->src[i];
            op.n_src++;
        }
        op.finish = op.finish || d->finish;
    }
    op.dst = p->n_refs;
    for (size_t k = 0; k < n; k++) {
        if (k == 0 || !same(head[k].dst, head->dst)) {
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
        if (same(refs[i], r)) {
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

static enum status lower_tree(struct lower *l, const struct tree *t, struct program_tree *out)
{
    struct program *p = l->p;

    l->n_drafts = 0;
    if (t->up != NULL) {
        draft_up(l, t);
    }
    if (t->down != NULL) {
        draft_down(l, t);
    }
    out->op = p->n_ops;
    for (size_t k = 0, n; k < l->n_drafts; k += n) {
        for (n = 1; k + n < l->n_drafts && joins(l, &l->drafts[k], &l->drafts[k + n]); n++) {
        }
        TRY(emit_op(l, &l->drafts[k], n));
    }
    out->n_ops = p->n_ops - out->op;
    for (size_t i = 0; i < out->n_ops; i++) {
        find_deps(l, p->ops + out->op, i);
    }
    for (size_t i = 0; i < out->n_ops; i++) {
        TRY(emit_lists(l, p->ops + out->op, out->n_ops, i));
    }
    return ST_OK;
}

/* Elements in a chunk: as asked, as planned, or enough chunks to share out among threads. */
static size_t chunk_of(const struct program *p, const struct plan *plan, size_t n)
{
    size_t elem = dtype_bytes(p->spec.dtype), bytes = n * elem / 4;

    if (n == 0 || !plan->pipelined) {
        return n;
    }
    bytes = bytes < MIN_CHUNK ? MIN_CHUNK : bytes > MAX_CHUNK ? MAX_CHUNK : bytes;
    bytes = plan->chunk_bytes != 0 ? plan->chunk_bytes : bytes;
    bytes = p->spec.chunk_bytes != 0 ? p->spec.chunk_bytes : bytes;
    return bytes < elem ? 1 : bytes / elem;
}

static void count_touches(struct program *p, const struct program_tree *t)
{
    for (size_t i = 0; i < t->n_ops; i++) {
        const struct program_op *op = &p->ops[t->op + i];
        for (int k = 0; k < op->n_ranks; k++) {
            p->touches[p->ints[op->ranks + (size_t)k]] += t->n_chunks;
        }
        for (size_t k = op->src; k < op->dst + (size_t)op->n_dst; k++) {
            p->has_tmp[p->refs[k].node] |= p->refs[k].buf == BUF_TMP && t->n_chunks > 0;
        }
    }
}

static enum status fill(struct lower *l, const struct plan *plan, struct program *p)
{
    struct share sum = {0, 1};

    for (size_t i = 0; i < plan->n_trees; i++) {
        struct program_tree *t = &p->trees[i];
        t->offset = share_floor(p->spec.n, sum);
        (void)share_add(sum, plan->trees[i].share, &sum); /* the plan was checked */
        t->n = share_floor(p->spec.n, sum) - t->offset;
        t->chunk = chunk_of(p, plan, t->n);
        t->n_chunks = t->n == 0 ? 0 : (t->n - 1) / t->chunk + 1;
        TRY(lower_tree(l, &plan->trees[i], t));
        t->first_instance = p->n_instances;
        p->n_instances += t->n_chunks * t->n_ops;
        count_touches(p, t);
    }
    return ST_OK;
}

enum status program_create(const struct plan *plan, const struct program_spec *spec,
                           struct program **out)
{
    struct program *p = mem_alloc(1, sizeof *p);
    struct lower l = {0};
    enum status st = ST_NOMEM;

    if (p == NULL) {
        return ST_NOMEM;
    }
    p->spec = *spec;
    p->collective = plan->collective;
    p->n_ranks = plan->n_ranks;
    p->n_nodes = plan->n_nodes;
    p->n_trees = plan->n_trees;
    p->fold = fold_select(spec->dtype, spec->redop);
    p->stream = spec->n > STREAM_BYTES / dtype_bytes(spec->dtype) / (size_t)plan->n_ranks;
    p->trees = mem_alloc(plan->n_trees, sizeof *p->trees);
    p->touches = mem_alloc((size_t)plan->n_ranks, sizeof *p->touches);
    p->has_tmp = mem_alloc((size_t)plan->n_nodes, sizeof *p->has_tmp);
    if (p->trees != NULL && p->touches != NULL && p->has_tmp != NULL) {
        st = lower_init(&l, plan, p);
        st = st == ST_OK ? fill(&l, plan, p) : st;
        lower_fini(&l);
    }
    if (st != ST_OK) {
        program_destroy(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

void program_destroy(struct program *p)
{
    if (p == NULL) {
        return;
    }
    mem_free(p->trees);
    mem_free(p->ops);
    mem_free(p->refs);
    mem_free(p->ints);
    mem_free(p->touches);
    mem_free(p->has_tmp);
    mem_free(p);
}

size_t program_chunk(const struct program *p, size_t tree, size_t chunk, size_t *n)
{
    const struct program_tree *t = &p->trees[tree];
    size_t skip = chunk * t->chunk;

    *n = t->n - skip < t->chunk ? t->n - skip : t->chunk;
    return t->offset + skip;
}
