#include "comm/cost.h"

#include <math.h>
#include <sched.h>

#include "base/mem.h"
#include "comm/agenda.h"
#include "comm/fabric.h"

/*
 * Shared memory, as measured on servers with AVX-512: handing out an operation; moving a byte in or
 * out of a core, while the last cache holds all ranks' messages and beyond; the news that all ranks
 * are there; and waking one where cores are short.
 */
static const double op_s = 0.3e-6, cached_s_per_byte = 1 / 130e9, memory_s_per_byte = 1 / 50e9;
static const double meet_s = 1e-6, wake_s = 20e-6;

const double cost_launch_s = 3e-6;

/* Times that differ by this part are as good as equal: then larger chunks are better, as each costs
 * something that is not modelled. */
static const double alike = 0.005;

enum {
    CACHE_BYTES = 32 << 20,
    MIN_CHUNK = 4 << 10,
    MAX_OPS = 1 << 17, /* more only cost time to plan */
    PATIENCE = 2,      /* halvings in a row that save nothing */
};

int cost_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* One operation on one chunk. */
struct item {
    size_t tree, chunk, op;
};

struct play {
    const struct program *p;
    const struct cost_model *m;
    int *waits; /* [n_instances] operations still to wait for */
    int64_t last_ps;
    struct fabric *fabric; /* over links */
    struct agenda ends;    /* in memory, of instances */
    int64_t *core_free_ps; /* [n_cores] */
    double traffic_s_per_byte;
};

static size_t instance_of(const struct play *y, struct item i)
{
    return program_instance(y->p, i.tree, i.chunk, i.op);
}

static const struct program_op *op_of(const struct play *y, struct item i)
{
    return &y->p->ops[y->p->trees[i.tree].op + i.op];
}

/* --- In memory: the core that is free first takes what is ready --- */

static double bytes_of_all(const struct program *p)
{
    return (double)p->n_ranks * (double)p->spec.n * (double)dtype_bytes(p->spec.dtype);
}

/* For the ranks to come together. */
static double meeting_s(const struct program *p, const struct cost_model *m)
{
    return p->n_ranks == 1           ? 0
           : p->n_ranks > m->n_cores ? p->n_ranks * wake_s / (m->n_cores > 0 ? m->n_cores : 1)
                                     : meet_s;
}

static void start_on_core(struct play *y, struct item i, int64_t ready_ps)
{
    const struct program_op *o = op_of(y, i);
    int64_t *core = y->core_free_ps;
    double bytes;
    size_t n;

    (void)program_chunk(y->p, i.tree, i.chunk, &n);
    bytes = (double)n * (double)dtype_bytes(y->p->spec.dtype);
    for (int k = 1; k < y->m->n_cores; k++) {
        core = y->core_free_ps[k] < *core ? &y->core_free_ps[k] : core;
    }
    *core = ready_ps > *core ? ready_ps : *core;
    *core = fabric_later(*core, op_s + (o->n_src + o->n_dst) * bytes * y->traffic_s_per_byte);
    agenda_add(&y->ends, (struct agenda_entry){*core, 0, instance_of(y, i), 0});
}

static struct item item_of(const struct play *y, size_t instance)
{
    size_t tree = program_tree_of(y->p, instance);
    const struct program_tree *t = &y->p->trees[tree];

    instance -= t->first_instance;
    return (struct item){tree, instance / t->n_ops, instance % t->n_ops};
}

/* --- Both --- */

static void start(struct play *y, struct item i, int64_t now_ps)
{
    if (y->fabric == NULL) {
        start_on_core(y, i, now_ps);
    } else {
        struct fabric_message m = {.program = y->p, .tree = i.tree, .chunk = i.chunk, .op = i.op};
        fabric_post(y->fabric, &m, now_ps);
    }
}

static void release(struct play *y, struct item i, int64_t now_ps)
{
    if (--y->waits[instance_of(y, i)] == 0) {
        start(y, i, now_ps);
    }
}

/* The next that happens; false at the end. */
static bool next(struct play *y, struct item *i, bool *arrived)
{
    if (y->fabric != NULL) {
        struct fabric_event e;
        if (!fabric_next(y->fabric, INT64_MAX, &e)) {
            return false;
        }
        *i = (struct item){e.message.tree, e.message.chunk, e.message.op};
        *arrived = e.arrived;
        y->last_ps = e.when_ps;
        return true;
    }
    if (agenda_first(&y->ends) == NULL) {
        return false;
    }
    y->last_ps = agenda_first(&y->ends)->when;
    *i = item_of(y, agenda_take(&y->ends).what);
    *arrived = true;
    return true;
}

/* Over links the chunks of an operation leave one after the other, as in the engine (job.c). */
static bool in_order(const struct play *y, size_t chunk)
{
    return y->fabric != NULL && chunk > 0;
}

static void start_all(struct play *y)
{
    const struct program *p = y->p;
    size_t most = 0;

    for (size_t t = 0; t < p->n_trees; t++) {
        most = p->trees[t].n_chunks > most ? p->trees[t].n_chunks : most;
    }
    for (size_t c = 0; c < most; c++) { /* the trees advance side by side */
        for (size_t t = 0; t < p->n_trees; t++) {
            for (size_t k = 0; c < p->trees[t].n_chunks && k < p->trees[t].n_ops; k++) {
                struct item i = {t, c, k};
                int *waits = &y->waits[instance_of(y, i)];
                *waits = op_of(y, i)->n_deps - op_of(y, i)->n_posts + in_order(y, c);
                if (*waits == 0) {
                    start(y, i, 0);
                }
            }
        }
    }
}

static void play(struct play *y)
{
    struct item i;
    bool arrived;

    start_all(y);
    while (next(y, &i, &arrived)) {
        const struct program_op *o = op_of(y, i);
        if (!arrived && i.chunk + 1 < y->p->trees[i.tree].n_chunks) {
            release(y, (struct item){i.tree, i.chunk + 1, i.op}, y->last_ps);
        }
        for (int k = 0; arrived && k < o->n_next; k++) {
            size_t next = (size_t)y->p->ints[o->next + (size_t)k];
            release(y, (struct item){i.tree, i.chunk, next}, y->last_ps);
        }
    }
}

static enum status play_init(struct play *y)
{
    const struct fabric_model links = {.topo = y->m->topo,
                                       .scale = y->m->scale,
                                       .startup_s = y->m->startup_s,
                                       .reduce_s_per_byte = y->m->reduce_s_per_byte};

    y->waits = mem_alloc(y->p->n_instances, sizeof *y->waits);
    if (y->waits == NULL) {
        return ST_NOMEM;
    }
    if (y->m->topo != NULL) {
        return fabric_create(&links, y->p->n_instances, &y->fabric);
    }
    y->traffic_s_per_byte =
        bytes_of_all(y->p) <= CACHE_BYTES ? cached_s_per_byte : memory_s_per_byte;
    y->core_free_ps =
        mem_alloc((size_t)(y->m->n_cores > 0 ? y->m->n_cores : 1), sizeof *y->core_free_ps);
    return y->core_free_ps == NULL ? ST_NOMEM : agenda_init(&y->ends, y->p->n_instances);
}

enum status cost_predict(const struct program *p, const struct cost_model *m, double *time_s)
{
    struct play y = {.p = p, .m = m};
    enum status st = play_init(&y);

    if (st == ST_OK) {
        play(&y);
        *time_s = (double)y.last_ps * 1e-12 + (m->topo == NULL ? meeting_s(p, m) : 0);
    }
    agenda_fini(&y.ends);
    fabric_destroy(y.fabric);
    mem_free(y.core_free_ps);
    mem_free(y.waits);
    return st;
}

/* How long it takes with chunks of that size; no time if they are too many. */
static enum status predict_with(const struct plan *plan, const struct program_spec *spec,
                                const struct cost_model *m, size_t chunk_bytes, double *time_s)
{
    struct program_spec trial = *spec;
    struct program *p;
    enum status st = ST_OK;

    trial.chunk_bytes = chunk_bytes;
    TRY(program_create(plan, &trial, &p));
    *time_s = INFINITY;
    if (p->n_instances <= MAX_OPS) {
        st = cost_predict(p, m, time_s);
    }
    program_destroy(p);
    return st;
}

enum status cost_best_chunk(const struct plan *plan, const struct program_spec *spec,
                            const struct cost_model *m, size_t *chunk_bytes)
{
    size_t of_tree = spec->n * dtype_bytes(spec->dtype) / plan->n_trees, largest = MIN_CHUNK, b;
    double time_s[8 * sizeof(size_t)], best_s = INFINITY;
    int n = 0, in_vain = 0;

    while (largest < of_tree && largest <= SIZE_MAX / 4) {
        largest *= 2;
    }
    *chunk_bytes = plan->pipelined ? largest : 0;
    for (b = largest; plan->pipelined && b >= MIN_CHUNK && in_vain < PATIENCE; b /= 2) {
        TRY(predict_with(plan, spec, m, b, &time_s[n]));
        in_vain = time_s[n] < best_s * (1 - alike / 4) ? 0 : in_vain + 1;
        best_s = fmin(time_s[n++], best_s);
    }
    for (int k = 0; k < n && time_s[k] > best_s * (1 + alike); k++) {
        *chunk_bytes = largest >> (k + 1);
    }
    return ST_OK;
}
