/*
 * T trees for a broadcast among B boxes with T ports each, of one unit a tree.
 *
 *   root box ─ first box ┬ box ┬ box        Tree t enters every box by its port t. The root's box
 *                        │     └ box        sends each tree once, by its port t. The others have
 *                        └ box ┬ box        T (B - 1) sendings, of which a tree needs B - 2: the
 *                              └ box        sendings are numbered, and tree t takes the t-th
 *                                           stretch of B - 2 of them.
 *
 * So a box sends on for one tree, or for two where a stretch ends, and is a leaf in all others.
 * Ports that do not reach each other (rails) are classes, and each class is such a system of its
 * own. Inside a box the trees are packed by pack.c: one from each port, and T from the root in its
 * box.
 */
#include "comm/treepack/relay.h"

#include <string.h>

#include "base/mem.h"
#include "comm/treepack/boxset.h"
#include "comm/treepack/split.h"

struct relay {
    struct boxset b;
    int root, home;           /* device; its box */
    int n_ports;              /* = trees */
    int *port;                /* [n_ports] number of the device in a box */
    int *class;               /* [n_ports] the first port of the class */
    struct packing own, hand; /* inside the root's box; inside another box from each port */
    struct lattice *own_l, *hand_l;
    int *parent;                     /* [n_ports][n_dev] */
    bool *outside;                   /* [n_ports][n_dev] does the data come from another box? */
    int *order, *slots, *first_slot; /* [n_boxes] work: boxes of a tree, sendings they have */
    bool *taken;                     /* [m] arcs used by ports so far */
};

static int device_of(const struct relay *r, int box, int number)
{
    return r->b.member[box * r->b.size + number];
}

/* Take device number i as a port if a way leads from it to its like in the next box, over no arc
 * that another port takes. */
static void take_port(struct relay *r, int i)
{
    const struct lattice *l = r->b.l;
    int from = device_of(r, r->home, i), to = device_of(r, (r->home + 1) % r->b.n_boxes, i);

    boxset_search(&r->b, from, false);
    if (r->b.via[to] < 0) {
        return;
    }
    for (int v = to; v != from; v = l->arcs[r->b.via[v]].from) {
        if (r->taken[r->b.via[v]]) {
            return;
        }
    }
    for (int v = to; v != from; v = l->arcs[r->b.via[v]].from) {
        r->taken[r->b.via[v]] = true;
    }
    r->class[r->n_ports] = r->n_ports;
    for (int k = r->n_ports - 1; k >= 0; k--) {
        if (r->b.via[device_of(r, (r->home + 1) % r->b.n_boxes, r->port[k])] >= 0) {
            r->class[r->n_ports] = r->class[k];
        }
    }
    r->port[r->n_ports++] = i;
}

/* The inside of a box as a lattice of its own, in units of which a tree takes one. */
static enum status cut_out(const struct relay *r, int box, struct frac rate, struct lattice **out)
{
    const struct lattice *l = r->b.l;
    int *number = mem_alloc((size_t)l->n, sizeof *number);
    enum status st = number == NULL ? ST_NOMEM : lattice_empty(l, out);
    struct lattice *s = *out;

    for (int v = 0, n = r->b.size; st == ST_OK && v < l->n; v++) {
        number[v] = r->b.box[v] != box ? -1 : v < l->n_dev ? r->b.number[v] : n++;
        if (number[v] >= 0) {
            s->vertex[number[v]] = l->vertex[v];
        }
        s->n = n;
    }
    for (int i = 0; st == ST_OK && i < l->m; i++) {
        int from = number[l->arcs[i].from], to = number[l->arcs[i].to];
        if (from >= 0 && to >= 0 && l->arcs[i].cap >= r->b.width) {
            wide units = (wide)l->arcs[i].cap * rate.den * r->n_ports / rate.num;
            st = lattice_chain(s, l, &i, 1, units > INT32_MAX ? INT32_MAX : (int64_t)units);
            if (st == ST_OK) {
                s->arcs[s->m - 1].from = from;
                s->arcs[s->m - 1].to = to;
            }
        }
    }
    if (st == ST_OK) {
        s->n_dev = r->b.size;
    }
    mem_free(number);
    return st;
}

/* Pack demand[] trees inside a box. */
static enum status pack_inside(const struct relay *r, int box, struct frac rate,
                               const int64_t *demand, struct lattice **l, struct packing *p,
                               bool *fits)
{
    const struct pack_how how = {.order = PACK_SHALLOW};

    TRY(cut_out(r, box, rate, l));
    TRY(split_feasible(*l, demand, fits));
    if (!*fits) {
        return ST_OK;
    }
    TRY(split_switches(*l, demand, 0));
    return pack_trees(*l, demand, &how, p);
}

static enum status pack_boxes(struct relay *r, struct frac rate, bool *fits)
{
    size_t size = (size_t)r->b.size;
    int64_t *demand = mem_alloc(size, sizeof *demand);
    enum status st = ST_NOMEM;

    if (demand != NULL) {
        demand[r->b.number[r->root]] = r->n_ports;
        st = pack_inside(r, r->home, rate, demand, &r->own_l, &r->own, fits);
    }
    if (st == ST_OK && *fits) {
        memset(demand, 0, size * sizeof *demand);
        for (int k = 0; k < r->n_ports; k++) {
            demand[r->port[k]] = 1;
        }
        st = pack_inside(r, (r->home + 1) % r->b.n_boxes, rate, demand, &r->hand_l, &r->hand, fits);
    }
    mem_free(demand);
    return st;
}

/* Data of tree k comes to device `v` from device `from`. */
static void hang(struct relay *r, int k, int v, int from, bool outside)
{
    size_t i = (size_t)k * (size_t)r->b.l->n_dev + (size_t)v;

    r->parent[i] = from;
    r->outside[i] = outside;
}

static void hang_inside(struct relay *r, int k, int box, const struct lattice *l,
                        const struct branch *tree)
{
    for (int i = 0; i < r->b.size; i++) {
        if (tree->arc[i] >= 0) {
            hang(r, k, device_of(r, box, i), device_of(r, box, l->arcs[tree->arc[i]].from), false);
        }
    }
}

static int depth_in(const struct branch *tree, const struct lattice *l, int v)
{
    int depth = 0;

    for (; tree->arc[v] >= 0; v = l->arcs[tree->arc[v]].from) {
        depth++;
    }
    return depth;
}

/* Inside the boxes: in the root's the tree that comes to the port soonest. */
static void lay_inside(struct relay *r, int k)
{
    struct branch *best = NULL;

    for (size_t i = 0; i < r->own.n; i++) {
        struct branch *tree = &r->own.trees[i];
        if (tree->weight > 0 && (best == NULL || depth_in(tree, r->own_l, r->port[k]) <
                                                     depth_in(best, r->own_l, r->port[k]))) {
            best = tree;
        }
    }
    best->weight--;
    hang_inside(r, k, r->home, r->own_l, best);
    for (size_t i = 0; i < r->hand.n; i++) {
        for (int box = 0; r->hand.trees[i].root == r->port[k] && box < r->b.n_boxes; box++) {
            if (box != r->home) {
                hang_inside(r, k, box, r->hand_l, &r->hand.trees[i]);
            }
        }
    }
}

/* Port number s of those of the class of tree k. */
static int class_port(const struct relay *r, int k, int s)
{
    for (int i = 0; i < r->n_ports; i++) {
        if (r->class[i] == r->class[k] && s-- == 0) {
            return r->port[i];
        }
    }
    return -1;
}

/* Boxes of a tree, those that send on first; returns how many do. */
static int order_boxes(struct relay *r, int which, int n_class)
{
    int others = r->b.n_boxes - 1, begin = which * (others - 1), end = begin + others - 1, n = 0;

    for (int full = 1; full >= 0; full--) {
        for (int q = begin / n_class; q * n_class < end; q++) {
            int low = q * n_class > begin ? q * n_class : begin;
            int high = (q + 1) * n_class < end ? (q + 1) * n_class : end;
            if ((high - low == n_class) == (full == 1)) {
                r->order[n] = (r->home + 1 + q) % r->b.n_boxes;
                r->slots[n] = high - low;
                r->first_slot[n++] = low - q * n_class;
            }
        }
    }
    return n;
}

/* Between the boxes: tree k, number `which` of the n_class trees of its class. */
static void lay_outside(struct relay *r, int k, int which, int n_class)
{
    int inner = order_boxes(r, which, n_class), n = inner, head = 0, used = 0;

    for (int q = 0; q < r->b.n_boxes; q++) {
        bool seen = q == r->home;
        for (int j = 0; j < inner && !seen; j++) {
            seen = r->order[j] == q;
        }
        if (!seen) {
            r->order[n++] = q;
        }
    }
    hang(r, k, device_of(r, r->order[0], r->port[k]), device_of(r, r->home, r->port[k]), true);
    for (int j = 1; j < n; j++) {
        if (used == r->slots[head]) {
            head++;
            used = 0;
        }
        int from = class_port(r, k, r->first_slot[head] + used++);
        hang(r, k, device_of(r, r->order[j], r->port[k]), device_of(r, r->order[head], from), true);
    }
}

static void lay_all(struct relay *r)
{
    for (int k = 0; k < r->n_ports; k++) {
        int which = 0, n_class = 0;
        for (int i = 0; i < r->n_ports; i++) {
            which += i < k && r->class[i] == r->class[k];
            n_class += r->class[i] == r->class[k];
        }
        lay_inside(r, k);
        lay_outside(r, k, which, n_class);
    }
}

/* The arcs that device v sends over, inside or outside its box; arc[] like parent[]. */
static enum status join_from(struct relay *r, int v, bool outside, struct lattice *out, int *arc,
                             bool *all)
{
    size_t n = (size_t)r->n_ports * (size_t)r->b.l->n_dev;
    bool searched = false;

    for (size_t i = 0; i < n && *all; i++) {
        if (r->parent[i] == v && r->outside[i] == outside) {
            if (!searched) {
                boxset_search(&r->b, v, !outside);
                searched = true;
            }
            TRY(boxset_join(&r->b, out, v, (int)(i % (size_t)r->b.l->n_dev), 1, &arc[i]));
            *all = arc[i] >= 0;
        }
    }
    return ST_OK;
}

static enum status join_trees(struct relay *r, struct frac rate, bool *found, struct lattice *out,
                              struct packing *p)
{
    int n_dev = r->b.l->n_dev;
    size_t n = (size_t)r->n_ports * (size_t)n_dev;
    int *arc = mem_alloc(n, sizeof *arc);
    bool all = true;
    enum status st = arc == NULL ? ST_NOMEM : ST_OK;

    for (int v = 0; st == ST_OK && v < n_dev && all; v++) {
        st = join_from(r, v, true, out, arc, &all);
        if (st == ST_OK && all) {
            st = join_from(r, v, false, out, arc, &all);
        }
    }
    *found = st == ST_OK && all && boxset_carries(&r->b, rate, r->n_ports);
    for (int k = 0; *found && st == ST_OK && k < r->n_ports; k++) {
        arc[(size_t)k * (size_t)n_dev + (size_t)r->root] = -1;
        st = packing_add(p, r->root, 1, arc + (size_t)k * (size_t)n_dev);
    }
    mem_free(arc);
    return st;
}

static bool reserve(struct relay *r)
{
    size_t n = (size_t)r->b.size, all = n * (size_t)r->b.l->n_dev, boxes = (size_t)r->b.n_boxes;

    r->port = mem_alloc(n, sizeof *r->port);
    r->class = mem_alloc(n, sizeof *r->class);
    r->parent = mem_alloc(all, sizeof *r->parent);
    r->outside = mem_alloc(all, sizeof *r->outside);
    r->order = mem_alloc(boxes, sizeof *r->order);
    r->slots = mem_alloc(boxes, sizeof *r->slots);
    r->first_slot = mem_alloc(boxes, sizeof *r->first_slot);
    r->taken = mem_alloc((size_t)r->b.l->m, sizeof *r->taken);
    return r->port != NULL && r->class != NULL && r->parent != NULL && r->outside != NULL &&
           r->order != NULL && r->slots != NULL && r->first_slot != NULL && r->taken != NULL;
}

static void release(struct relay *r)
{
    mem_free(r->port);
    mem_free(r->class);
    mem_free(r->parent);
    mem_free(r->outside);
    mem_free(r->order);
    mem_free(r->slots);
    mem_free(r->first_slot);
    mem_free(r->taken);
    lattice_destroy(r->own_l);
    lattice_destroy(r->hand_l);
    packing_fini(&r->own);
    packing_fini(&r->hand);
}

/* With boxes found: try to build the trees. */
static enum status try_boxes(struct relay *r, struct frac rate, bool *found, struct lattice **used,
                             struct packing *p)
{
    bool fits = false;
    enum status st = ST_OK;

    r->home = r->b.box[r->root];
    packing_init(&r->own, r->b.size);
    packing_init(&r->hand, r->b.size);
    if (!reserve(r)) {
        return ST_NOMEM;
    }
    for (int i = 0; i < r->b.size; i++) {
        take_port(r, i);
    }
    if (r->n_ports > 0) {
        st = pack_boxes(r, rate, &fits);
    }
    if (st != ST_OK || !fits) {
        return st;
    }
    for (size_t i = 0; i < (size_t)r->n_ports * (size_t)r->b.l->n_dev; i++) {
        r->parent[i] = -1;
    }
    lay_all(r);
    TRY(lattice_empty(r->b.l, used));
    packing_init(p, r->b.l->n_dev);
    st = join_trees(r, rate, found, *used, p);
    if (st != ST_OK || !*found) {
        lattice_destroy(*used);
        *used = NULL;
        packing_fini(p);
        *found = false;
    }
    return st;
}

enum status relay_pack(const struct lattice *l, int root, const struct bound *bound, bool *found,
                       struct lattice **used, struct packing *p)
{
    struct boxset b;
    enum status st = boxset_init(&b, l);

    *found = false;
    for (int i = 0; st == ST_OK && !*found && i < l->m; i++) {
        if (boxset_is_new_width(l, i) && boxset_find(&b, l->arcs[i].cap)) {
            struct relay r = {.b = b, .root = root};
            st = try_boxes(&r, bound->rate, found, used, p);
            release(&r);
        }
    }
    boxset_fini(&b);
    return st;
}
