#include "comm/treepack/lattice.h"

#include <string.h>

#include "base/mem.h"

enum {
    MAX_CHAIN = 64
};

int64_t gcd64(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

struct frac frac_make(int64_t num, int64_t den)
{
    int64_t g = gcd64(num, den);
    struct frac f;

    if (g == 0) {
        g = 1;
    }
    f.num = den < 0 ? -num / g : num / g;
    f.den = den < 0 ? -den / g : den / g;
    return f;
}

int frac_compare(struct frac a, struct frac b)
{
    wide left = (wide)a.num * b.den, right = (wide)b.num * a.den;

    return (left > right) - (left < right);
}

void lattice_destroy(struct lattice *l)
{
    if (l == NULL) {
        return;
    }
    for (int i = 0; i < l->m; i++) {
        mem_free(l->arcs[i].links);
    }
    mem_free(l->arcs);
    mem_free(l->vertex);
    mem_free(l);
}

static enum status add_arc(struct lattice *l, struct arc arc, const int *links, const int *more,
                           int n_more)
{
    if (l->m == l->room) {
        int room = l->room == 0 ? 64 : 2 * l->room;
        struct arc *grown = mem_grow(l->arcs, (size_t)l->m, (size_t)room, sizeof *grown);
        if (grown == NULL) {
            return ST_NOMEM;
        }
        l->arcs = grown;
        l->room = room;
    }
    int n_links = arc.n_links;
    arc.n_links += n_more;
    arc.links = mem_alloc((size_t)arc.n_links, sizeof *arc.links);
    if (arc.links == NULL) {
        return ST_NOMEM;
    }
    memcpy(arc.links, links, (size_t)n_links * sizeof *links);
    if (n_more > 0) {
        memcpy(arc.links + n_links, more, (size_t)n_more * sizeof *more);
    }
    l->arcs[l->m++] = arc;
    return ST_OK;
}

enum status lattice_join(struct lattice *l, int a, int b, int64_t cap)
{
    struct arc arc = l->arcs[a];

    arc.cap = cap;
    arc.first = a;
    arc.second = b;
    if (b < 0) {
        return add_arc(l, arc, arc.links, NULL, 0);
    }
    arc.to = l->arcs[b].to;
    return add_arc(l, arc, arc.links, l->arcs[b].links, l->arcs[b].n_links);
}

/*
 * Which vertices of the topology can lie on a way between two devices? A switch that hangs on a
 * single neighbour cannot, nor one that nothing enters or leaves.
 */
static void find_useful(const struct topo *t, bool *useful, int *in, int *out)
{
    bool changed = true;

    for (int v = 0; v < t->n_vertices; v++) {
        useful[v] = true;
    }
    while (changed) {
        changed = false;
        for (int v = 0; v < t->n_vertices; v++) {
            in[v] = out[v] = -1; /* a neighbour, -2: several */
        }
        for (int i = 0; i < t->n_links; i++) {
            int a = t->links[i].from, b = t->links[i].to;
            if (useful[a] && useful[b]) {
                in[b] = in[b] == -1 || in[b] == a ? a : -2;
                out[a] = out[a] == -1 || out[a] == b ? b : -2;
            }
        }
        for (int v = 0; v < t->n_vertices; v++) {
            if (useful[v] && !topo_is_device(t, v) &&
                (in[v] == -1 || out[v] == -1 || (in[v] >= 0 && in[v] == out[v]))) {
                useful[v] = false;
                changed = true;
            }
        }
    }
}

static int number_vertices(const struct topo *t, const bool *useful, struct lattice *l, int *number)
{
    int n = 0;

    for (int r = 0; r < t->n_devices; r++) {
        l->vertex[n] = t->devices[r];
        number[t->devices[r]] = n++;
    }
    for (int v = 0; v < t->n_vertices; v++) {
        if (!topo_is_device(t, v)) {
            number[v] = -1;
            if (useful[v]) {
                l->vertex[n] = v;
                number[v] = n++;
            }
        }
    }
    return n;
}

static enum status fill(const struct topo *t, struct lattice *l, bool *useful, int *number)
{
    int64_t g = 0;

    find_useful(t, useful, number, number + t->n_vertices);
    l->n_dev = t->n_devices;
    l->n = number_vertices(t, useful, l, number);
    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *k = &t->links[i];
        struct arc a = {.from = number[k->from],
                        .to = number[k->to],
                        .cap = k->bytes_per_s,
                        .n_links = 1,
                        .first = -1,
                        .second = -1};
        if (a.from >= 0 && a.to >= 0) {
            g = gcd64(a.cap, g);
            TRY(add_arc(l, a, &i, NULL, 0));
        }
    }
    for (int i = 0; i < l->m; i++) {
        l->arcs[i].cap /= g;
    }
    l->unit = frac_make(g == 0 ? 1 : g, 1);
    return ST_OK;
}

enum status lattice_create(const struct topo *t, struct lattice **out)
{
    struct lattice *l = mem_alloc(1, sizeof *l);
    bool *useful = mem_alloc((size_t)t->n_vertices, sizeof *useful);
    int *number = mem_alloc(2 * (size_t)t->n_vertices, sizeof *number); /* and work space */
    enum status st = ST_NOMEM;

    if (l != NULL && useful != NULL && number != NULL) {
        l->vertex = mem_alloc((size_t)t->n_vertices, sizeof *l->vertex);
        if (l->vertex != NULL) {
            st = fill(t, l, useful, number);
        }
    }
    mem_free(useful);
    mem_free(number);
    if (st != ST_OK) {
        lattice_destroy(l);
        return st;
    }
    *out = l;
    return ST_OK;
}

enum status lattice_empty(const struct lattice *l, struct lattice **out)
{
    struct lattice *c = mem_alloc(1, sizeof *c);

    if (c == NULL) {
        return ST_NOMEM;
    }
    c->vertex = mem_alloc((size_t)l->n, sizeof *c->vertex);
    if (c->vertex == NULL) {
        lattice_destroy(c);
        return ST_NOMEM;
    }
    memcpy(c->vertex, l->vertex, (size_t)l->n * sizeof *l->vertex);
    c->n = l->n;
    c->n_dev = l->n_dev;
    c->unit = l->unit;
    *out = c;
    return ST_OK;
}

enum status lattice_chain(struct lattice *out, const struct lattice *l, const int *path, int n,
                          int64_t cap)
{
    struct arc a = {.from = l->arcs[path[n - 1]].from,
                    .to = l->arcs[path[0]].to,
                    .cap = cap,
                    .first = -1,
                    .second = -1};
    int links[MAX_CHAIN];

    for (int i = n - 1; i >= 0; i--) {
        for (int j = 0; j < l->arcs[path[i]].n_links && a.n_links < MAX_CHAIN; j++) {
            links[a.n_links++] = l->arcs[path[i]].links[j];
        }
    }
    return add_arc(out, a, links, NULL, 0);
}

static enum status copy_arcs(const struct lattice *l, bool reversed, struct lattice *c)
{
    for (int i = 0; i < l->m; i++) {
        struct arc a = l->arcs[i];
        if (reversed) {
            a.from = l->arcs[i].to;
            a.to = l->arcs[i].from;
        }
        TRY(add_arc(c, a, l->arcs[i].links, NULL, 0));
        for (int j = 0; reversed && j < a.n_links; j++) {
            c->arcs[i].links[j] = l->arcs[i].links[a.n_links - 1 - j];
        }
    }
    return ST_OK;
}

enum status lattice_copy(const struct lattice *l, bool reversed, struct lattice **out)
{
    struct lattice *c;
    enum status st;

    TRY(lattice_empty(l, &c));
    st = copy_arcs(l, reversed, c);
    if (st != ST_OK) {
        lattice_destroy(c);
        return st;
    }
    *out = c;
    return ST_OK;
}

bool lattice_scale(struct lattice *l, int64_t by)
{
    int64_t sum = 0, product, den;

    for (int i = 0; i < l->m; i++) {
        if (__builtin_mul_overflow(l->arcs[i].cap, by, &product) ||
            __builtin_add_overflow(sum, product, &sum)) {
            return false;
        }
    }
    if (__builtin_mul_overflow(l->unit.den, by, &den)) {
        return false;
    }
    for (int i = 0; i < l->m; i++) {
        l->arcs[i].cap *= by;
    }
    l->unit = frac_make(l->unit.num, den);
    return true;
}

int64_t lattice_in(const struct lattice *l, int v)
{
    int64_t sum = 0;

    for (int i = 0; i < l->m; i++) {
        sum += l->arcs[i].to == v ? l->arcs[i].cap : 0;
    }
    return sum;
}

int64_t lattice_out(const struct lattice *l, int v)
{
    int64_t sum = 0;

    for (int i = 0; i < l->m; i++) {
        sum += l->arcs[i].from == v ? l->arcs[i].cap : 0;
    }
    return sum;
}

/* Is the path of `b` that of `a` walked backwards, over the same kinds of links? */
static bool mirrors(const struct topo *t, const struct arc *a, const struct arc *b)
{
    if (a->from != b->to || a->to != b->from || a->cap != b->cap || a->n_links != b->n_links) {
        return false;
    }
    for (int i = 0; i < a->n_links; i++) {
        const struct topo_link *p = &t->links[a->links[i]];
        const struct topo_link *q = &t->links[b->links[b->n_links - 1 - i]];
        if (p->from != q->to || p->to != q->from || strcmp(p->kind, q->kind) != 0) {
            return false;
        }
    }
    return true;
}

bool lattice_pair(const struct lattice *l, const struct topo *t, int *rev)
{
    for (int i = 0; i < l->m; i++) {
        rev[i] = -1;
    }
    for (int i = 0; i < l->m; i++) {
        for (int j = i + 1; rev[i] < 0 && j < l->m; j++) {
            if (rev[j] < 0 && mirrors(t, &l->arcs[i], &l->arcs[j])) {
                rev[i] = j;
                rev[j] = i;
            }
        }
        if (rev[i] < 0) {
            return false;
        }
    }
    return true;
}

double lattice_rate(const struct lattice *l, struct frac units)
{
    return (double)units.num / (double)units.den * (double)l->unit.num / (double)l->unit.den;
}
