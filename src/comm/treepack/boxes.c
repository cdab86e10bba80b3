#include "comm/treepack/boxes.h"

#include "base/mem.h"
#include "comm/treepack/boxset.h"

/* The arcs of every device to its like in the other boxes, then to those of its box: arc_of[n_dev]
 * [n_boxes + size]. `*all`: there are ways for all. */
static enum status join_all(struct boxset *b, int *arc_of, struct lattice *out, bool *all)
{
    int width = b->n_boxes + b->size;

    for (int v = 0; v < b->l->n_dev && *all; v++) {
        int *arcs = arc_of + (size_t)v * (size_t)width;
        boxset_search(b, v, false);
        for (int k = 0; k < b->n_boxes && *all; k++) {
            if (k != b->box[v]) {
                TRY(boxset_join(b, out, v, b->member[k * b->size + b->number[v]], 1, &arcs[k]));
                *all = arcs[k] >= 0;
            }
        }
        boxset_search(b, v, true);
        for (int i = 0; i < b->size && *all; i++) {
            if (i != b->number[v]) {
                TRY(boxset_join(b, out, v, b->member[b->box[v] * b->size + i], b->n_boxes,
                                &arcs[b->n_boxes + i]));
                *all = arcs[b->n_boxes + i] >= 0;
            }
        }
    }
    return ST_OK;
}

static enum status add_trees(const struct boxset *b, const int *arc_of, struct packing *p)
{
    int n = b->l->n_dev, width = b->n_boxes + b->size;
    int *arc = mem_alloc((size_t)n, sizeof *arc);
    enum status st = arc == NULL ? ST_NOMEM : ST_OK;

    for (int root = 0; root < n && st == ST_OK; root++) {
        for (int k = 0; k < b->n_boxes; k++) {
            int entry = b->member[k * b->size + b->number[root]];
            arc[entry] = entry == root ? -1 : arc_of[(size_t)root * (size_t)width + (size_t)k];
            for (int i = 0; i < b->size; i++) {
                int v = b->member[k * b->size + i];
                if (v != entry) {
                    arc[v] = arc_of[(size_t)entry * (size_t)width + (size_t)(b->n_boxes + i)];
                }
            }
        }
        st = packing_add(p, root, 1, arc);
    }
    mem_free(arc);
    return st;
}

static enum status try_width(struct boxset *b, int64_t width, const struct bound *bound,
                             bool *found, struct lattice **used, struct packing *p)
{
    struct lattice *out = NULL;
    int *arc_of;
    bool all = true;
    enum status st;

    if (!boxset_find(b, width)) {
        return ST_OK;
    }
    arc_of = mem_alloc((size_t)b->l->n_dev * (size_t)(b->n_boxes + b->size), sizeof *arc_of);
    st = arc_of == NULL ? ST_NOMEM : lattice_empty(b->l, &out);
    if (st == ST_OK) {
        st = join_all(b, arc_of, out, &all);
    }
    /* One tree per root is one unit of load. */
    if (st == ST_OK && all && boxset_carries(b, bound->rate, b->l->n_dev)) {
        packing_init(p, b->l->n_dev);
        st = add_trees(b, arc_of, p);
        *found = st == ST_OK;
        if (st != ST_OK) {
            packing_fini(p);
        }
    }
    mem_free(arc_of);
    if (*found) {
        *used = out;
    } else {
        lattice_destroy(out);
    }
    return st;
}

enum status boxes_pack(const struct lattice *l, const struct bound *bound, bool *found,
                       struct lattice **used, struct packing *p)
{
    struct boxset b;
    enum status st = boxset_init(&b, l);

    *found = false;
    for (int i = 0; st == ST_OK && !*found && i < l->m; i++) {
        if (boxset_is_new_width(l, i)) {
            st = try_width(&b, l->arcs[i].cap, bound, found, used, p);
        }
    }
    boxset_fini(&b);
    return st;
}
