#include "comm/engine/engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/engine/gate.h"
#include "comm/engine/job.h"

enum {
    WHOLE_BYTES = 32 << 10, /* of all ranks' messages together: less is run in one piece */
    SPIN_NS = 20000,        /* about twice what sleeping and waking cost */
    SPIN_BUSY_NS = 2000,    /* where others want the core */
};

struct worker {
    struct engine *engine;
    int index;
};

struct engine {
    struct engine_options opt;
    struct job *jobs;
    size_t n_jobs;
    struct gate *gates; /* [n_ranks + n_workers] */
    pthread_t *threads;
    struct worker *workers;
    int n_started;
    int n_cores;
    int64_t spin_ns, timeout_ns;
    _Alignas(64) atomic_int sleepers;
    atomic_int failed; /* enum status */
    atomic_bool stop;
};

static int count_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static void wake_all(struct engine *e)
{
    for (int i = 0; i < e->opt.n_ranks + e->opt.n_workers; i++) {
        (void)gate_wake(&e->gates[i]);
    }
}

/* Wake as many sleepers as `n` ready operations can use: workers first, and no more than there are
 * cores besides this one. */
static void wake_helpers(struct engine *e, size_t n)
{
    int left = e->n_cores - 1;

    for (int i = e->opt.n_ranks + e->opt.n_workers - 1;
         i >= 0 && n > 0 && left > 0 && atomic_load(&e->sleepers) > 0; i--) {
        if (gate_wake(&e->gates[i])) {
            n--;
            left--;
        }
    }
}

static void finish_rank(struct engine *e, struct job *j, int rank)
{
    struct job_rank *r = &j->ranks[rank];

    atomic_store_explicit(&r->done_ns, clock_now_ns(), memory_order_relaxed);
    atomic_store(&r->done, atomic_load_explicit(&r->posted, memory_order_relaxed));
    if (atomic_load(&e->sleepers) > 0) {
        (void)gate_wake(&e->gates[rank]);
    }
}

static void mark_started(struct job *j, const int *ranks, int n)
{
    for (int k = 0; k < n; k++) {
        struct job_rank *r = &j->ranks[ranks[k]];
        if (atomic_load_explicit(&r->started_ns, memory_order_relaxed) == 0) {
            atomic_store_explicit(&r->started_ns, clock_now_ns(), memory_order_relaxed);
        }
    }
}

static void run_item(struct engine *e, struct job *j, struct job_item i)
{
    const struct program_op *op = &j->p->ops[j->p->trees[i.tree].op + i.op];
    const int *ranks = j->p->ints + op->ranks, *next = j->p->ints + op->next;
    size_t n_ready = 0;

    mark_started(j, ranks, op->n_ranks);
    program_run(j->p, j->bases, i.tree, i.chunk, i.op);
    for (int k = 0; k < op->n_next; k++) {
        n_ready += job_release(j, (struct job_item){i.tree, i.chunk, (size_t)next[k]});
    }
    if (n_ready > 1 && atomic_load(&e->sleepers) > 0) {
        wake_helpers(e, n_ready - 1);
    }
    for (int k = 0; k < op->n_ranks; k++) {
        if (atomic_fetch_sub_explicit(&j->ranks[ranks[k]].left, 1, memory_order_acq_rel) == 1) {
            finish_rank(e, j, ranks[k]);
        }
    }
}

static bool help_job(struct engine *e, struct job *j)
{
    uint64_t word;

    if (!ready_pop(&j->ready, &word)) {
        return false;
    }
    run_item(e, j, job_unpack(word));
    return true;
}

/* Run one ready operation of any job, in the order of service. */
static bool help(struct engine *e)
{
    for (size_t k = 0; k < e->n_jobs; k++) {
        if (help_job(e, &e->jobs[e->opt.last_first ? e->n_jobs - 1 - k : k])) {
            return true;
        }
    }
    return false;
}

static bool any_ready(const struct engine *e)
{
    for (size_t k = 0; k < e->n_jobs; k++) {
        if (ready_any(&e->jobs[k].ready)) {
            return true;
        }
    }
    return false;
}

/* This rank has other things to do: leave what is ready to one that sleeps. */
static void pass_on(struct engine *e)
{
    if (atomic_load(&e->sleepers) > 0 && any_ready(e)) {
        wake_helpers(e, 1);
    }
}

/* --- Workers --- */

static void *work(void *arg)
{
    struct worker *w = arg;
    struct engine *e = w->engine;
    struct gate *gate = &e->gates[e->opt.n_ranks + w->index];

    while (!atomic_load(&e->stop)) {
        unsigned ticket;
        if (help(e)) {
            continue;
        }
        atomic_fetch_add(&e->sleepers, 1);
        ticket = gate_prepare(gate);
        if (any_ready(e) || atomic_load(&e->stop)) {
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
        e->workers[i] = (struct worker){e, i};
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

static bool is_small(const struct engine_options *opt, const struct program *p)
{
    size_t bytes, limit = WHOLE_BYTES / (size_t)opt->n_ranks;

    return opt->n_workers == 0 &&
           !__builtin_mul_overflow(p->spec.n, dtype_bytes(p->spec.dtype), &bytes) && bytes <= limit;
}

static enum status fill(struct engine *e, const struct engine_job *jobs, size_t n_jobs)
{
    size_t n_threads = (size_t)(e->opt.n_ranks + e->opt.n_workers);

    e->jobs = mem_alloc(n_jobs, sizeof *e->jobs);
    e->gates = mem_alloc(n_threads, sizeof *e->gates);
    e->threads = mem_alloc((size_t)e->opt.n_workers, sizeof *e->threads);
    e->workers = mem_alloc((size_t)e->opt.n_workers, sizeof *e->workers);
    if (e->jobs == NULL || e->gates == NULL || e->threads == NULL || e->workers == NULL) {
        return ST_NOMEM;
    }
    for (; e->n_jobs < n_jobs; e->n_jobs++) {
        enum status st = job_init(&e->jobs[e->n_jobs], &jobs[e->n_jobs],
                                  is_small(&e->opt, jobs[e->n_jobs].program));
        if (st != ST_OK) {
            job_fini(&e->jobs[e->n_jobs]);
            return st;
        }
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
    e->n_cores = count_cores();
    e->spin_ns = options->n_ranks + options->n_workers <= e->n_cores ? SPIN_NS : SPIN_BUSY_NS;
    e->timeout_ns = timeout_s < 1e9 ? (int64_t)(timeout_s * 1e9) : INT64_C(1000000000000000000);
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
    mem_free(e->jobs);
    mem_free(e->gates);
    mem_free(e->threads);
    mem_free(e->workers);
    mem_free(e);
}

/* --- Post --- */

/* The last rank is here: run everything in program order. */
static void run_whole(struct engine *e, struct job *j)
{
    int64_t now = clock_now_ns();

    atomic_store_explicit(&j->arrived, 0, memory_order_relaxed);
    for (size_t t = 0; t < j->p->n_trees; t++) {
        for (size_t c = 0; c < j->p->trees[t].n_chunks; c++) {
            for (size_t i = 0; i < j->p->trees[t].n_ops; i++) {
                program_run(j->p, j->bases, t, c, i);
            }
        }
    }
    for (int r = 0; r < e->opt.n_ranks; r++) {
        atomic_store_explicit(&j->ranks[r].started_ns, now, memory_order_relaxed);
        finish_rank(e, j, r);
    }
}

/* Start what the rank's buffers allow; returns how many operations became ready. */
static size_t start_items(struct engine *e, struct job *j, int rank)
{
    size_t n_ready = job_start(j, rank);

    if (j->has_relays &&
        atomic_fetch_add_explicit(&j->arrived, 1, memory_order_acq_rel) + 1 == e->opt.n_ranks) {
        atomic_store_explicit(&j->arrived, 0, memory_order_relaxed);
        for (int v = j->p->n_ranks; v < j->p->n_nodes; v++) {
            n_ready += job_start(j, v);
        }
    }
    return n_ready;
}

enum status engine_post(struct engine *e, int rank, size_t job)
{
    struct job *j = &e->jobs[job];
    struct job_rank *r = &j->ranks[rank];
    unsigned run = atomic_load_explicit(&r->posted, memory_order_relaxed);
    int failed = atomic_load_explicit(&e->failed, memory_order_acquire);
    size_t n_ready, share;

    if (failed != ST_OK) {
        return (enum status)failed;
    }
    if (run != atomic_load_explicit(&r->done, memory_order_acquire)) {
        return log_fail(ST_BADARG, "rank %d posts %s of %s again, before it is done, wait for it",
                        rank, j->what, j->label);
    }
    atomic_store_explicit(&r->left, j->p->touches[rank], memory_order_relaxed);
    atomic_store_explicit(&r->started_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&r->posted_ns, clock_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&r->posted, run + 1, memory_order_release);
    if (j->whole) {
        if (atomic_fetch_add_explicit(&j->arrived, 1, memory_order_acq_rel) + 1 == e->opt.n_ranks) {
            run_whole(e, j);
        }
        return ST_OK;
    }
    if (j->p->touches[rank] == 0) {
        finish_rank(e, j, rank);
    }
    n_ready = start_items(e, j, rank);
    if (n_ready > 0 && atomic_load(&e->sleepers) > 0) {
        wake_helpers(e, n_ready);
    }
    /* A fair share of it: all of it would hold up this rank while others may have time. */
    share = j->p->n_instances / (size_t)e->opt.n_ranks + 1;
    for (size_t k = 0; e->opt.n_workers == 0 && n_ready > 0 && k < share && help(e); k++) {
    }
    pass_on(e);
    return ST_OK;
}

/* --- Wait --- */

static void log_timeout(struct engine *e, const struct job *j, int rank)
{
    unsigned run = atomic_load(&j->ranks[rank].posted);
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
        wake_all(e);
        return ST_TIMEOUT;
    }
    return (enum status)none;
}

static bool is_done(const struct job_rank *r)
{
    return atomic_load(&r->done) == atomic_load_explicit(&r->posted, memory_order_relaxed);
}

static void sleep_rank(struct engine *e, const struct job_rank *r, int rank, int64_t ns)
{
    struct gate *gate = &e->gates[rank];
    unsigned ticket;

    atomic_fetch_add(&e->sleepers, 1);
    ticket = gate_prepare(gate);
    if (is_done(r) || atomic_load(&e->failed) != ST_OK || any_ready(e)) {
        gate_cancel(gate);
    } else {
        gate_sleep(gate, ticket, ns);
    }
    atomic_fetch_sub(&e->sleepers, 1);
}

enum status engine_wait(struct engine *e, int rank, size_t job)
{
    struct job *j = &e->jobs[job];
    const struct job_rank *r = &j->ranks[rank];
    int64_t begin = 0, idle_since = 0;

    for (unsigned turn = 0;; turn++) {
        int failed = atomic_load_explicit(&e->failed, memory_order_acquire);
        int64_t now;
        if (failed != ST_OK) {
            return (enum status)failed;
        }
        if (is_done(r)) {
            pass_on(e);
            return ST_OK;
        }
        if (help_job(e, j) || ((turn & 7) == 0 && help(e))) {
            idle_since = 0;
            continue;
        }
        relax();
        if ((turn & 31) != 31) {
            continue;
        }
        now = clock_now_ns();
        begin = begin == 0 ? now : begin;
        idle_since = idle_since == 0 ? now : idle_since;
        if (now - begin >= e->timeout_ns) {
            return fail_timeout(e, j, rank);
        }
        if (now - idle_since >= e->spin_ns) {
            sleep_rank(e, r, rank, e->timeout_ns - (now - begin));
        }
    }
}

bool engine_done(const struct engine *e, int rank, size_t job)
{
    return is_done(&e->jobs[job].ranks[rank]);
}

void engine_abort(struct engine *e, int rank, enum status why)
{
    int none = ST_OK;

    if (atomic_compare_exchange_strong(&e->failed, &none, ST_PEER)) {
        log_error("rank %d cannot go on (%s), all ranks stop", rank, status_text(why));
        wake_all(e);
    }
}

struct engine_times engine_last_times(const struct engine *e, int rank, size_t job)
{
    const struct job_rank *r = &e->jobs[job].ranks[rank];
    double posted_s = (double)atomic_load(&r->posted_ns) * 1e-9;
    double started_s = (double)atomic_load(&r->started_ns) * 1e-9;
    double done_s = (double)atomic_load(&r->done_ns) * 1e-9;

    /* Where nothing had to move, it began when it ended. */
    return (struct engine_times){posted_s, started_s > 0 ? started_s : done_s, done_s};
}
