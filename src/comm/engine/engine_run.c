#include "base/clock.h"
#include "comm/engine/engine_state.h"

void engine_run_wake(struct engine *e, size_t n)
{
    int left = e->n_cores - 1;

    if (e->fabric != NULL) { /* its thread alone moves bytes, on whatever core */
        if (!atomic_load(&e->napping)) {
            (void)gate_wake(&e->gates[e->opt.n_ranks]);
        }
        return;
    }
    for (int i = e->opt.n_ranks + e->opt.n_workers - 1;
         i >= 0 && n > 0 && left > 0 && atomic_load(&e->sleepers) > 0; i--) {
        if (gate_wake(&e->gates[i])) {
            n--;
            left--;
        }
    }
}

void engine_run_wake_all(struct engine *e)
{
    for (int i = 0; i < e->opt.n_ranks + e->opt.n_workers; i++) {
        (void)gate_wake(&e->gates[i]);
    }
}

int64_t engine_run_now(const struct engine *e)
{
    return e->timed ? clock_now_ns() : 0;
}

/* --- Graphs --- */

static void finish_rank(struct engine *e, struct job *j, int rank, int64_t now)
{
    struct job_rank *r = &j->ranks[rank];

    atomic_store_explicit(&r->done_ns, now, memory_order_relaxed);
    atomic_store(&r->done, atomic_load_explicit(&r->posted, memory_order_relaxed));
    if (atomic_load(&e->sleepers) > 0) {
        (void)gate_wake(&e->gates[rank]);
    }
}

static const struct program_op *op_of(const struct job *j, struct job_item i)
{
    return &j->p->ops[j->p->trees[i.tree].op + i.op];
}

void engine_run_begin(struct job *j, struct job_item i, int64_t now_ns)
{
    const struct program_op *op = op_of(j, i);

    for (int k = 0; k < op->n_ranks; k++) {
        struct job_rank *r = &j->ranks[j->p->ints[op->ranks + (size_t)k]];
        if (atomic_load_explicit(&r->started_ns, memory_order_relaxed) == 0) {
            atomic_store_explicit(&r->started_ns, now_ns, memory_order_relaxed);
        }
    }
}

void engine_run_conclude(struct engine *e, struct job *j, struct job_item i, int64_t now_ns)
{
    const struct program_op *op = op_of(j, i);
    const int *ranks = j->p->ints + op->ranks, *next = j->p->ints + op->next;
    size_t n_ready = 0;

    for (int k = 0; k < op->n_next; k++) {
        n_ready += job_release(j, (struct job_item){i.tree, i.chunk, (size_t)next[k]}, now_ns);
    }
    if (n_ready > 1 && e->fabric == NULL && atomic_load(&e->sleepers) > 0) {
        engine_run_wake(e, n_ready - 1);
    }
    for (int k = 0; k < op->n_ranks; k++) {
        if (atomic_fetch_sub_explicit(&j->ranks[ranks[k]].left, 1, memory_order_acq_rel) == 1) {
            finish_rank(e, j, ranks[k], now_ns);
        }
    }
}

static bool take_ready(struct engine *e, struct job *j)
{
    struct job_item i;
    uint64_t word;

    if (e->fabric != NULL || !ready_pop(&j->ready, &word)) {
        return false;
    }
    i = job_unpack(word);
    engine_run_begin(j, i, engine_run_now(e));
    program_run(j->p, j->bases, i.tree, i.chunk, i.op);
    engine_run_conclude(e, j, i, engine_run_now(e));
    return true;
}

/* True for the last rank that posts a run. */
static bool is_last(struct engine *e, struct job *j)
{
    if (atomic_fetch_add_explicit(&j->arrived, 1, memory_order_acq_rel) + 1 < e->opt.n_ranks) {
        return false;
    }
    atomic_store_explicit(&j->arrived, 0, memory_order_relaxed);
    return true;
}

/*
 * Over links a plan that is not pipelined starts when all ranks are there: what is sent first to
 * whom matters then, and must not depend on who came first.
 */
static bool starts_together(const struct job *j)
{
    return j->ready_ns != NULL && j->p->whole;
}

/* What the post of `rank` allows; `last` for the last rank that posts. */
static size_t start_nodes(struct job *j, int rank, bool last, int64_t now)
{
    int first = rank, end = rank + 1;
    size_t n_ready = 0;

    if (starts_together(j)) {
        first = 0;
        end = last ? j->p->n_ranks : 0;
    }
    for (int v = first; v < end; v++) {
        n_ready += job_start(j, v, now);
    }
    for (int v = j->p->n_ranks; last && v < j->p->n_nodes; v++) {
        n_ready += job_start(j, v, now);
    }
    return n_ready;
}

static size_t start_graph(struct engine *e, struct job *j, int rank)
{
    int64_t now = atomic_load_explicit(&j->ranks[rank].posted_ns, memory_order_relaxed);
    bool last;
    size_t n_ready;

    if (j->p->touches[rank] == 0) {
        finish_rank(e, j, rank, now);
        return 0;
    }
    last = (j->has_relays || starts_together(j)) && is_last(e, j);
    if (e->fabric == NULL) {
        return start_nodes(j, rank, last, now);
    }
    atomic_fetch_add(&e->starting, 1);
    n_ready = start_nodes(j, rank, last, now);
    atomic_fetch_sub(&e->starting, 1);
    return n_ready;
}

/* --- Jobs in one piece --- */

/* If this was the last rank run everything in program order. */
static void start_whole(struct engine *e, struct job *j)
{
    int64_t begin, end;

    if (!is_last(e, j)) {
        return;
    }
    begin = engine_run_now(e);
    for (size_t t = 0; t < j->p->n_trees; t++) {
        for (size_t c = 0; c < j->p->trees[t].n_chunks; c++) {
            for (size_t i = 0; i < j->p->trees[t].n_ops; i++) {
                program_run(j->p, j->bases, t, c, i);
            }
        }
    }
    end = engine_run_now(e);
    for (int r = 0; r < e->opt.n_ranks; r++) {
        atomic_store_explicit(&j->ranks[r].started_ns, begin, memory_order_relaxed);
        finish_rank(e, j, r, end);
    }
}

/* --- All kinds --- */

size_t engine_run_start(struct engine *e, struct job *j, int rank)
{
    switch (j->kind) {
    case JOB_FLAT:
        return engine_flat_post(e, j, rank) ? j->p->n_instances : 0;
    case JOB_GRAPH:
        return start_graph(e, j, rank);
    default:
        start_whole(e, j);
        return 0;
    }
}

bool engine_run_done(const struct job *j, int rank)
{
    uint64_t posted = atomic_load_explicit(&j->ranks[rank].posted, memory_order_relaxed);

    return j->kind == JOB_FLAT ? flat_done(&j->flat, posted)
                               : atomic_load(&j->ranks[rank].done) == posted;
}

bool engine_run_one(struct engine *e, struct job *j, int rank, bool steal)
{
    switch (j->kind) {
    case JOB_FLAT:
        return engine_flat_take(e, j, rank, steal);
    case JOB_GRAPH:
        return take_ready(e, j);
    default:
        return false;
    }
}

bool engine_run_any(struct engine *e, int rank)
{
    for (size_t k = 0; k < e->n_jobs; k++) {
        if (engine_run_one(e, &e->jobs[e->opt.last_first ? e->n_jobs - 1 - k : k], rank, true)) {
            return true;
        }
    }
    return false;
}

bool engine_run_has(const struct engine *e)
{
    for (size_t k = 0; k < e->n_jobs; k++) {
        const struct job *j = &e->jobs[k];
        if ((j->kind == JOB_FLAT && flat_any(&j->flat, flat_posted_by_all(&j->flat))) ||
            (j->kind == JOB_GRAPH && ready_any(&j->ready))) {
            return true;
        }
    }
    return false;
}
