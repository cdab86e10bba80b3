#include "comm/cost.h"

#include <sched.h>

#include "base/mem.h"
#include "comm/agenda.h"
#include "comm/fabric.h"

/* Shared memory: handing out an operation, and moving a byte in or out of a core. */
static const double op_s = 0.3e-6, traffic_s_per_byte = 1 / 25e9;

enum {
    MIN_CHUNK = 4 << 10,
    MAX_CHUNKS = 1024 /* of a tree: more only cost time to plan */
};

int cost_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

struct play {
    const struct program *p;
    const struct cost_model *m;
    struct fabric *fabric;
    double *core_free_s; /* [n_cores] */
    int *waits;          /* [n_instances] operations still to wait for */
    struct agenda ends;
    double last_s;
};

static double on_core(struct play *y, double ready_s, double work_s)
{
    int best = 0;

    for (int k = 1; k < y->m->n_cores; k++) {
        best = y->core_free_s[k] < y->core_free_s[best] ? k : best;
    }
    ready_s = y->core_free_s[best] > ready_s ? y->core_free_s[best] : ready_s;
    y->core_free_s[best] = ready_s + work_s;
    return ready_s + work_s;
}

/* The operation may start at `ready_s`: note when it ends. */
static void start(struct play *y, size_t tree, size_t chunk, size_t op, double ready_s)
{
    const struct program_op *o = &y->p->ops[y->p->trees[tree].op + op];
    struct agenda_entry e = {.tree = tree, .chunk = chunk, .op = op};
    double bytes;
    size_t n;

    (void)program_chunk(y->p, tree, chunk, &n);
    bytes = (double)n * (double)dtype_bytes(y->p->spec.dtype);
    if (y->fabric != NULL) {
        e.when_s = fabric_send(y->fabric, o->path, bytes, ready_s);
        e.when_s += o->n_src > 1 ? bytes * y->m->reduce_s_per_byte : 0;
    } else {
        e.when_s = on_core(y, ready_s, op_s + (o->n_src + o->n_dst) * bytes * traffic_s_per_byte);
    }
    agenda_add(&y->ends, e);
}

/* Over links one message of an operation is under way at a time, as in the engine (job.c). */
static bool in_order(const struct play *y, size_t chunk)
{
    return y->fabric != NULL && chunk > 0;
}

static void release(struct play *y, size_t tree, size_t chunk, size_t op, double now_s)
{
    const struct program_tree *t = &y->p->trees[tree];

    if (--y->waits[t->first_instance + chunk * t->n_ops + op] == 0) {
        start(y, tree, chunk, op, now_s);
    }
}

static void play(struct play *y)
{
    const struct program *p = y->p;
    size_t most = 0;

    for (size_t t = 0; t < p->n_trees; t++) {
        most = p->trees[t].n_chunks > most ? p->trees[t].n_chunks : most;
    }
    for (size_t c = 0; c < most; c++) { /* the trees advance side by side */
        for (size_t t = 0; t < p->n_trees; t++) {
            const struct program_tree *tree = &p->trees[t];
            for (size_t i = 0; c < tree->n_chunks && i < tree->n_ops; i++) {
                const struct program_op *o = &p->ops[tree->op + i];
                int *waits = &y->waits[tree->first_instance + c * tree->n_ops + i];
                *waits = o->n_deps - o->n_posts + in_order(y, c);
                if (*waits == 0) {
                    start(y, t, c, i, 0);
                }
            }
        }
    }
    while (agenda_first(&y->ends) != NULL) {
        struct agenda_entry e = agenda_take(&y->ends);
        const struct program_tree *tree = &p->trees[e.tree];
        const struct program_op *o = &p->ops[tree->op + e.op];
        y->last_s = e.when_s;
        if (e.chunk + 1 < tree->n_chunks && in_order(y, e.chunk + 1)) {
            release(y, e.tree, e.chunk + 1, e.op, e.when_s);
        }
        for (int k = 0; k < o->n_next; k++) {
            size_t next = (size_t)p->ints[o->next + (size_t)k];
            release(y, e.tree, e.chunk, next, e.when_s);
        }
    }
}

enum status cost_predict(const struct program *p, const struct cost_model *m, double *time_s)
{
    struct play y = {.p = p, .m = m};
    enum status st = ST_OK;

    y.waits = mem_alloc(p->n_instances, sizeof *y.waits);
    y.core_free_s = mem_alloc((size_t)(m->n_cores > 0 ? m->n_cores : 1), sizeof *y.core_free_s);
    if (y.waits == NULL || y.core_free_s == NULL) {
        st = ST_NOMEM;
    }
    if (st == ST_OK && m->topo != NULL) {
        st = fabric_create(m->topo, m->scale, &y.fabric);
    }
    if (st == ST_OK) {
        st = agenda_init(&y.ends, p->n_instances);
    }
    if (st == ST_OK) {
        play(&y);
        *time_s = y.last_s;
    }
    agenda_fini(&y.ends);
    fabric_destroy(y.fabric);
    mem_free(y.core_free_s);
    mem_free(y.waits);
    return st;
}

enum status cost_best_chunk(const struct plan *plan, const struct program_spec *spec,
                            const struct cost_model *m, size_t *chunk_bytes)
{
    size_t total = spec->n * dtype_bytes(spec->dtype), best = 0;
    double best_s = 0;

    for (size_t bytes = MIN_CHUNK; plan->pipelined; bytes *= 2) {
        struct program_spec trial = *spec;
        struct program *p;
        double time_s;
        enum status st;
        if (total / bytes > MAX_CHUNKS) {
            continue;
        }
        trial.chunk_bytes = bytes;
        TRY(program_create(plan, &trial, &p));
        st = cost_predict(p, m, &time_s);
        program_destroy(p);
        if (st != ST_OK) {
            return st;
        }
        if (best == 0 || time_s < best_s) {
            best = bytes;
            best_s = time_s;
        }
        if (bytes >= total) {
            break;
        }
    }
    *chunk_bytes = best;
    return ST_OK;
}
