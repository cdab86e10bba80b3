#include "recorder_internal.h"

#include <assert.h>
#include <stdlib.h>

struct recorder *recorder_create(int n_ranks, const int *device_of, bool peers)
{
    struct recorder *r = calloc(1, sizeof *r);

    assert(r != NULL && n_ranks <= RECORDER_MAX_RANKS);
    r->n_ranks = n_ranks;
    r->peers = peers;
    for (int i = 0; i < n_ranks; i++) {
        r->device_of[i] = device_of[i];
    }
    return r;
}

void recorder_destroy(struct recorder *r)
{
    for (int i = 0; i < r->n_streams; i++) {
        free(r->streams[i].items);
    }
    for (int i = 0; i < r->n_blocks; i++) {
        free(r->blocks[i].p);
    }
    free(r->items);
    free(r);
}

size_t recorder_faults(const struct recorder *r)
{
    return r->faults;
}

int recorder_device(const struct recorder *r)
{
    return r->current;
}

size_t recorder_n_streams(const struct recorder *r, int urgency)
{
    size_t n = 0;

    for (int i = 0; i < r->n_streams; i++) {
        n += r->streams[i].live && r->streams[i].urgency == urgency;
    }
    return n;
}

size_t recorder_n_commands(const struct recorder *r)
{
    return (size_t)r->n;
}

/* --- Writing down --- */

static struct item *push(struct item **items, int *n, int *cap)
{
    if (*n == *cap) {
        *cap = 2 * *cap + 64;
        *items = realloc(*items, (size_t)*cap * sizeof **items);
        assert(*items != NULL);
    }
    return &(*items)[(*n)++];
}

void recorder_append(struct recorder *r, const struct item *it)
{
    struct stream *s = &r->streams[it->stream];
    struct item *added = push(&r->items, &r->n, &r->cap);

    *added = *it;
    added->prev = s->n > 0 ? s->items[s->n - 1] : NONE;
    if (s->n == s->cap) {
        s->cap = 2 * s->cap + 16;
        s->items = realloc(s->items, (size_t)s->cap * sizeof *s->items);
        assert(s->items != NULL);
    }
    s->items[s->n++] = r->n - 1;
}

static int previous_on_stream(const struct item *items, int i)
{
    for (int k = i - 1; k >= 0; k--) {
        if (items[k].stream == items[i].stream) {
            return k;
        }
    }
    return NONE;
}

int recorder_add(struct recorder *r, struct item it)
{
    if (r->streams[it.stream].captured) {
        int i = r->capture->n;
        *push(&r->capture->items, &r->capture->n, &r->capture->cap) = it;
        r->capture->items[i].prev = previous_on_stream(r->capture->items, i);
        return i;
    }
    recorder_append(r, &it);
    return r->n - 1;
}

static void *handle(int i)
{
    return (void *)(uintptr_t)(i + 1);
}

int recorder_new_stream(struct recorder *r, int rank)
{
    assert(r->n_streams < MAX_STREAMS);
    r->streams[r->n_streams] = (struct stream){.rank = rank, .live = true};
    return r->n_streams++;
}

/* --- The table --- */

static const char *version(void)
{
    return "written down";
}

static enum status count(int *n)
{
    *n = RECORDER_MAX_RANKS;
    return ST_OK;
}

static enum status use(void *set, int rank)
{
    struct recorder *r = set;

    r->current = r->device_of[rank];
    return ST_OK;
}

static bool reaches(void *set, int rank, int peer)
{
    const struct recorder *r = set;

    return r->peers || r->device_of[rank] == r->device_of[peer];
}

static void *block(struct recorder *r, int device, size_t bytes)
{
    struct block *b = &r->blocks[r->n_blocks++];

    assert(r->n_blocks <= MAX_BLOCKS);
    *b = (struct block){aligned_alloc(64, (bytes + 127) / 64 * 64), bytes, device};
    assert(b->p != NULL);
    return b->p;
}

static enum status alloc(void *set, int rank, size_t bytes, void **p)
{
    struct recorder *r = set;

    *p = block(r, r->device_of[rank], bytes);
    return ST_OK;
}

/* Memory stays until the end, for it may still be played. */
static void release(void *set, int rank, void *p)
{
    (void)set;
    (void)rank;
    (void)p;
}

static enum status alloc_host(void *set, size_t bytes, void **p)
{
    *p = block(set, HOST, bytes);
    return ST_OK;
}

static void release_host(void *set, void *p)
{
    (void)set;
    (void)p;
}

static enum status stream_create(void *set, int rank, void **stream)
{
    *stream = handle(recorder_new_stream(set, rank));
    return ST_OK;
}

static enum status urgent_stream_create(void *set, int rank, int urgency, void **stream)
{
    struct recorder *r = set;

    TRY(stream_create(set, rank, stream));
    fault(r, urgency < 1 || urgency > DEVICE_URGENCIES);
    r->streams[number(*stream)].urgency = urgency;
    return ST_OK;
}

static void stream_destroy(void *set, void *stream)
{
    struct recorder *r = set;

    if (stream != NULL) {
        fault(r, !r->streams[number(stream)].live);
        r->streams[number(stream)].live = false;
    }
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

static enum status event_create(void *set, int rank, void **event)
{
    struct recorder *r = set;

    assert(r->n_events < MAX_EVENTS);
    r->events[r->n_events] = (struct event){.rank = rank, .record = NONE, .live = true};
    *event = handle(r->n_events++);
    return ST_OK;
}

static void event_destroy(void *set, void *event)
{
    struct recorder *r = set;

    if (event != NULL) {
        fault(r, !r->events[number(event)].live);
        r->events[number(event)].live = false;
    }
}

static enum status record(void *set, void *stream, void *event)
{
    struct recorder *r = set;
    struct stream *s = &r->streams[number(stream)];
    struct event *e = &r->events[number(event)];

    fault(r, !s->live || !e->live || r->device_of[s->rank] != r->device_of[e->rank]);
    e->record = recorder_add(r, (struct item){.kind = RECORD, .stream = number(stream)});
    e->in_graph = s->captured;
    return ST_OK;
}

static enum status wait(void *set, void *stream, void *event)
{
    struct recorder *r = set;
    struct stream *s = &r->streams[number(stream)];
    const struct event *e = &r->events[number(event)];

    fault(r, !s->live || !e->live);
    fault(r, e->in_graph && r->capture == NULL); /* captured events are of no use outside */
    fault(r, s->captured && !e->in_graph);       /* nor are others inside */
    s->captured = s->captured || (e->in_graph && r->capture != NULL);
    (void)recorder_add(r,
                       (struct item){.kind = WAIT, .stream = number(stream), .bound = e->record});
    return ST_OK;
}

static enum status done(void *set, void *event, bool *out)
{
    (void)set;
    (void)event;
    *out = true;
    return ST_OK;
}

static enum status event_sync(void *set, void *event)
{
    (void)set;
    (void)event;
    return ST_OK;
}

static int device_at(const struct recorder *r, const void *p)
{
    for (int i = 0; i < r->n_blocks; i++) {
        const struct block *b = &r->blocks[i];
        if ((const char *)p >= b->p && (const char *)p < b->p + b->bytes + 1) {
            return b->device;
        }
    }
    return HOST;
}

static enum status copy(void *set, void *stream, void *dst, const void *src, size_t bytes)
{
    struct recorder *r = set;
    struct item it = {.kind = COPY, .stream = number(stream)};

    fault(r, !r->streams[it.stream].live);
    r->current = r->device_of[r->streams[it.stream].rank];
    it.u.copy.dst = dst;
    it.u.copy.src = src;
    it.u.copy.bytes = bytes;
    (void)recorder_add(r, it);
    return ST_OK;
}

static void check_reach(struct recorder *r, int stream, const void *p)
{
    int device = device_at(r, p), on = r->device_of[r->streams[stream].rank];

    fault(r, device != HOST && device != on && !r->peers);
}

static enum status fold(void *set, void *stream, const struct device_fold *f)
{
    struct recorder *r = set;
    struct item it = {.kind = FOLD, .stream = number(stream)};

    fault(r, !r->streams[it.stream].live);
    r->current = r->device_of[r->streams[it.stream].rank];
    for (int k = 0; k < f->n_src; k++) {
        check_reach(r, it.stream, f->src[k]);
    }
    for (int k = 0; k < f->n_dst; k++) {
        check_reach(r, it.stream, f->dst[k]);
    }
    it.u.fold = *f;
    (void)recorder_add(r, it);
    return ST_OK;
}

static enum status sgd(void *set, void *stream, const struct device_sgd *s)
{
    (void)stream;
    (void)s;
    fault(set, true); /* the engine has no business with it */
    return ST_OK;
}

void recorder_call(struct recorder *r, void *stream, void (*fn)(void *ctx, int a, int b), void *ctx,
                   int a, int b)
{
    struct item it = {.kind = CALL, .stream = number(stream)};

    it.u.call.fn = fn;
    it.u.call.ctx = ctx;
    it.u.call.a = a;
    it.u.call.b = b;
    (void)recorder_add(r, it);
}

struct device_ops recorder_ops(bool graphs)
{
    struct device_ops ops = {
        .type = "recorder",
        .version = version,
        .count = count,
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
        .wait = wait,
        .done = done,
        .event_sync = event_sync,
        .copy = copy,
        .fold = fold,
        .sgd = sgd,
    };

    if (graphs) {
        recorder_add_graphs(&ops);
    }
    return ops;
}
