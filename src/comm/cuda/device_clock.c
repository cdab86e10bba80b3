#include "comm/cuda/device_clock.h"

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    FIRST_TRIES = 5 /* of which the closest one is taken */
};

static const double PATIENCE_S = 0.001; /* with a place that is alone on its stream */

struct anchor {
    void *timer;
    double host_s; /* 0: none yet */
};

struct anchored { /* a rank's device */
    void *stream;
    struct anchor now, before; /* places put before the last renewal are read from the older one */
    double renew_s;            /* not before */
};

struct device_clock {
    const struct device_ops *device;
    void *set;
    int n_ranks;
    double renew_s;
    struct anchored *ranks;
    pthread_mutex_t lock;
    bool has_lock;
};

/* Mark a place with `timer` and see how soon it is reached; *apart_s: within how long. */
static enum status try_anchor(const struct device_clock *c, const struct anchored *a, void *timer,
                              double *host_s, double *apart_s)
{
    const double from_s = clock_now_s();
    double to_s = from_s;
    bool done = false;

    TRY(c->device->record(c->set, a->stream, timer));
    while (!done && to_s - from_s <= PATIENCE_S) {
        TRY(c->device->done(c->set, timer, &done));
        to_s = clock_now_s();
        if (!done) {
            (void)sched_yield();
        }
    }
    *host_s = from_s + (to_s - from_s) / 2;
    *apart_s = to_s - from_s;
    return ST_OK;
}

static void take(struct anchored *a, double host_s)
{
    const struct anchor old = a->now;

    a->now = (struct anchor){a->before.timer, host_s};
    a->before = old;
}

static enum status first_anchor(const struct device_clock *c, struct anchored *a)
{
    double best_s = -1, host_s, apart_s;

    for (int k = 0; k < FIRST_TRIES; k++) {
        TRY(try_anchor(c, a, a->before.timer, &host_s, &apart_s));
        TRY(c->device->event_sync(c->set, a->before.timer));
        if (best_s < 0 || apart_s < best_s) {
            best_s = apart_s;
            take(a, host_s);
        }
    }
    a->before.host_s = 0; /* its place has been marked again */
    a->renew_s = host_s + c->renew_s;
    return ST_OK;
}

/* A device that is busy otherwise keeps the anchor that it has for a while. */
static enum status renew(const struct device_clock *c, struct anchored *a)
{
    double host_s, apart_s;

    if (clock_now_s() < a->renew_s) {
        return ST_OK;
    }
    a->before.host_s = 0;
    TRY(try_anchor(c, a, a->before.timer, &host_s, &apart_s));
    a->renew_s = host_s + c->renew_s;
    if (apart_s <= PATIENCE_S) {
        take(a, host_s);
    }
    return ST_OK;
}

static enum status init_rank(const struct device_clock *c, int rank)
{
    struct anchored *a = &c->ranks[rank];

    TRY(c->device->stream_create(c->set, rank, &a->stream));
    TRY(c->device->timer_create(c->set, rank, &a->now.timer));
    TRY(c->device->timer_create(c->set, rank, &a->before.timer));
    return first_anchor(c, a);
}

static enum status fill(struct device_clock *c)
{
    c->has_lock = pthread_mutex_init(&c->lock, NULL) == 0;
    c->ranks = mem_alloc((size_t)c->n_ranks, sizeof *c->ranks);
    if (!c->has_lock || c->ranks == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < c->n_ranks; r++) {
        TRY(init_rank(c, r));
    }
    return ST_OK;
}

enum status device_clock_create(const struct device_ops *device, void *set, int n_ranks,
                                double renew_s, struct device_clock **out)
{
    struct device_clock *c = mem_alloc(1, sizeof *c);
    enum status st;

    if (c == NULL) {
        return ST_NOMEM;
    }
    c->device = device;
    c->set = set;
    c->n_ranks = n_ranks;
    c->renew_s = renew_s;
    st = fill(c);
    if (st != ST_OK) {
        device_clock_destroy(c);
        return st;
    }
    *out = c;
    return ST_OK;
}

void device_clock_destroy(struct device_clock *c)
{
    if (c == NULL) {
        return;
    }
    for (int r = 0; c->ranks != NULL && r < c->n_ranks; r++) {
        struct anchored *a = &c->ranks[r];
        if (a->stream != NULL) {
            (void)!c->device->stream_sync(c->set, a->stream);
        }
        c->device->event_destroy(c->set, a->now.timer);
        c->device->event_destroy(c->set, a->before.timer);
        c->device->stream_destroy(c->set, a->stream);
    }
    if (c->has_lock) {
        (void)pthread_mutex_destroy(&c->lock);
    }
    mem_free(c->ranks);
    mem_free(c);
}

enum status device_clock_read(struct device_clock *c, int rank, void *timer, double posted_s,
                              double *s)
{
    struct anchored *a = &c->ranks[rank];
    const struct anchor *from;
    double after_s = 0;
    enum status st;

    (void)pthread_mutex_lock(&c->lock);
    st = renew(c, a);
    from = a->before.host_s > 0 && a->now.host_s > posted_s ? &a->before : &a->now;
    st = st == ST_OK ? c->device->elapsed(c->set, from->timer, timer, &after_s) : st;
    *s = from->host_s + after_s;
    (void)pthread_mutex_unlock(&c->lock);
    return st;
}
