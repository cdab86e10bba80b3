#include "comm/cuda/engine_cuda.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/cuda/device_job.h"

/* Clocks of GPUs and the host drift apart by less than a millisecond in that time. */
static const double RENEW_S = 10;

struct engine_cuda {
    struct engine_cuda_options opt;
    struct device_job *jobs;
    size_t n_jobs;
    struct cuda_job_streams streams;
    struct device_clock *clock; /* NULL unless timed */
    struct nccl_watcher watcher;
    bool watches;
    /* Guards what follows, the counts of the jobs, and all streams but the ranks' own. */
    pthread_mutex_t lock;
    pthread_cond_t issued;
    bool has_lock, has_cond;
    enum status failed;
};

static enum status init_lock(struct engine_cuda *e)
{
    pthread_condattr_t attr;
    int err = pthread_mutex_init(&e->lock, NULL);

    e->has_lock = err == 0;
    if (err == 0 && pthread_condattr_init(&attr) == 0) {
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        e->has_cond = pthread_cond_init(&e->issued, &attr) == 0;
        (void)pthread_condattr_destroy(&attr);
    }
    return e->has_lock && e->has_cond ? ST_OK : ST_NOMEM;
}

/* All are above plain streams, and the last of so many jobs is the most urgent one. */
static int urgency_of(const struct engine_cuda *e, size_t number, size_t n_jobs)
{
    return e->opt.last_first ? 1 + (int)(number * DEVICE_URGENCIES / n_jobs) : 0;
}

static void aborted(void *engine, enum status why);

static enum status fill(struct engine_cuda *e, const struct engine_job *jobs, size_t n_jobs)
{
    TRY(init_lock(e));
    e->jobs = mem_alloc(n_jobs, sizeof *e->jobs);
    if (e->jobs == NULL) {
        return ST_NOMEM;
    }
    while (e->n_jobs < n_jobs) {
        struct device_job *j = &e->jobs[e->n_jobs++];
        TRY(device_job_init(j, &e->opt, &jobs[e->n_jobs - 1], urgency_of(e, e->n_jobs - 1, n_jobs),
                            &e->streams));
    }
    if (e->opt.timed) {
        TRY(device_clock_create(e->opt.device, e->opt.set, e->opt.n_ranks, RENEW_S, &e->clock));
    }
    if (e->opt.lanes != NULL) {
        e->watcher = (struct nccl_watcher){.aborted = aborted, .ctx = e};
        nccl_lanes_watch(e->opt.lanes, &e->watcher);
        e->watches = true;
    }
    return ST_OK;
}

enum status engine_cuda_create(const struct engine_cuda_options *options,
                               const struct engine_job *jobs, size_t n_jobs,
                               struct engine_cuda **out)
{
    struct engine_cuda *e = mem_alloc(1, sizeof *e);
    enum status st;

    if (e == NULL) {
        return ST_NOMEM;
    }
    e->opt = *options;
    e->failed = ST_OK;
    st = fill(e, jobs, n_jobs);
    if (st != ST_OK) {
        engine_cuda_destroy(e);
        return st;
    }
    *out = e;
    return ST_OK;
}

/* Nothing is under way after it. */
static void finish(struct engine_cuda *e)
{
    if (e->watches) {
        nccl_lanes_unwatch(e->opt.lanes, &e->watcher);
        nccl_lanes_drain(e->opt.lanes);
    }
    for (size_t i = 0; i < e->streams.n; i++) { /* a run that failed half issued was not joined */
        (void)!e->opt.device->stream_sync(e->opt.set, e->streams.all[i].handle);
    }
    for (size_t k = 0; k < e->n_jobs; k++) { /* the joined stream is the last to end */
        const struct cuda_job *own = &e->jobs[k].own;
        if (own->streams != NULL && own->streams[0] != NULL) {
            (void)!e->opt.device->stream_sync(e->opt.set, own->streams[0]);
        }
    }
}

void engine_cuda_destroy(struct engine_cuda *e)
{
    if (e == NULL) {
        return;
    }
    finish(e);
    for (size_t k = 0; k < e->n_jobs; k++) {
        device_job_fini(&e->jobs[k]);
    }
    device_clock_destroy(e->clock);
    for (size_t i = 0; i < e->streams.n; i++) {
        e->opt.device->stream_destroy(e->opt.set, e->streams.all[i].handle);
    }
    if (e->has_cond) {
        (void)pthread_cond_destroy(&e->issued);
    }
    if (e->has_lock) {
        (void)pthread_mutex_destroy(&e->lock);
    }
    mem_free(e->streams.all);
    mem_free(e->jobs);
    mem_free(e);
}

/* --- With the lock held --- */

static enum status fail(struct engine_cuda *e, enum status st)
{
    e->failed = e->failed == ST_OK ? st : e->failed;
    (void)pthread_cond_broadcast(&e->issued);
    return st;
}

/* The calling thread may be in the middle of a pass: it gets its device back. */
static enum status issue(struct engine_cuda *e, int rank, const struct device_job *j)
{
    enum status st = device_job_run(j), back = e->opt.device->use(e->opt.set, rank);

    return st != ST_OK ? st : back;
}

static enum status post(struct engine_cuda *e, int rank, struct device_job *j)
{
    if (e->failed != ST_OK) {
        return ST_PEER;
    }
    j->n_posts[rank]++;
    if (++j->n_arrived < e->opt.n_ranks) {
        return ST_OK;
    }
    j->n_arrived = 0;
    TRY(issue(e, rank, j));
    j->n_runs++;
    (void)pthread_cond_broadcast(&e->issued);
    return ST_OK;
}

static void log_timeout(const struct engine_cuda *e, const struct device_job *j, int rank)
{
    char missing[128] = "";
    size_t used = 0;

    for (int r = 0; r < e->opt.n_ranks; r++) {
        if (j->n_posts[r] < j->n_posts[rank] && used + 16 < sizeof missing) {
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d",
                                     used > 0 ? ", " : "", r);
        }
    }
    log_error("%s of %s timed out after %g s on rank %d, waiting for rank %s, find out what became "
              "of it or raise [comm] timeout_s",
              j->what, j->label, e->opt.timeout_s, rank, missing);
}

/* Until the run that `rank` posted last has been issued. */
static enum status wait_issued(struct engine_cuda *e, int rank, struct device_job *j)
{
    double end_s = clock_now_s() + e->opt.timeout_s;
    struct timespec until = {.tv_sec = (time_t)end_s,
                             .tv_nsec = (long)((end_s - (double)(time_t)end_s) * 1e9)};

    while (j->n_runs < j->n_posts[rank]) {
        if (e->failed != ST_OK) {
            return ST_PEER;
        }
        if (pthread_cond_timedwait(&e->issued, &e->lock, &until) == ETIMEDOUT &&
            j->n_runs < j->n_posts[rank] && e->failed == ST_OK) {
            log_timeout(e, j, rank);
            return fail(e, ST_TIMEOUT);
        }
    }
    return e->failed != ST_OK ? ST_PEER : ST_OK;
}

/* NCCL was aborted. */
static void aborted(void *engine, enum status why)
{
    struct engine_cuda *e = engine;

    (void)pthread_mutex_lock(&e->lock);
    (void)!fail(e, why);
    (void)pthread_mutex_unlock(&e->lock);
}

/* --- Calls --- */

enum status engine_cuda_post(struct engine_cuda *e, int rank, size_t job, void *stream)
{
    struct device_job *j = &e->jobs[job];
    enum status st;

    if (j->n_posts[rank] != j->n_waits[rank]) { /* of this thread's rank */
        return log_fail(ST_BADARG, "rank %d posts %s of %s again, before it is done, wait for it",
                        rank, j->what, j->label);
    }
    TRY(device_job_mark_post(j, rank, stream));
    (void)pthread_mutex_lock(&e->lock);
    st = post(e, rank, j);
    if (st != ST_OK) {
        st = fail(e, st);
    }
    (void)pthread_mutex_unlock(&e->lock);
    return st;
}

static enum status wait_host(struct engine_cuda *e, int rank, struct device_job *j)
{
    enum status st;

    (void)pthread_mutex_lock(&e->lock);
    st = wait_issued(e, rank, j);
    (void)pthread_mutex_unlock(&e->lock);
    if (st == ST_OK) {
        j->n_waits[rank] = j->n_posts[rank];
    }
    return st;
}

enum status engine_cuda_wait(struct engine_cuda *e, int rank, size_t job, void *stream)
{
    struct device_job *j = &e->jobs[job];

    TRY(wait_host(e, rank, j));
    return device_job_wait(j, rank, stream);
}

enum status engine_cuda_sync(struct engine_cuda *e, int rank, size_t job)
{
    struct device_job *j = &e->jobs[job];
    double begin = clock_now_s();
    bool done = false;

    TRY(wait_host(e, rank, j));
    for (;;) {
        TRY(e->opt.device->done(e->opt.set, device_job_done(j, rank), &done));
        if (done) {
            return ST_OK;
        }
        if (clock_now_s() - begin > e->opt.timeout_s) {
            (void)pthread_mutex_lock(&e->lock);
            (void)!fail(e, ST_TIMEOUT);
            (void)pthread_mutex_unlock(&e->lock);
            return log_fail(
                ST_TIMEOUT,
                "%s of %s timed out after %g s on rank %d, all ranks have posted it but "
                "the bytes have not moved in time, raise [comm] timeout_s",
                j->what, j->label, e->opt.timeout_s, rank);
        }
        (void)sched_yield();
    }
}

bool engine_cuda_issued(struct engine_cuda *e, int rank, size_t job)
{
    const struct device_job *j = &e->jobs[job];
    bool issued;

    (void)pthread_mutex_lock(&e->lock);
    issued = j->n_runs >= j->n_posts[rank];
    (void)pthread_mutex_unlock(&e->lock);
    return issued;
}

bool engine_cuda_times(const struct engine_cuda *e, int rank, size_t job, size_t use,
                       struct device_times *out)
{
    bool known;

    return device_job_times(&e->jobs[job], e->clock, rank, use, out, &known) == ST_OK && known;
}

bool engine_cuda_abort(struct engine_cuda *e, int rank, enum status why)
{
    bool first;

    (void)pthread_mutex_lock(&e->lock);
    first = e->failed == ST_OK;
    if (first) {
        if (why != ST_PEER) {
            log_error("rank %d cannot go on (%s), all ranks stop", rank, status_text(why));
        }
        (void)!fail(e, ST_PEER);
    }
    (void)pthread_mutex_unlock(&e->lock);
    return first;
}
