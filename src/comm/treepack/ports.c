#include "comm/treepack/ports.h"

#include <string.h>

#include "base/mem.h"

void ports_fini(struct ports *p)
{
    mem_free(p->in);
    mem_free(p->out);
    mem_free(p->cap_in);
    mem_free(p->cap_out);
    mem_free(p->shifts);
    memset(p, 0, sizeof *p);
}

static int find(int *group, int v)
{
    while (group[v] != v) {
        v = group[v] = group[group[v]];
    }
    return v;
}

/* Join what arcs fatter than the fattest port join; group[v] is then a representative. */
static void find_groups(const struct ports *p, const struct lattice *l, int *group)
{
    int64_t fattest = 0;

    for (int i = 0; i < p->n_out; i++) {
        int64_t c = l->arcs[p->out[i]].cap;
        fattest = c > fattest ? c : fattest;
    }
    for (int v = 0; v < l->n; v++) {
        group[v] = v;
    }
    for (int i = 0; i < l->m; i++) {
        const struct arc *a = &l->arcs[i];
        if (a->cap > fattest && a->from != p->w && a->to != p->w) {
            group[find(group, a->from)] = find(group, a->to);
        }
    }
    for (int v = 0; v < l->n; v++) {
        group[v] = find(group, v);
    }
}

/* Order arcs by their rank within the group of their other end, then by group. */
static void interleave(const struct lattice *l, int *arcs, int n, bool in, const int *group,
                       int *work)
{
    int done = 0, round = 0;

    memcpy(work, arcs, (size_t)n * sizeof *work);
    while (done < n) {
        for (int i = 0; i < n; i++) {
            int v = in ? l->arcs[work[i]].from : l->arcs[work[i]].to, rank = 0;
            for (int j = 0; j < i; j++) {
                int u = in ? l->arcs[work[j]].from : l->arcs[work[j]].to;
                rank += group[u] == group[v];
            }
            if (rank == round) {
                arcs[done++] = work[i];
            }
        }
        round++;
    }
}

static int count_groups(const struct ports *p, const struct lattice *l, const int *group)
{
    int n = 0;

    for (int i = 0; i < p->n_out; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen; j++) {
            seen = group[l->arcs[p->out[i]].to] == group[l->arcs[p->out[j]].to];
        }
        n += !seen;
    }
    return n;
}

/* Shifts that lead to another group come first. */
static void order_shifts(struct ports *p)
{
    int n = 0;

    for (int inside = 0; inside < 2; inside++) {
        for (int k = 1; k <= p->n_out; k++) {
            if ((k % p->n_groups == 0) == (inside == 1)) {
                p->shifts[n++] = k;
            }
        }
    }
}

static enum status arrange(struct ports *p, const struct lattice *l)
{
    int *group = mem_alloc((size_t)l->n, sizeof *group);
    int *work = mem_alloc((size_t)(p->n_in + p->n_out), sizeof *work);
    enum status st = ST_NOMEM;

    if (group != NULL && work != NULL) {
        find_groups(p, l, group);
        interleave(l, p->in, p->n_in, true, group, work);
        interleave(l, p->out, p->n_out, false, group, work);
        p->n_groups = count_groups(p, l, group);
        order_shifts(p);
        for (int i = 0; i < p->n_in; i++) {
            p->cap_in[i] = l->arcs[p->in[i]].cap;
        }
        for (int i = 0; i < p->n_out; i++) {
            p->cap_out[i] = l->arcs[p->out[i]].cap;
        }
        st = ST_OK;
    }
    mem_free(group);
    mem_free(work);
    return st;
}

enum status ports_init(struct ports *p, const struct lattice *l, int w)
{
    size_t n_in = 0, n_out = 0;

    memset(p, 0, sizeof *p);
    p->w = w;
    for (int i = 0; i < l->m; i++) {
        n_in += l->arcs[i].to == w && l->arcs[i].cap > 0;
        n_out += l->arcs[i].from == w && l->arcs[i].cap > 0;
    }
    p->in = mem_alloc(n_in, sizeof *p->in);
    p->out = mem_alloc(n_out, sizeof *p->out);
    p->cap_in = mem_alloc(n_in, sizeof *p->cap_in);
    p->cap_out = mem_alloc(n_out, sizeof *p->cap_out);
    p->shifts = mem_alloc(n_out, sizeof *p->shifts);
    if (p->in == NULL || p->out == NULL || p->cap_in == NULL || p->cap_out == NULL ||
        p->shifts == NULL) {
        return ST_NOMEM;
    }
    for (int i = 0; i < l->m; i++) {
        if (l->arcs[i].cap > 0 && l->arcs[i].to == w) {
            p->in[p->n_in++] = i;
        } else if (l->arcs[i].cap > 0 && l->arcs[i].from == w) {
            p->out[p->n_out++] = i;
        }
    }
    return arrange(p, l);
}

enum status ports_join(struct lattice *l, int a, int b, int64_t m)
{
    l->arcs[a].cap -= m;
    l->arcs[b].cap -= m;
    return l->arcs[a].from == l->arcs[b].to ? ST_OK : lattice_join(l, a, b, m);
}

enum status ports_join_more(struct lattice *l, int a, int b, int64_t m)
{
    for (int i = l->m - 1; i > a && i > b; i--) {
        if (l->arcs[i].first == a && l->arcs[i].second == b) {
            l->arcs[i].cap += m;
            l->arcs[a].cap -= m;
            l->arcs[b].cap -= m;
            return ST_OK;
        }
    }
    return ports_join(l, a, b, m);
}

void ports_undo(const struct ports *p, struct lattice *l, int before)
{
    (void)p;
    while (l->m > before) {
        const struct arc *x = &l->arcs[--l->m];
        l->arcs[x->first].cap += x->cap;
        l->arcs[x->second].cap += x->cap;
        mem_free(x->links);
    }
}

int64_t ports_start(const struct ports *p, int a)
{
    int64_t start = 0;

    for (int i = 0; i < p->n_in; i++) {
        start = p->in[i] == a ? p->cap_in[i] : start;
    }
    return start;
}

int64_t ports_quantum(const struct ports *p, const struct lattice *l, int a, int b)
{
    int64_t left = l->arcs[a].cap < l->arcs[b].cap ? l->arcs[a].cap : l->arcs[b].cap;
    int64_t others = p->n_out > 1 ? p->n_out - 1 : 1;
    int64_t even = (ports_start(p, a) + others - 1) / others;

    return left < even ? left : even;
}

void ports_left(const struct ports *p, const struct lattice *l, int64_t *in, int64_t *out)
{
    *in = 0;
    *out = 0;
    for (int i = 0; i < p->n_in; i++) {
        *in += l->arcs[p->in[i]].cap;
    }
    for (int i = 0; i < p->n_out; i++) {
        *out += l->arcs[p->out[i]].cap;
    }
}

bool ports_are_series(const struct ports *p, const struct lattice *l)
{
    if (p->n_in != 2 || p->n_out != 2) {
        return false;
    }
    int a = l->arcs[p->in[0]].from, b = l->arcs[p->in[1]].from;
    int c = l->arcs[p->out[0]].to, d = l->arcs[p->out[1]].to;
    return a != b && ((a == c && b == d) || (a == d && b == c));
}

enum status ports_join_series(const struct ports *p, struct lattice *l)
{
    for (int i = 0; i < 2; i++) {
        int a = p->in[i];
        int b = l->arcs[p->out[0]].to != l->arcs[a].from ? p->out[0] : p->out[1];
        int64_t m = l->arcs[a].cap < l->arcs[b].cap ? l->arcs[a].cap : l->arcs[b].cap;
        TRY(ports_join(l, a, b, m));
    }
    return ST_OK;
}

bool ports_are_equal(const struct ports *p, const struct lattice *l)
{
    if (p->n_in != p->n_out || p->n_in < 3) {
        return false;
    }
    for (int i = 0; i < p->n_in; i++) {
        if (l->arcs[p->in[i]].from != l->arcs[p->out[i]].to ||
            l->arcs[p->in[i]].cap != l->arcs[p->in[0]].cap ||
            l->arcs[p->out[i]].cap != l->arcs[p->in[0]].cap) {
            return false;
        }
    }
    return true;
}

enum status ports_join_circulant(const struct ports *p, struct lattice *l)
{
    int64_t cap = l->arcs[p->in[0]].cap, each = cap / (p->n_in - 1), more = cap % (p->n_in - 1);

    for (int k = 0; k < p->n_out; k++) {
        int shift = p->shifts[k];
        int64_t m = each;
        if (shift == p->n_out) {
            continue; /* back to itself */
        }
        if (more > 0) {
            m++;
            more--;
        }
        for (int i = 0; m > 0 && i < p->n_in; i++) {
            TRY(ports_join(l, p->in[i], p->out[(i + shift) % p->n_out], m));
        }
    }
    return ST_OK;
}

void ports_close(const struct ports *p, struct lattice *l)
{
    for (int i = 0; i < p->n_in; i++) {
        l->arcs[p->in[i]].cap = 0;
    }
    for (int i = 0; i < p->n_out; i++) {
        l->arcs[p->out[i]].cap = 0;
    }
}
