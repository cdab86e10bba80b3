#include "timeline.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

const double timeline_op_s = 0.25;

struct timeline {
    double now;
    bool silent;
};

struct stream {
    struct timeline *t;
    double until; /* busy */
};

struct event {
    double at; /* infinite: never recorded */
};

struct timeline *timeline_create(void)
{
    struct timeline *t = calloc(1, sizeof *t);

    assert(t != NULL);
    t->now = 1000;
    return t;
}

void timeline_destroy(struct timeline *t)
{
    free(t);
}

void timeline_advance(struct timeline *t, double s)
{
    t->now += s;
}

void timeline_set_silent(struct timeline *t, bool silent)
{
    t->silent = silent;
}

/* The stream goes on at `from` at the earliest, for `s`. */
static void go_on(struct stream *stream, double from, double s)
{
    stream->until = fmax(fmax(stream->until, from), stream->t->now) + s;
}

void timeline_work(void *stream, double s)
{
    go_on(stream, 0, s);
}

static enum status use(void *set, int rank)
{
    (void)set;
    (void)rank;
    return ST_OK;
}

static bool reaches(void *set, int rank, int peer)
{
    (void)set;
    return rank >= 0 && peer >= 0;
}

static enum status count(int *n)
{
    *n = 8;
    return ST_OK;
}

static enum status alloc_host(void *set, size_t bytes, void **p)
{
    (void)set;
    *p = mem_alloc(bytes, 1);
    return *p != NULL ? ST_OK : ST_NOMEM;
}

static enum status alloc(void *set, int rank, size_t bytes, void **p)
{
    (void)rank;
    return alloc_host(set, bytes, p);
}

static void release_host(void *set, void *p)
{
    (void)set;
    mem_free(p);
}

static void release(void *set, int rank, void *p)
{
    (void)rank;
    release_host(set, p);
}

static enum status stream_create(void *set, int rank, void **out)
{
    struct stream *s = mem_alloc(1, sizeof *s);

    (void)rank;
    if (s == NULL) {
        return ST_NOMEM;
    }
    s->t = set;
    *out = s;
    return ST_OK;
}

static enum status urgent_stream_create(void *set, int rank, int urgency, void **out)
{
    (void)urgency;
    return stream_create(set, rank, out);
}

static enum status stream_sync(void *set, void *stream)
{
    (void)set;
    (void)stream;
    return ST_OK;
}

static void *stream_native(void *set, void *stream)
{
    (void)set;
    return stream;
}

static enum status event_create(void *set, int rank, void **out)
{
    struct event *e = mem_alloc(1, sizeof *e);

    (void)set;
    (void)rank;
    if (e == NULL) {
        return ST_NOMEM;
    }
    e->at = INFINITY;
    *out = e;
    return ST_OK;
}

static enum status record(void *set, void *stream, void *event)
{
    (void)set;
    go_on(stream, 0, 0);
    ((struct event *)event)->at = ((const struct stream *)stream)->until;
    return ST_OK;
}

static enum status wait_for(void *set, void *stream, void *event)
{
    const struct event *e = event;

    (void)set;
    go_on(stream, isinf(e->at) ? 0 : e->at, 0);
    return ST_OK;
}

static enum status done(void *set, void *event, bool *out)
{
    const struct timeline *t = set;

    *out = !t->silent && ((const struct event *)event)->at <= t->now;
    return ST_OK;
}

static enum status event_sync(void *set, void *event)
{
    (void)set;
    (void)event;
    return ST_OK;
}

static enum status elapsed(void *set, void *from, void *to, double *s)
{
    const struct event *a = from, *b = to;

    assert(fmax(a->at, b->at) <= ((const struct timeline *)set)->now); /* CUDA refuses others */
    *s = b->at - a->at;
    return ST_OK;
}

static enum status copy(void *set, void *stream, void *dst, const void *src, size_t bytes)
{
    (void)set;
    (void)dst;
    (void)src;
    (void)bytes;
    timeline_work(stream, timeline_op_s);
    return ST_OK;
}

static enum status fold(void *set, void *stream, const struct device_fold *f)
{
    (void)set;
    (void)f;
    timeline_work(stream, timeline_op_s);
    return ST_OK;
}

struct device_ops timeline_ops(void)
{
    return (struct device_ops){.type = "timeline",
                               .align = 64,
                               .count = count,
                               .use = use,
                               .reaches = reaches,
                               .alloc = alloc,
                               .release = release,
                               .alloc_host = alloc_host,
                               .release_host = release_host,
                               .stream_create = stream_create,
                               .urgent_stream_create = urgent_stream_create,
                               .stream_destroy = release_host,
                               .stream_sync = stream_sync,
                               .stream_native = stream_native,
                               .event_create = event_create,
                               .timer_create = event_create,
                               .event_destroy = release_host,
                               .record = record,
                               .wait = wait_for,
                               .done = done,
                               .event_sync = event_sync,
                               .elapsed = elapsed,
                               .copy = copy,
                               .fold = fold};
}
