#include "comm/treepack/boxset.h"

#include <string.h>

#include "base/mem.h"

static int find(int *set, int v)
{
    while (set[v] != v) {
        v = set[v] = set[set[v]];
    }
    return v;
}

bool boxset_find(struct boxset *b, int64_t width)
{
    const struct lattice *l = b->l;
    int *count = b->via;

    b->width = width;
    b->n_boxes = 0;
    memset(b->load, 0, (size_t)l->m * sizeof *b->load);
    for (int v = 0; v < l->n; v++) {
        b->set[v] = v;
        count[v] = 0;
    }
    for (int i = 0; i < l->m; i++) {
        if (l->arcs[i].cap >= width) {
            b->set[find(b->set, l->arcs[i].from)] = find(b->set, l->arcs[i].to);
        }
    }
    for (int v = 0; v < l->n_dev; v++) {
        count[find(b->set, v)]++;
    }
    b->size = count[find(b->set, 0)];
    if (b->size < 2 || b->size == l->n_dev) {
        return false;
    }
    for (int v = 0; v < l->n; v++) {
        if (count[v] != 0 && count[v] != b->size) {
            return false;
        }
    }
    memset(count, 0xff, (size_t)l->n * sizeof *count); /* -1: the box of a representative */
    for (int v = 0; v < l->n_dev; v++) {
        int lead = find(b->set, v);
        if (count[lead] < 0) {
            count[lead] = b->n_boxes++;
        }
        b->box[v] = count[lead];
        b->number[v] = 0;
        for (int u = 0; u < v; u++) {
            b->number[v] += b->box[u] == b->box[v];
        }
        b->member[b->box[v] * b->size + b->number[v]] = v;
    }
    for (int v = l->n_dev; v < l->n; v++) {
        b->box[v] = count[find(b->set, v)]; /* -1: between the boxes */
    }
    return true;
}

void boxset_search(struct boxset *b, int from, bool inside)
{
    const struct lattice *l = b->l;
    int begin = 0, end = 0, *queue = b->set;

    for (int v = 0; v < l->n; v++) {
        b->via[v] = -1;
    }
    queue[end++] = from;
    while (begin < end) {
        int u = queue[begin++];
        for (int i = b->head[u]; i >= 0; i = b->next[i]) {
            int v = l->arcs[i].to;
            if ((l->arcs[i].cap >= b->width) == inside && b->via[v] < 0 && v != from) {
                b->via[v] = i;
                if (v >= l->n_dev) {
                    queue[end++] = v;
                }
            }
        }
    }
}

enum status boxset_join(struct boxset *b, struct lattice *out, int from, int to, int64_t uses,
                        int *index)
{
    int path[64], n = 0;

    for (int v = to; v != from; v = b->l->arcs[b->via[v]].from) {
        if (b->via[v] < 0 || n == 64) {
            *index = -1;
            return ST_OK;
        }
        path[n++] = b->via[v];
    }
    *index = out->m;
    for (int i = n - 1; i >= 0; i--) {
        b->load[path[i]] += uses;
    }
    /* The path as one arc: the first arc, and the links of the others behind it. */
    return lattice_chain(out, b->l, path, n, uses);
}

static bool reserve(struct boxset *b)
{
    size_t n = (size_t)b->l->n, m = (size_t)b->l->m;

    b->box = mem_alloc(n, sizeof *b->box);
    b->number = mem_alloc(n, sizeof *b->number);
    b->member = mem_alloc(n, sizeof *b->member);
    b->set = mem_alloc(n + 1, sizeof *b->set);
    b->via = mem_alloc(n, sizeof *b->via);
    b->head = mem_alloc(n, sizeof *b->head);
    b->next = mem_alloc(m, sizeof *b->next);
    b->load = mem_alloc(m, sizeof *b->load);
    return b->box != NULL && b->number != NULL && b->member != NULL && b->set != NULL &&
           b->via != NULL && b->head != NULL && b->next != NULL && b->load != NULL;
}

enum status boxset_init(struct boxset *b, const struct lattice *l)
{
    memset(b, 0, sizeof *b);
    b->l = l;
    if (!reserve(b)) {
        return ST_NOMEM;
    }
    for (int v = 0; v < l->n; v++) {
        b->head[v] = -1;
    }
    for (int i = l->m - 1; i >= 0; i--) {
        b->next[i] = b->head[l->arcs[i].from];
        b->head[l->arcs[i].from] = i;
    }
    return ST_OK;
}

void boxset_fini(struct boxset *b)
{
    mem_free(b->box);
    mem_free(b->number);
    mem_free(b->member);
    mem_free(b->set);
    mem_free(b->via);
    mem_free(b->head);
    mem_free(b->next);
    mem_free(b->load);
    memset(b, 0, sizeof *b);
}

bool boxset_is_new_width(const struct lattice *l, int arc)
{
    for (int j = 0; j < arc; j++) {
        if (l->arcs[j].cap == l->arcs[arc].cap) {
            return false;
        }
    }
    return true;
}

bool boxset_carries(const struct boxset *b, struct frac rate, int64_t units)
{
    for (int i = 0; i < b->l->m; i++) {
        /* load x rate / units <= cap */
        if ((wide)b->load[i] * rate.num > (wide)b->l->arcs[i].cap * rate.den * units) {
            return false;
        }
    }
    return true;
}
