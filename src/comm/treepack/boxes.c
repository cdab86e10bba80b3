#include "comm/treepack/boxes.h"

#include <string.h>

#include "base/mem.h"

struct boxes {
    const struct lattice *l;
    int64_t width; /* arcs of at least this join a box */
    int n_boxes, size;
    int *box, *number; /* [n_dev] of each device */
    int *member;       /* [n_dev] device number i of box b at b * size + i */
    int *set, *via;    /* [n] work */
    int *head, *next;  /* arcs by their start */
    int64_t *load;     /* [m] */
    int *arc_of;       /* [n_dev][n_boxes + size]: logical arcs to peers, then inside */
};

static int find(int *set, int v)
{
    while (set[v] != v) {
        v = set[v] = set[set[v]];
    }
    return v;
}

/* Number the boxes that arcs of at least `width` form; false unless there are several, equal ones
 * of two devices or more. */
static bool find_boxes(struct boxes *b, int64_t width)
{
    const struct lattice *l = b->l;
    int *count = b->via;

    b->width = width;
    b->n_boxes = 0;
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
    return true;
}

/* The arcs by which switches reach from device `from`, inside or outside its box: via[v], or -1. */
static void search(struct boxes *b, int from, bool inside)
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

/* Make a logical arc from `from` to `to` along via[]; `uses` trees take it. */
static enum status join(struct boxes *b, struct lattice *out, int from, int to, int64_t uses,
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

static enum status join_all(struct boxes *b, struct lattice *out, bool *all)
{
    int width = b->n_boxes + b->size;

    for (int v = 0; v < b->l->n_dev && *all; v++) {
        int *arcs = b->arc_of + (size_t)v * (size_t)width;
        search(b, v, false);
        for (int k = 0; k < b->n_boxes && *all; k++) {
            if (k != b->box[v]) {
                TRY(join(b, out, v, b->member[k * b->size + b->number[v]], 1, &arcs[k]));
                *all = arcs[k] >= 0;
            }
        }
        search(b, v, true);
        for (int i = 0; i < b->size && *all; i++) {
            if (i != b->number[v]) {
                TRY(join(b, out, v, b->member[b->box[v] * b->size + i], b->n_boxes,
                         &arcs[b->n_boxes + i]));
                *all = arcs[b->n_boxes + i] >= 0;
            }
        }
    }
    return ST_OK;
}

/* Do the loads allow every root the rate bound / n_dev? One tree per root is one unit of load. */
static bool reaches(const struct boxes *b, const struct bound *bound)
{
    for (int i = 0; i < b->l->m; i++) {
        /* load x rate / n_dev <= cap */
        if ((wide)b->load[i] * bound->rate.num >
            (wide)b->l->arcs[i].cap * bound->rate.den * b->l->n_dev) {
            return false;
        }
    }
    return true;
}

static enum status add_trees(const struct boxes *b, struct packing *p)
{
    int n = b->l->n_dev, width = b->n_boxes + b->size;
    int *arc = mem_alloc((size_t)n, sizeof *arc);
    enum status st = arc == NULL ? ST_NOMEM : ST_OK;

    for (int root = 0; root < n && st == ST_OK; root++) {
        for (int k = 0; k < b->n_boxes; k++) {
            int entry = b->member[k * b->size + b->number[root]];
            arc[entry] = entry == root ? -1 : b->arc_of[(size_t)root * (size_t)width + (size_t)k];
            for (int i = 0; i < b->size; i++) {
                int v = b->member[k * b->size + i];
                if (v != entry) {
                    arc[v] = b->arc_of[(size_t)entry * (size_t)width + (size_t)(b->n_boxes + i)];
                }
            }
        }
        st = packing_add(p, root, 1, arc);
    }
    mem_free(arc);
    return st;
}

static enum status try_width(struct boxes *b, int64_t width, const struct bound *bound, bool *found,
                             struct lattice **used, struct packing *p)
{
    struct lattice *out = NULL;
    bool all = true;
    enum status st;

    if (!find_boxes(b, width)) {
        return ST_OK;
    }
    mem_free(b->arc_of);
    b->arc_of = mem_alloc((size_t)b->l->n_dev * (size_t)(b->n_boxes + b->size), sizeof(int));
    memset(b->load, 0, (size_t)b->l->m * sizeof *b->load);
    st = b->arc_of == NULL ? ST_NOMEM : lattice_empty(b->l, &out);
    if (st == ST_OK) {
        st = join_all(b, out, &all);
    }
    if (st == ST_OK && all && reaches(b, bound)) {
        packing_init(p, b->l->n_dev);
        st = add_trees(b, p);
        if (st == ST_OK) {
            *used = out;
            *found = true;
            return ST_OK;
        }
        packing_fini(p);
    }
    lattice_destroy(out);
    return st;
}

static bool reserve(struct boxes *b)
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

enum status boxes_pack(const struct lattice *l, const struct bound *bound, bool *found,
                       struct lattice **used, struct packing *p)
{
    struct boxes b = {.l = l};
    enum status st = reserve(&b) ? ST_OK : ST_NOMEM;

    *found = false;
    for (int v = 0; st == ST_OK && v < l->n; v++) {
        b.head[v] = -1;
    }
    for (int i = l->m - 1; st == ST_OK && i >= 0; i--) {
        b.next[i] = b.head[l->arcs[i].from];
        b.head[l->arcs[i].from] = i;
    }
    for (int i = 0; st == ST_OK && !*found && i < l->m; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen; j++) {
            seen = l->arcs[j].cap == l->arcs[i].cap;
        }
        if (!seen) {
            st = try_width(&b, l->arcs[i].cap, bound, found, used, p);
        }
    }
    mem_free(b.box);
    mem_free(b.number);
    mem_free(b.member);
    mem_free(b.set);
    mem_free(b.via);
    mem_free(b.head);
    mem_free(b.next);
    mem_free(b.load);
    mem_free(b.arc_of);
    return st;
}
