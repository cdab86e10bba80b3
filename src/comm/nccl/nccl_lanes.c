#include "comm/nccl/nccl_lanes.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

/* How often what is under way is looked at; a time-out may be that late. */
static const double LOOK_S = 0.02, HURRY_S = 0.0002;

struct nccl_lanes {
    const struct device_ops *device;
    void *set;
    int n_ranks;
    double timeout_s;
    struct nccl_library *library;
    void **streams; /* [n_ranks] */

    pthread_mutex_t lock; /* guards what follows, and the streams */
    pthread_cond_t changed;
    struct nccl *nccl;
    struct nccl_run *first, *last; /* under way, in the order of the lanes */
    double since_s;                /* when `first` was seen to have all ranks' data; 0: not yet */
    int n_holders;
    bool stopped;
    enum status failed;

    pthread_mutex_t tell_lock; /* guards the watchers */
    struct nccl_watcher *watchers;
    pthread_t thread;
    bool has_lock, has_cond, has_tell_lock, has_thread;
};

/* --- With the lock held --- */

static void fail(struct nccl_lanes *l, enum status st)
{
    if (l->failed == ST_OK) {
        l->failed = st;
        nccl_abort(l->nccl);
        l->first = l->last = NULL;
    }
    (void)pthread_cond_broadcast(&l->changed);
}

static enum status all_done(const struct nccl_lanes *l, void *const *events, bool *out)
{
    *out = true;
    for (int r = 0; *out && r < l->n_ranks; r++) {
        TRY(l->device->done(l->set, events[r], out));
    }
    return ST_OK;
}

/* Forget what is done. */
static enum status pass(struct nccl_lanes *l)
{
    bool done = true;

    while (l->first != NULL) {
        TRY(all_done(l, l->first->done, &done));
        if (!done) {
            return ST_OK;
        }
        l->first = l->first->behind;
        l->last = l->first == NULL ? NULL : l->last;
        l->since_s = 0;
    }
    return ST_OK;
}

/* The first one has its time from when all ranks have come to it: before that they compute. */
static enum status check_time(struct nccl_lanes *l)
{
    const struct nccl_run *run = l->first;
    bool begun;

    if (l->since_s == 0) {
        TRY(all_done(l, run->posted, &begun));
        l->since_s = begun ? clock_now_s() : 0;
        return ST_OK;
    }
    if (clock_now_s() - l->since_s <= l->timeout_s) {
        return ST_OK;
    }
    return log_fail(ST_TIMEOUT,
                    "%s: %s of %s timed out after %g s, all %d ranks have come to it, look at the "
                    "links of the GPUs with nvidia-smi or raise [comm] timeout_s",
                    nccl_version(l->library), collective_name(run->call.collective), run->label,
                    l->timeout_s, l->n_ranks);
}

static void look(struct nccl_lanes *l)
{
    enum status st = pass(l);

    st = st == ST_OK && l->first != NULL ? nccl_check(l->nccl) : st;
    st = st == ST_OK && l->first != NULL ? check_time(l) : st;
    if (st != ST_OK) {
        fail(l, st);
    }
}

static void sleep_for(struct nccl_lanes *l, double s)
{
    double end_s = clock_now_s() + s;
    struct timespec until = {.tv_sec = (time_t)end_s,
                             .tv_nsec = (long)((end_s - (double)(time_t)end_s) * 1e9)};

    (void)pthread_cond_timedwait(&l->changed, &l->lock, &until);
}

static enum status issue(struct nccl_lanes *l, struct nccl_run *run)
{
    run->call.streams = l->streams;
    for (int r = 0; r < l->n_ranks; r++) {
        TRY(l->device->wait(l->set, l->streams[r], run->posted[r]));
        if (run->begun != NULL) {
            TRY(l->device->record(l->set, l->streams[r], run->begun[r]));
        }
    }
    TRY(nccl_start(l->nccl, &run->call));
    for (int r = 0; r < l->n_ranks; r++) {
        TRY(l->device->record(l->set, l->streams[r], run->done[r]));
    }
    return ST_OK;
}

static void append(struct nccl_lanes *l, struct nccl_run *run)
{
    run->behind = NULL;
    if (l->last != NULL) {
        l->last->behind = run;
    } else {
        l->first = run;
        l->since_s = 0;
    }
    l->last = run;
    (void)pthread_cond_broadcast(&l->changed);
}

/* --- The thread that watches --- */

static void tell(struct nccl_lanes *l, enum status why)
{
    (void)pthread_mutex_lock(&l->tell_lock);
    for (struct nccl_watcher *w = l->watchers; w != NULL; w = w->next) {
        w->aborted(w->ctx, why);
    }
    (void)pthread_mutex_unlock(&l->tell_lock);
}

static void *watch(void *lanes)
{
    struct nccl_lanes *l = lanes;
    enum status failed;

    (void)pthread_mutex_lock(&l->lock);
    while (!l->stopped && l->failed == ST_OK) {
        if (l->first == NULL) {
            (void)pthread_cond_wait(&l->changed, &l->lock);
        } else {
            sleep_for(l, LOOK_S);
            look(l);
        }
    }
    failed = l->failed;
    (void)pthread_mutex_unlock(&l->lock);
    if (failed != ST_OK) {
        tell(l, failed);
    }
    return NULL;
}

/* --- Making --- */

static enum status init_locks(struct nccl_lanes *l)
{
    pthread_condattr_t attr;

    l->has_lock = pthread_mutex_init(&l->lock, NULL) == 0;
    l->has_tell_lock = pthread_mutex_init(&l->tell_lock, NULL) == 0;
    if (pthread_condattr_init(&attr) == 0) {
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        l->has_cond = pthread_cond_init(&l->changed, &attr) == 0;
        (void)pthread_condattr_destroy(&attr);
    }
    return l->has_lock && l->has_tell_lock && l->has_cond ? ST_OK : ST_NOMEM;
}

static enum status make_nccl(struct nccl_lanes *l, const struct nccl_lanes_args *a)
{
    int *devices = mem_alloc((size_t)a->n_ranks, sizeof *devices);
    struct nccl_args args = {.lib = l->library,
                             .device = l->device,
                             .set = l->set,
                             .devices = devices,
                             .n_ranks = a->n_ranks,
                             .timeout_s = a->timeout_s,
                             .log_path = a->log_path};
    enum status st;

    if (devices == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < a->n_ranks; r++) {
        devices[r] = a->places[r].device;
    }
    st = nccl_create(&args, &l->nccl);
    mem_free(devices);
    return st;
}

static enum status fill(struct nccl_lanes *l, const struct nccl_lanes_args *a)
{
    TRY(init_locks(l));
    TRY(nccl_load(a->library, &l->library));
    TRY(make_nccl(l, a));
    l->streams = mem_alloc((size_t)a->n_ranks, sizeof *l->streams);
    if (l->streams == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < a->n_ranks; r++) {
        TRY(l->device->urgent_stream_create(l->set, r, DEVICE_URGENCIES, &l->streams[r]));
    }
    l->has_thread = pthread_create(&l->thread, NULL, watch, l) == 0;
    return l->has_thread ? ST_OK
                         : log_fail(ST_INTERNAL, "cannot start the thread that watches NCCL, raise "
                                                 "the limit of threads");
}

enum status nccl_lanes_create(const struct nccl_lanes_args *args, struct nccl_lanes **out)
{
    struct nccl_lanes *l = mem_alloc(1, sizeof *l);
    enum status st;

    if (l == NULL) {
        return ST_NOMEM;
    }
    l->device = args->places[0].ops;
    l->set = args->places[0].set;
    l->n_ranks = args->n_ranks;
    l->timeout_s = args->timeout_s;
    l->n_holders = 1;
    st = fill(l, args);
    if (st != ST_OK) {
        nccl_lanes_release(l);
        return st;
    }
    *out = l;
    return ST_OK;
}

struct nccl_lanes *nccl_lanes_hold(struct nccl_lanes *l)
{
    (void)pthread_mutex_lock(&l->lock);
    l->n_holders++;
    (void)pthread_mutex_unlock(&l->lock);
    return l;
}

static void stop(struct nccl_lanes *l)
{
    nccl_lanes_drain(l);
    (void)pthread_mutex_lock(&l->lock);
    l->stopped = true;
    (void)pthread_cond_broadcast(&l->changed);
    (void)pthread_mutex_unlock(&l->lock);
    (void)pthread_join(l->thread, NULL);
}

static void destroy(struct nccl_lanes *l)
{
    if (l->has_thread) {
        stop(l);
    }
    nccl_destroy(l->nccl);
    for (int r = 0; l->streams != NULL && r < l->n_ranks; r++) {
        l->device->stream_destroy(l->set, l->streams[r]);
    }
    nccl_unload(l->library);
    if (l->has_cond) {
        (void)pthread_cond_destroy(&l->changed);
    }
    if (l->has_tell_lock) {
        (void)pthread_mutex_destroy(&l->tell_lock);
    }
    if (l->has_lock) {
        (void)pthread_mutex_destroy(&l->lock);
    }
    mem_free(l->streams);
    mem_free(l);
}

void nccl_lanes_release(struct nccl_lanes *l)
{
    bool last = true;

    if (l == NULL) {
        return;
    }
    if (l->has_lock) {
        (void)pthread_mutex_lock(&l->lock);
        last = --l->n_holders == 0;
        (void)pthread_mutex_unlock(&l->lock);
    }
    if (last) {
        destroy(l);
    }
}

/* --- Calls --- */

const char *nccl_lanes_version(const struct nccl_lanes *l)
{
    return nccl_version(l->library);
}

void nccl_lanes_watch(struct nccl_lanes *l, struct nccl_watcher *w)
{
    (void)pthread_mutex_lock(&l->tell_lock);
    w->next = l->watchers;
    l->watchers = w;
    (void)pthread_mutex_unlock(&l->tell_lock);
}

void nccl_lanes_unwatch(struct nccl_lanes *l, struct nccl_watcher *w)
{
    (void)pthread_mutex_lock(&l->tell_lock);
    for (struct nccl_watcher **at = &l->watchers; *at != NULL; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&l->tell_lock);
}

enum status nccl_lanes_start(struct nccl_lanes *l, struct nccl_run *run)
{
    enum status st = ST_PEER;

    (void)pthread_mutex_lock(&l->lock);
    if (l->failed == ST_OK) {
        st = pass(l); /* the use of `run` before may still stand in the list */
        st = st == ST_OK ? issue(l, run) : st;
        if (st == ST_OK) {
            append(l, run);
        } else {
            fail(l, st);
        }
    }
    (void)pthread_mutex_unlock(&l->lock);
    return st;
}

/* After an abort, what was put on the streams comes to its end without the library. */
void nccl_lanes_drain(struct nccl_lanes *l)
{
    (void)pthread_mutex_lock(&l->lock);
    for (look(l); l->first != NULL; look(l)) {
        sleep_for(l, HURRY_S);
    }
    for (int r = 0; r < l->n_ranks; r++) {
        (void)!l->device->stream_sync(l->set, l->streams[r]);
    }
    (void)pthread_mutex_unlock(&l->lock);
}

enum status nccl_lanes_check(struct nccl_lanes *l)
{
    enum status failed;

    (void)pthread_mutex_lock(&l->lock);
    failed = l->failed;
    (void)pthread_mutex_unlock(&l->lock);
    return failed == ST_OK ? ST_OK : ST_PEER;
}
