#include "grid.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum {
    PERIOD = 1021 /* of the contributions, elements */
};

struct topo *grid_mesh(int n)
{
    struct topo *t;

    cr_assert_eq(topo_mesh(n, 1000, 5, &t), ST_OK);
    return t;
}

/* A topology of devices gpu0, gpu1, ... without links. */
static struct topo *devices(const char *name, int n)
{
    struct topo *t;
    char gpu[16];

    cr_assert_eq(topo_create(name, "", &t), ST_OK);
    for (int i = 0; i < n; i++) {
        (void)snprintf(gpu, sizeof gpu, "gpu%d", i);
        cr_assert_eq(topo_add_vertex(t, gpu, TOPO_GPU, NULL), ST_OK);
    }
    return t;
}

static void add_link(struct topo *t, int from, int to, int64_t bytes_per_s, int64_t latency_ns)
{
    struct topo_link l = {.from = from,
                          .to = to,
                          .bytes_per_s = bytes_per_s,
                          .latency_ns = latency_ns,
                          .kind = (char *)"wire"};

    cr_assert_eq(topo_add_link(t, &l), ST_OK);
}

struct topo *grid_line(int n, int64_t bytes_per_s, int64_t latency_ns)
{
    struct topo *t = devices("line", n);

    for (int i = 0; i + 1 < n; i++) {
        add_link(t, i, i + 1, bytes_per_s, latency_ns);
        add_link(t, i + 1, i, bytes_per_s, latency_ns);
    }
    return t;
}

struct topo *grid_star(int n, int64_t bytes_per_s, int64_t in_ns, int64_t out_ns)
{
    struct topo *t = devices("star", n);
    int hub;

    cr_assert_eq(topo_add_vertex(t, "hub", TOPO_SWITCH, &hub), ST_OK);
    for (int i = 0; i < n; i++) {
        add_link(t, i, hub, bytes_per_s, in_ns);
        add_link(t, hub, i, bytes_per_s, out_ns);
    }
    return t;
}

struct plan *grid_plan(const char *backend, const struct topo *t, enum collective c, int root)
{
    struct plan_request q = {.collective = c, .n_ranks = t->n_devices, .root = root};
    struct plan *p;

    cr_assert_eq(plan_create(backend, t, &q, &p), ST_OK, "%s %s P=%d", backend, collective_name(c),
                 t->n_devices);
    return p;
}

struct program *grid_program(const struct plan *plan, const struct program_spec *spec)
{
    struct program *p;

    cr_assert_eq(program_create(plan, spec, &p), ST_OK);
    return p;
}

float grid_value(int rank, size_t i)
{
    return (float)((rank + 1) * (int)((i * 7919) % PERIOD));
}

static const float guard_value = -12345.5f;
static const float garbage = 1e30f;

static bool whole_in_one(const struct program *p)
{
    return p->spec.in_place;
}

/* The range of the message that a buffer of `rank` covers. */
static size_t range_of(const struct program *p, int rank, bool out, size_t *n)
{
    if (whole_in_one(p)) {
        *n = p->spec.n;
        return 0;
    }
    return out ? program_out_range(p, rank, n) : program_in_range(p, rank, n);
}

static float *guarded(size_t n)
{
    float *x = mem_alloc(n + 2 * GRID_GUARD, sizeof *x);

    cr_assert_not_null(x);
    return x;
}

void grid_memory_init(struct grid_memory *m, const struct program *p)
{
    size_t n_ranks = (size_t)p->n_ranks, n;

    cr_assert_eq(dtype_bytes(p->spec.dtype), sizeof(float));
    m->p = p;
    m->in = mem_alloc(n_ranks, sizeof *m->in);
    m->out = mem_alloc(n_ranks, sizeof *m->out);
    m->buffers = mem_alloc((size_t)p->n_nodes, sizeof *m->buffers);
    m->bases = mem_alloc(p->n_refs, sizeof *m->bases);
    cr_assert(m->in && m->out && m->buffers && m->bases);
    for (int v = 0; v < p->n_nodes; v++) {
        m->buffers[v].tmp = p->has_tmp[v] ? guarded(p->spec.n) : NULL;
        if (v < p->n_ranks) {
            (void)range_of(p, v, false, &n);
            m->in[v] = guarded(n);
            (void)range_of(p, v, true, &n);
            m->out[v] = whole_in_one(p) ? m->in[v] : guarded(n);
            m->buffers[v].in = m->in[v] + GRID_GUARD;
            m->buffers[v].out = m->out[v] + GRID_GUARD;
        }
    }
    program_bind(p, m->buffers, m->bases);
    grid_memory_fill(m);
}

void grid_memory_fini(struct grid_memory *m)
{
    for (int v = 0; v < m->p->n_nodes; v++) {
        mem_free(m->buffers[v].tmp);
        if (v < m->p->n_ranks) {
            mem_free(m->in[v]);
            if (m->out[v] != m->in[v]) {
                mem_free(m->out[v]);
            }
        }
    }
    mem_free(m->in);
    mem_free(m->out);
    mem_free(m->buffers);
    mem_free(m->bases);
}

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n + 2 * GRID_GUARD; i++) {
        x[i] = i < GRID_GUARD || i >= n + GRID_GUARD ? guard_value : garbage;
    }
}

void grid_memory_fill(struct grid_memory *m)
{
    size_t n, first, n_own;

    for (int v = 0; v < m->p->n_nodes; v++) {
        if (m->buffers[v].tmp != NULL) {
            float *tmp = m->buffers[v].tmp;
            for (size_t i = 0; i < m->p->spec.n; i++) {
                tmp[i] = garbage;
            }
        }
        if (v >= m->p->n_ranks) {
            continue;
        }
        (void)range_of(m->p, v, true, &n);
        fill(m->out[v], n);
        first = range_of(m->p, v, false, &n);
        fill(m->in[v], n);
        /* In place an allgather's contribution is only a part of the buffer. */
        size_t own = program_in_range(m->p, v, &n_own);
        for (size_t i = 0; i < n_own; i++) {
            m->in[v][GRID_GUARD + own - first + i] = grid_value(v, own + i);
        }
    }
}

static float reduced(const struct program *p, size_t i)
{
    enum redop op = p->spec.redop;
    float x = grid_value(0, i);

    for (int r = 1; r < p->n_ranks; r++) {
        float y = grid_value(r, i);
        x = op == REDOP_MAX ? fmaxf(x, y) : op == REDOP_MIN ? fminf(x, y) : x + y;
    }
    return op == REDOP_MEAN ? x / (float)p->n_ranks : x;
}

static void fill_right(float *x, int rank, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++) {
        x[i] = grid_value(rank, i);
    }
}

/* The right result, [spec.n]. */
static float *right(const struct program *p, int root)
{
    const size_t n = p->spec.n;
    float *x = mem_alloc(n, sizeof *x);

    cr_assert_not_null(x);
    if (p->collective == COLL_BROADCAST) {
        fill_right(x, root, 0, n);
    } else if (p->collective == COLL_ALLGATHER) {
        for (int r = 0; r < p->n_ranks; r++) {
            size_t n_own;
            size_t own = program_in_range(p, r, &n_own);
            fill_right(x, r, own, n_own);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            x[i] = i < PERIOD ? reduced(p, i) : x[i - PERIOD];
        }
    }
    return x;
}

static size_t wrong_guards(const float *x, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < GRID_GUARD; i++) {
        wrong += (x[i] != guard_value) + (x[n + GRID_GUARD + i] != guard_value);
    }
    return wrong;
}

size_t grid_memory_wrong(const struct grid_memory *m, int root)
{
    const struct program *p = m->p;
    size_t wrong = 0, n, first, n_own, own;
    float *want = right(p, root);

    for (int v = 0; v < p->n_ranks; v++) {
        bool gets =
            collective_has_down(p->collective) || p->collective == COLL_REDUCE_SCATTER || v == root;
        first = range_of(p, v, true, &n);
        wrong += wrong_guards(m->out[v], n);
        own = program_out_range(p, v, &n_own);
        for (size_t i = 0; gets && i < n_own; i++) {
            wrong += m->out[v][GRID_GUARD + own - first + i] != want[own + i];
        }
        if (m->in[v] == m->out[v]) {
            continue;
        }
        first = program_in_range(p, v, &n);
        wrong += wrong_guards(m->in[v], n);
        for (size_t i = 0; i < n; i++) {
            wrong += m->in[v][GRID_GUARD + i] != grid_value(v, first + i);
        }
    }
    mem_free(want);
    return wrong;
}
