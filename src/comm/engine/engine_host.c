#include "comm/engine/engine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/cost.h"
#include "comm/engine/engine_state.h"

enum {
    SPIN_NS = 20000,   /* about twice what sleeping and waking cost */
    YIELD_NS = 100000, /* the same where ranks take turns on the cores */
    PATIENCE = 32,     /* turns of a waiting loop before it looks for work of others */
};

static void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

/* Before the caller, who has announced that it will sleep, looks for news for the last time. */
static void order(const struct engine *e)
{
    if (e->direct) {
        gate_order();
    }
}

/* This rank has other things to do: leave what is ready to one that sleeps. */
static void pass_on(struct engine *e)
{
    if (e->fabric == NULL && atomic_load(&e->sleepers) > 0 && engine_run_has(e)) {
        engine_run_wake(e, 1);
    }
}

/* --- Workers --- */

static void *work(void *arg)
{
    struct engine_worker *w = arg;
    struct engine *e = w->engine;
    struct gate *gate = &e->gates[e->opt.n_ranks + w->index];

    if (e->fabric != NULL) {
        engine_emulate(e, gate);
        return NULL;
    }
    while (!atomic_load(&e->stop)) {
        unsigned ticket;
        if (engine_run_any(e, w->index % e->opt.n_ranks)) {
            continue;
        }
        atomic_fetch_add(&e->sleepers, 1);
        ticket = gate_prepare(gate);
        if (engine_run_has(e) || atomic_load(&e->stop)) {
            gate_cancel(gate);
        } else {
            gate_sleep(gate, ticket, INT64_C(1000000000));
        }
        atomic_fetch_sub(&e->sleepers, 1);
    }
    return NULL;
}

static enum status start_workers(struct engine *e)
{
    for (int i = 0; i < e->opt.n_workers; i++) {
        int err;
        e->workers[i] = (struct engine_worker){e, i};
        err = pthread_create(&e->threads[i], NULL, work, &e->workers[i]);
        if (err != 0) {
            return log_fail(ST_INTERNAL,
                            "cannot start worker thread %d of %d, %s, lower [comm] workers", i,
                            e->opt.n_workers, strerror(err));
        }
        e->n_started++;
    }
    return ST_OK;
}

/* --- Life --- */

static enum status fill(struct engine *e, const struct engine_job *jobs, size_t n_jobs)
{
    size_t n_threads = (size_t)(e->opt.n_ranks + e->opt.n_workers), n_instances = 0;
    enum job_choice choice = e->opt.fabric != NULL  ? JOB_TIMED
                             : e->opt.n_workers > 0 ? JOB_NO_WHOLE
                                                    : JOB_ANY;

    e->jobs = mem_alloc(n_jobs, sizeof *e->jobs);
    e->gates = mem_alloc(n_threads, sizeof *e->gates);
    e->threads = mem_alloc((size_t)e->opt.n_workers, sizeof *e->threads);
    e->workers = mem_alloc((size_t)e->opt.n_workers, sizeof *e->workers);
    if (e->jobs == NULL || e->gates == NULL || e->threads == NULL || e->workers == NULL) {
        return ST_NOMEM;
    }
    for (; e->n_jobs < n_jobs; e->n_jobs++) {
        enum status st = job_init(&e->jobs[e->n_jobs], &jobs[e->n_jobs], choice, !e->direct);
        if (st != ST_OK) {
            job_fini(&e->jobs[e->n_jobs]);
            return st;
        }
    }
    if (e->opt.fabric != NULL) {
        for (size_t k = 0; k < n_jobs; k++) {
            n_instances += jobs[k].program->n_instances;
        }
        e->origin_ns = clock_now_ns();
        TRY(fabric_create(e->opt.fabric, n_instances, &e->fabric));
    }
    return start_workers(e);
}

enum status engine_create(const struct engine_options *options, const struct engine_job *jobs,
                          size_t n_jobs, struct engine **out)
{
    struct engine *e = mem_alloc(1, sizeof *e);
    double timeout_s = options->timeout_s;
    enum status st;

    if (e == NULL) {
        return ST_NOMEM;
    }
    e->opt = *options;
    if (options->fabric != NULL) {
        e->opt.n_workers = 1;
    }
    e->n_cores = options->n_cores > 0 ? options->n_cores : cost_cores();
    e->crowded = e->opt.n_ranks + e->opt.n_workers > e->n_cores;
    e->direct = !e->crowded && e->opt.n_workers == 0 && gate_can_order();
    e->yields = e->crowded && e->opt.fabric == NULL;
    e->patience_ns = e->yields ? YIELD_NS : e->crowded ? 0 : SPIN_NS;
    e->timed = e->opt.timed || e->opt.fabric != NULL;
    e->timeout_ns = timeout_s < 1e9 ? (int64_t)(timeout_s * 1e9) : INT64_C(1000000000000000000);
    atomic_init(&e->starting, 0);
    atomic_init(&e->waiting, 0);
    atomic_init(&e->napping, false);
    atomic_init(&e->sleepers, 0);
    atomic_init(&e->failed, ST_OK);
    atomic_init(&e->stop, false);
    st = fill(e, jobs, n_jobs);
    if (st != ST_OK) {
        engine_destroy(e);
        return st;
    }
    *out = e;
    return ST_OK;
}

void engine_destroy(struct engine *e)
{
    if (e == NULL) {
        return;
    }
    atomic_store(&e->stop, true);
    for (int i = 0; i < e->n_started; i++) {
        (void)gate_wake(&e->gates[e->opt.n_ranks + i]);
        (void)pthread_join(e->threads[i], NULL);
    }
    for (size_t k = 0; k < e->n_jobs; k++) {
        job_fini(&e->jobs[k]);
    }
    fabric_destroy(e->fabric);
    mem_free(e->jobs);
    mem_free(e->gates);
    mem_free(e->threads);
    mem_free(e->workers);
    mem_free(e);
}

/* --- Post --- */

/* A fair share of what became ready: all of it would hold up this rank while others may have time.
 */
static void run_share(struct engine *e, const struct job *j, int rank, size_t n_ready)
{
    size_t share = j->p->n_instances / (size_t)e->opt.n_ranks + 1;

    engine_flat_own(e, rank);
    for (size_t k = 0; j->kind == JOB_GRAPH && n_ready > 0 && k < share; k++) {
        if (!engine_run_any(e, rank)) {
            return;
        }
    }
}

enum status engine_post(struct engine *e, int rank, size_t job)
{
    struct job *j = &e->jobs[job];
    struct job_rank *r = &j->ranks[rank];
    uint64_t run = atomic_load_explicit(&r->posted, memory_order_relaxed);
    int failed = atomic_load_explicit(&e->failed, memory_order_acquire);
    size_t n_ready;

    if (failed != ST_OK) {
        return (enum status)failed;
    }
    if (r->waited != run && !engine_run_done(j, rank)) {
        return log_fail(ST_BADARG, "rank %d posts %s of %s again, before it is done, wait for it",
                        rank, j->what, j->label);
    }
    if (e->timed) {
        atomic_store_explicit(&r->posted_ns, clock_now_ns(), memory_order_relaxed);
    }
    if (j->kind == JOB_FLAT) {
        atomic_store_explicit(&r->posted, run + 1, memory_order_relaxed);
    } else {
        atomic_store_explicit(&r->left, j->p->touches[rank], memory_order_relaxed);
        atomic_store_explicit(&r->started_ns, 0, memory_order_relaxed);
        atomic_store(&r->posted, run + 1);
    }
    n_ready = engine_run_start(e, j, rank);
    if (n_ready > 0 && e->crowded && j->quick && j->kind == JOB_FLAT && e->opt.n_workers == 0) {
        while (engine_run_one(e, j, rank, true)) { /* no time to wake anybody for it */
        }
        n_ready = 0;
    }
    if (n_ready > 0 && atomic_load(&e->sleepers) > 0) {
        engine_run_wake(e, e->opt.n_workers > 0 ? n_ready : n_ready - 1);
    }
    if (e->opt.n_workers == 0) {
        run_share(e, j, rank, n_ready);
    }
    pass_on(e);
    return ST_OK;
}

/* --- Wait --- */

static void log_timeout(struct engine *e, const struct job *j, int rank)
{
    uint64_t run = atomic_load(&j->ranks[rank].posted);
    char missing[128] = "";
    size_t used = 0;
    int n = 0;

    for (int r = 0; r < e->opt.n_ranks; r++) {
        if (atomic_load(&j->ranks[r].posted) < run && used + 16 < sizeof missing) {
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d",
                                     n++ > 0 ? ", " : "", r);
        }
    }
    if (n > 0) {
        log_error("%s of %s timed out after %g s on rank %d, waiting for rank%s %s, find out what "
                  "became of it or raise [comm] timeout_s",
                  j->what, j->label, e->opt.timeout_s, rank, n > 1 ? "s" : "", missing);
    } else {
        log_error("%s of %s timed out after %g s on rank %d, all ranks have posted it but the "
                  "bytes have not moved in time, raise [comm] timeout_s",
                  j->what, j->label, e->opt.timeout_s, rank);
    }
}

static enum status fail_timeout(struct engine *e, const struct job *j, int rank)
{
    int none = ST_OK;

    if (atomic_compare_exchange_strong(&e->failed, &none, ST_TIMEOUT)) {
        log_timeout(e, j, rank);
        engine_run_wake_all(e);
        return ST_TIMEOUT;
    }
    return (enum status)none;
}

static void sleep_rank(struct engine *e, const struct job *j, int rank, int64_t ns)
{
    struct gate *gate = &e->gates[rank];
    unsigned ticket;

    atomic_fetch_add(&e->sleepers, 1);
    atomic_fetch_add(&e->waiting, 1);
    if (atomic_load(&e->napping)) {
        (void)gate_wake(&e->gates[e->opt.n_ranks]);
    }
    ticket = gate_prepare(gate);
    order(e);
    if (engine_run_done(j, rank) || atomic_load(&e->failed) != ST_OK ||
        (e->fabric == NULL && engine_run_has(e))) {
        gate_cancel(gate);
    } else {
        gate_sleep(gate, ticket, ns);
    }
    atomic_fetch_sub(&e->waiting, 1);
    atomic_fetch_sub(&e->sleepers, 1);
}

enum status engine_wait(struct engine *e, int rank, size_t job)
{
    struct job *j = &e->jobs[job];
    int64_t begin = 0, idle_since = 0;

    if (j->kind == JOB_FLAT && e->direct) {
        engine_flat_wait(e, j, rank);
    }
    for (unsigned turn = 1;; turn++) {
        int failed = atomic_load_explicit(&e->failed, memory_order_acquire);
        int64_t now;
        if (failed != ST_OK) {
            return (enum status)failed;
        }
        if (engine_run_done(j, rank)) {
            j->ranks[rank].waited =
                atomic_load_explicit(&j->ranks[rank].posted, memory_order_relaxed);
            pass_on(e);
            return ST_OK;
        }
        /* Others are given the time to take their own part: looking for it slows them down. */
        if (engine_run_one(e, j, rank, e->crowded || turn >= PATIENCE) ||
            ((e->yields || turn % PATIENCE == 0) && engine_run_any(e, rank))) {
            idle_since = 0;
            continue;
        }
        if (e->yields) {
            (void)sched_yield();
        } else {
            relax();
        }
        if (!e->yields && turn % PATIENCE != 0) {
            continue;
        }
        now = clock_now_ns();
        begin = begin == 0 ? now : begin;
        idle_since = idle_since == 0 ? now : idle_since;
        if (now - begin >= e->timeout_ns) {
            return fail_timeout(e, j, rank);
        }
        if (now - idle_since >= e->patience_ns) {
            sleep_rank(e, j, rank, e->timeout_ns - (now - begin));
        }
    }
}

bool engine_done(const struct engine *e, int rank, size_t job)
{
    return engine_run_done(&e->jobs[job], rank);
}

bool engine_abort(struct engine *e, int rank, enum status why)
{
    int none = ST_OK;

    if (atomic_compare_exchange_strong(&e->failed, &none, ST_PEER)) {
        if (why != ST_PEER) {
            log_error("rank %d cannot go on (%s), all ranks stop", rank, status_text(why));
        }
        engine_run_wake_all(e);
    }
    return none == ST_OK;
}

struct engine_times engine_last_times(const struct engine *e, int rank, size_t job)
{
    const struct job *j = &e->jobs[job];
    const struct job_rank *r = &j->ranks[rank];
    int64_t posted = atomic_load(&r->posted_ns), started = 0, done;

    if (j->kind == JOB_FLAT) { /* it began when the last rank came */
        for (int k = 0; k < e->opt.n_ranks; k++) {
            int64_t t = atomic_load(&j->ranks[k].posted_ns);
            started = t > started ? t : started;
        }
        done = flat_end_ns(&j->flat);
    } else {
        started = atomic_load(&r->started_ns);
        done = atomic_load(&r->done_ns);
    }
    started = started > posted ? started : posted;
    done = done > started ? done : started; /* where nothing had to move */
    return (struct engine_times){(double)posted * 1e-9, (double)started * 1e-9,
                                 (double)done * 1e-9};
}
