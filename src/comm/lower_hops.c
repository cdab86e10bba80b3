#include <string.h>

#include "comm/lower.h"

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
        } else if (v == t->root && (!lower_same(own, sum) || l->p->sink.take != NULL)) {
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

    if (!lower_same(from, result)) {
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

void lower_hops(struct lower *l, const struct tree *t)
{
    l->n_drafts = 0;
    if (t->up != NULL) {
        draft_up(l, t);
    }
    if (t->down != NULL && l->p->sink.take == NULL) {
        draft_down(l, t);
    }
}
