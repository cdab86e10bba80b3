#include "sealed_internal.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    ALIGN = 256
};

static enum status stuck(void)
{
    sealed_fault("nothing can run, and a thread waits");
    return ST_INTERNAL;
}

static const char *version(void)
{
    return "sealed";
}

static enum status count(int *n)
{
    *n = SEALED_DEVICES;
    return ST_OK;
}

static enum status map_world(void)
{
    int f = memfd_create("sealed", 0);

    if (f < 0 || ftruncate(f, (off_t)SEALED_BYTES) != 0) {
        return ST_NOMEM;
    }
    sealed_world.sealed = mmap(NULL, SEALED_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, f, 0);
    sealed_world.open =
        mmap(NULL, SEALED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, f, 0);
    (void)close(f);
    return sealed_world.sealed != MAP_FAILED && sealed_world.open != MAP_FAILED ? ST_OK : ST_NOMEM;
}

static enum status open_set(const int *devices, int n_ranks, void **out)
{
    struct set *s;

    for (int r = 0; r < n_ranks; r++) {
        if (devices[r] < 0 || devices[r] >= SEALED_DEVICES) {
            return ST_INPUT;
        }
    }
    if (sealed_world.sealed == NULL && map_world() != ST_OK) {
        return ST_NOMEM;
    }
    s = mem_alloc(1, sizeof *s);
    *out = s;
    return s == NULL ? ST_NOMEM : ST_OK;
}

static void close_set(void *set)
{
    struct set *s = set;

    if (s != NULL && s->live > 0) {
        sealed_fault("memory is left");
    }
    mem_free(s);
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
    return rank != 1 || peer != 2; /* one pair without, for staging */
}

static bool all_idle(const struct set *s)
{
    for (int i = 0; i < MAX_STREAMS; i++) {
        if (s->streams[i] != NULL && s->streams[i]->first != NULL) {
            return false;
        }
    }
    return true;
}

/* Addresses are never used again, so that late use is found. */
static enum status alloc(void *set, int rank, size_t bytes, void **p)
{
    struct set *s = set;
    size_t size = (bytes + 2 * ALIGN) / ALIGN * ALIGN;
    void *live = mem_alloc(1, 1); /* faults can be injected here */

    (void)rank;
    if (live == NULL) {
        return ST_NOMEM;
    }
    mem_free(live);
    (void)pthread_mutex_lock(&sealed_world.lock);
    if (sealed_world.used + size > SEALED_BYTES) {
        (void)pthread_mutex_unlock(&sealed_world.lock);
        return ST_NOMEM;
    }
    *p = sealed_world.sealed + sealed_world.used;
    sealed_world.used += size;
    s->live++;
    (void)pthread_mutex_unlock(&sealed_world.lock);
    return ST_OK;
}

static void release(void *set, int rank, void *p)
{
    struct set *s = set;

    (void)rank;
    if (p == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&sealed_world.lock);
    if (!all_idle(s)) {
        sealed_fault("memory is released while streams have work");
    }
    s->live--;
    (void)pthread_mutex_unlock(&sealed_world.lock);
}

static enum status alloc_host(void *set, size_t bytes, void **p)
{
    (void)set;
    *p = mem_alloc(bytes, 1);
    return *p != NULL ? ST_OK : ST_NOMEM;
}

static void release_host(void *set, void *p)
{
    release(set, 0, p == NULL ? NULL : p);
    if (p != NULL) {
        ((struct set *)set)->live++;
    }
    mem_free(p);
}

struct stream *sealed_stream(struct set *set)
{
    struct stream *made = mem_alloc(1, sizeof *made);

    if (made == NULL) {
        return NULL;
    }
    (void)pthread_mutex_lock(&sealed_world.lock);
    while (set->streams[made->slot] != NULL) {
        made->slot++;
    }
    set->streams[made->slot] = made;
    (void)pthread_mutex_unlock(&sealed_world.lock);
    return made;
}

void sealed_stream_end(struct set *set, struct stream *s)
{
    (void)pthread_mutex_lock(&sealed_world.lock);
    if (s->first != NULL || s->capture != NULL) {
        sealed_fault("a stream with work is destroyed");
    }
    set->streams[s->slot] = NULL;
    (void)pthread_mutex_unlock(&sealed_world.lock);
    mem_free(s);
}

static enum status stream_create(void *set, int rank, void **out)
{
    (void)rank;
    *out = sealed_stream(set);
    return *out != NULL ? ST_OK : ST_NOMEM;
}

static enum status urgent_stream_create(void *set, int rank, int urgency, void **out)
{
    (void)urgency;
    return stream_create(set, rank, out);
}

static void stream_destroy(void *set, void *stream)
{
    if (stream != NULL) {
        sealed_stream_end(set, stream);
    }
}

static enum status stream_sync(void *set, void *stream)
{
    struct stream *s = stream;
    enum status st = ST_OK;

    (void)pthread_mutex_lock(&sealed_world.lock);
    if (s->capture != NULL) {
        sealed_fault("a thread waits for a stream that it captures");
    }
    sealed_world.stops += s->first != NULL;
    sealed_world.near++;
    while (st == ST_OK && s->first != NULL) {
        st = sealed_run_any(set) ? ST_OK : stuck();
    }
    (void)pthread_mutex_unlock(&sealed_world.lock);
    return st;
}

static void *stream_native(void *set, void *stream)
{
    (void)set;
    return stream;
}

static enum status event_create(void *set, int rank, void **event)
{
    (void)set;
    (void)rank;
    *event = mem_alloc(1, sizeof(struct event));
    return *event != NULL ? ST_OK : ST_NOMEM;
}

static void event_destroy(void *set, void *event)
{
    const struct event *e = event;

    (void)set;
    if (e != NULL && e->n_uses > 0) {
        sealed_fault("an event in use is destroyed");
    }
    mem_free(event);
}

static enum status record(void *set, void *stream, void *event)
{
    sealed_put(set, stream, &(struct work){.kind = RECORD, .u.place = {event, 0}});
    return ST_OK;
}

static enum status wait_for(void *set, void *stream, void *event)
{
    sealed_put(set, stream, &(struct work){.kind = WAIT, .u.place = {event, 0}});
    return ST_OK;
}

static enum status done(void *set, void *event, bool *out)
{
    const struct event *e = event;

    (void)pthread_mutex_lock(&sealed_world.lock);
    (void)sealed_run_any(set);
    *out = e->reached >= e->issued;
    (void)pthread_mutex_unlock(&sealed_world.lock);
    return ST_OK;
}

static enum status event_sync(void *set, void *event)
{
    const struct event *e = event;
    enum status st = ST_OK;
    size_t want;

    (void)pthread_mutex_lock(&sealed_world.lock);
    if (e->capture != NULL) {
        sealed_fault("a thread waits for an event of a capture");
    }
    want = e->issued;
    sealed_world.stops += e->reached < want;
    sealed_world.near += e->on != NULL && e->on->n_losses > 0 && e->on->n_losses == e->n_losses;
    while (st == ST_OK && e->reached < want) {
        st = sealed_run_any(set) ? ST_OK : stuck();
    }
    (void)pthread_mutex_unlock(&sealed_world.lock);
    return st;
}

/* Of events that a thread has seen done. */
static enum status elapsed(void *set, void *from, void *to, double *s)
{
    (void)set;
    (void)pthread_mutex_lock(&sealed_world.lock);
    *s = ((const struct event *)to)->reached_s - ((const struct event *)from)->reached_s;
    (void)pthread_mutex_unlock(&sealed_world.lock);
    return ST_OK;
}

static enum status copy(void *set, void *stream, void *dst, const void *src, size_t bytes)
{
    sealed_put(set, stream, &(struct work){.kind = COPY, .u.copy = {dst, src, bytes}});
    return ST_OK;
}

static enum status clear(void *set, void *stream, void *p, size_t bytes)
{
    sealed_put(set, stream, &(struct work){.kind = CLEAR, .u.copy = {p, NULL, bytes}});
    return ST_OK;
}

static enum status store(void *set, void *stream, const struct device_store *s)
{
    sealed_put(set, stream, &(struct work){.kind = STORE, .u.store = *s});
    return ST_OK;
}

static enum status vote(void *set, void *stream, const struct device_vote *v)
{
    sealed_put(set, stream, &(struct work){.kind = VOTE, .u.vote = *v});
    return ST_OK;
}

static enum status convert(void *set, void *stream, const struct device_convert *c)
{
    sealed_put(set, stream, &(struct work){.kind = CONVERT, .u.convert = *c});
    return ST_OK;
}

static enum status is_finite(void *set, void *stream, const struct device_finite *f)
{
    sealed_put(set, stream, &(struct work){.kind = FINITE, .u.finite = *f});
    return ST_OK;
}

static enum status fold(void *set, void *stream, const struct device_fold *f)
{
    sealed_put(set, stream, &(struct work){.kind = FOLD, .u.fold = *f});
    return ST_OK;
}

static enum status sgd(void *set, void *stream, const struct device_sgd *s)
{
    sealed_put(set, stream, &(struct work){.kind = SGD, .u.sgd = *s});
    return ST_OK;
}

const struct device_ops *sealed_device(void)
{
    static struct device_ops table = {
        .type = "sealed",
        .version = version,
        .count = count,
        .open = open_set,
        .close = close_set,
        .use = use,
        .reaches = reaches,
        .alloc = alloc,
        .release = release,
        .alloc_host = alloc_host,
        .release_host = release_host,
        .stream_create = stream_create,
        .urgent_stream_create = urgent_stream_create,
        .stream_destroy = stream_destroy,
        .stream_sync = stream_sync,
        .stream_native = stream_native,
        .event_create = event_create,
        .timer_create = event_create,
        .event_destroy = event_destroy,
        .record = record,
        .wait = wait_for,
        .done = done,
        .event_sync = event_sync,
        .elapsed = elapsed,
        .copy = copy,
        .clear = clear,
        .store = store,
        .vote = vote,
        .convert = convert,
        .finite = is_finite,
        .fold = fold,
        .sgd = sgd,
    };

    table.align = sealed_world.align;
    sealed_add_graphs(&table);
    return &table;
}
