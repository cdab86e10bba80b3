#include "comm/treepack/bound.h"

#include "base/log.h"
#include "base/mem.h"
#include "comm/treepack/maxflow.h"

void bound_fini(struct bound *b)
{
    for (int i = 0; i < b->n_cuts; i++) {
        mem_free(b->cuts[i].inside);
    }
    mem_free(b->cuts);
    mem_free(b->switch_weight);
    mem_free(b->part);
    *b = (struct bound){0};
}

static enum status begin(const struct lattice *l, struct bound *b)
{
    *b = (struct bound){.kind = BOUND_CUT, .n_parts = 2, .rate = {0, 1}};
    b->part = mem_alloc((size_t)l->n, sizeof *b->part);
    return b->part == NULL ? ST_NOMEM : ST_OK;
}

static void read_cut(const struct flow *f, const struct lattice *l, struct bound *b)
{
    for (int v = 0; v < l->n; v++) {
        b->part[v] = flow_source_side(f, v) ? 0 : 1;
    }
}

static enum status unreachable(const struct lattice *l, int device)
{
    (void)l;
    return log_fail(ST_INPUT,
                    "treepack: rank %d is not reached over these links; allow more kinds of links "
                    "or other devices",
                    device);
}

static enum status smallest_flow(const struct lattice *l, int root, struct flow *f, struct bound *b)
{
    int64_t best = FLOW_INF;

    TRY(flow_reserve(f, l->n, l->m));
    flow_reset(f, l->n);
    for (int i = 0; i < l->m; i++) {
        (void)flow_arc(f, l->arcs[i].from, l->arcs[i].to, l->arcs[i].cap, 0);
    }
    flow_save(f);
    for (int v = 0; v < l->n_dev; v++) {
        int64_t sent;
        if (v == root) {
            continue;
        }
        flow_restore(f);
        sent = flow_push(f, root, v, best);
        if (sent == 0) {
            return unreachable(l, v);
        }
        if (sent < best) {
            best = sent;
            read_cut(f, l, b);
        }
    }
    b->rate = frac_make(best, 1);
    return ST_OK;
}

enum status bound_broadcast(const struct lattice *l, int root, struct bound *b)
{
    struct flow f;
    enum status st;

    flow_init(&f);
    st = begin(l, b);
    if (st == ST_OK) {
        st = smallest_flow(l, root, &f, b);
    }
    flow_fini(&f);
    if (st != ST_OK) {
        bound_fini(b);
    }
    return st;
}

/* The device with the least capacity into it: its complement is the first cut. */
static enum status first_cut(const struct lattice *l, struct bound *b, int64_t *p, int64_t *q)
{
    int weakest = 0;
    int64_t least = FLOW_INF;

    for (int v = 0; v < l->n_dev; v++) {
        int64_t in = lattice_in(l, v);
        if (in < least) {
            least = in;
            weakest = v;
        }
    }
    if (least == 0) {
        return unreachable(l, weakest);
    }
    for (int v = 0; v < l->n; v++) {
        b->part[v] = v == weakest ? 1 : 0;
    }
    *p = l->n_dev - 1;
    *q = least;
    return ST_OK;
}

/* |S ∩ devices| / out(S) of the cut in `b`, in lowest terms. */
static void rate_cut(const struct lattice *l, const struct bound *b, int64_t *p, int64_t *q)
{
    int64_t devices = 0, out = 0, g;

    for (int v = 0; v < l->n_dev; v++) {
        devices += b->part[v] == 0;
    }
    for (int i = 0; i < l->m; i++) {
        if (b->part[l->arcs[i].from] == 0 && b->part[l->arcs[i].to] == 1) {
            out += l->arcs[i].cap;
        }
    }
    g = gcd64(devices, out);
    *p = devices / g;
    *q = out / g;
}

static bool products_fit(const struct lattice *l, int64_t p, int64_t q)
{
    wide sum = (wide)q * l->n_dev;

    for (int i = 0; i < l->m; i++) {
        sum += (wide)p * l->arcs[i].cap;
    }
    return sum < FLOW_INF;
}

/* Is the rate q/p per root feasible? If not, the cut that forbids it is in `b`. */
static enum status try_rate(const struct lattice *l, struct flow *f, int64_t p, int64_t q,
                            struct bound *b, bool *feasible)
{
    int64_t need = q * l->n_dev;

    flow_reset(f, l->n + 1);
    for (int i = 0; i < l->m; i++) {
        (void)flow_arc(f, l->arcs[i].from, l->arcs[i].to, p * l->arcs[i].cap, 0);
    }
    for (int v = 0; v < l->n_dev; v++) {
        (void)flow_arc(f, l->n, v, q, 0);
    }
    flow_save(f);
    *feasible = true;
    for (int v = 0; v < l->n_dev && *feasible; v++) {
        flow_restore(f);
        if (flow_push(f, l->n, v, need) < need) {
            *feasible = false;
            read_cut(f, l, b);
        }
        /* Cuts that part v from the source are wide enough; from here on only others count. */
        flow_open(f, l->m + v);
    }
    return ST_OK;
}

static enum status newton(const struct lattice *l, struct flow *f, struct bound *b)
{
    int64_t p = 1, q = 1, g;
    bool feasible = false;

    TRY(first_cut(l, b, &p, &q));
    g = gcd64(p, q);
    p /= g;
    q /= g;
    TRY(flow_reserve(f, l->n + 1, l->m + l->n_dev));
    while (!feasible) {
        if (!products_fit(l, p, q)) {
            return log_fail(ST_INPUT, "treepack: the capacities are too finely graded for exact "
                                      "planning; round them, e.g. to MB/s");
        }
        TRY(try_rate(l, f, p, q, b, &feasible));
        if (!feasible) {
            rate_cut(l, b, &p, &q);
            if (q == 0) {
                for (int v = 0; v < l->n_dev; v++) {
                    if (b->part[v] == 1) {
                        return unreachable(l, v);
                    }
                }
            }
        }
    }
    b->rate = frac_make(q * l->n_dev, p);
    return ST_OK;
}

enum status bound_allgather(const struct lattice *l, struct bound *b)
{
    struct flow f;
    enum status st;

    flow_init(&f);
    st = begin(l, b);
    if (st == ST_OK) {
        st = newton(l, &f, b);
    }
    flow_fini(&f);
    if (st != ST_OK) {
        bound_fini(b);
    }
    return st;
}
