#include "recorder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "device/kernels/kernel_fold.h"

enum {
    MAX_BLOCKS = 4096,
    MAX_STREAMS = 16384,
    MAX_EVENTS = 4096,
    HOST = -1,
    NONE = -1
};

enum kind {
    WAIT,
    RECORD,
    COPY,
    FOLD,
    CALL
};

struct item {
    enum kind kind;
    int stream;
    int prev;  /* on the stream; NONE: the first */
    int bound; /* wait: the record; NONE: no effect */
    bool off;  /* left out */
    bool done;
    char *between; /* started, not finished: what it will write */
    union {
        struct {
            void *dst;
            const void *src;
            size_t bytes;
        } copy;
        struct device_fold fold;
        struct {
            void (*fn)(void *ctx, int a, int b);
            void *ctx;
            int a, b;
        } call;
    } u;
};

struct block {
    char *p;
    size_t bytes;
    int device;
};

struct stream {
    int rank, n;
    int *items, cap; /* of the recorder */
    int head;        /* while playing */
    uint32_t speed;
    bool live, captured;
};

struct event {
    int rank, record; /* its last one */
    bool live, in_graph;
};

/* A capture: a list of its own, whose waits are bound within it. */
struct graph {
    struct item *items;
    int n, cap, origin;
};

struct recorder {
    int n_ranks, device_of[RECORDER_MAX_RANKS];
    bool peers;
    struct block blocks[MAX_BLOCKS];
    int n_blocks;
    struct stream streams[MAX_STREAMS];
    int n_streams;
    struct event events[MAX_EVENTS];
    int n_events;
    struct item *items;
    int n, cap;
    struct graph *capture;
    int current; /* device of the calling thread */
    size_t faults;
};

static void fault(struct recorder *r, bool wrong)
{
    r->faults += wrong;
}

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

static void append(struct recorder *r, const struct item *it)
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

/* To the capture if the stream has joined it. Returns its number there. */
static int add(struct recorder *r, struct item it)
{
    if (r->streams[it.stream].captured) {
        int i = r->capture->n;
        *push(&r->capture->items, &r->capture->n, &r->capture->cap) = it;
        r->capture->items[i].prev = previous_on_stream(r->capture->items, i);
        return i;
    }
    append(r, &it);
    return r->n - 1;
}

static int number(const void *handle)
{
    return (int)(uintptr_t)handle - 1;
}

static void *handle(int i)
{
    return (void *)(uintptr_t)(i + 1);
}

static int new_stream(struct recorder *r, int rank)
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
    *stream = handle(new_stream(set, rank));
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
    e->record = add(r, (struct item){.kind = RECORD, .stream = number(stream)});
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
    (void)add(r, (struct item){.kind = WAIT, .stream = number(stream), .bound = e->record});
    return ST_OK;
}

static enum status done(void *set, void *event, bool *out)
{
    (void)set;
    (void)event;
    *out = true;
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
    (void)add(r, it);
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
    (void)add(r, it);
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
    (void)add(r, it);
}

/* --- Captures --- */

static enum status capture_begin(void *set, void *stream)
{
    struct recorder *r = set;

    fault(r, r->capture != NULL);
    r->capture = calloc(1, sizeof *r->capture);
    assert(r->capture != NULL);
    r->capture->origin = number(stream);
    r->streams[number(stream)].captured = true;
    return ST_OK;
}

/* Mark in `before` item i and everything that it comes after. */
static void mark_before(const struct item *items, int i, bool *before)
{
    while (i != NONE && !before[i]) {
        before[i] = true;
        if (items[i].kind == WAIT && !items[i].off && items[i].bound != NONE) {
            mark_before(items, items[i].bound, before);
        }
        i = items[i].prev;
    }
}

static enum status capture_end(void *set, void *stream, void **graph)
{
    struct recorder *r = set;
    struct graph *g = r->capture;
    bool *before;
    int last = NONE;

    fault(r, g == NULL || g->origin != number(stream));
    before = calloc((size_t)g->n + 1, sizeof *before);
    for (int i = 0; i < g->n; i++) {
        last = g->items[i].stream == g->origin ? i : last;
    }
    mark_before(g->items, last, before);
    for (int i = 0; i < g->n; i++) {
        fault(r, !before[i] && g->items[i].kind != RECORD); /* it was not joined */
    }
    free(before);
    for (int i = 0; i < r->n_streams; i++) {
        r->streams[i].captured = false;
    }
    r->capture = NULL;
    *graph = g;
    return ST_OK;
}

/* Each stream of the capture, but the first, becomes a new one that starts from the launch. */
static enum status graph_launch(void *set, void *graph, void *stream)
{
    struct recorder *r = set;
    const struct graph *g = graph;
    int first = r->n_streams, *map = calloc(MAX_STREAMS, sizeof *map);
    int *at = calloc((size_t)g->n + 1, sizeof *at), start = r->n;

    append(r, &(struct item){.kind = RECORD, .stream = number(stream)});
    map[g->origin] = number(stream) + 1;
    for (int i = 0; i < g->n; i++) {
        struct item it = g->items[i];
        if (map[it.stream] == 0) {
            map[it.stream] = new_stream(r, r->streams[it.stream].rank) + 1;
            append(r, &(struct item){.kind = WAIT, .stream = map[it.stream] - 1, .bound = start});
        }
        it.stream = map[it.stream] - 1;
        it.bound = it.kind == WAIT && it.bound != NONE ? at[it.bound] : it.bound;
        append(r, &it);
        at[i] = r->n - 1;
    }
    fault(r, r->n_streams - first > MAX_STREAMS / 8);
    free(map);
    free(at);
    return ST_OK;
}

static void graph_destroy(void *set, void *graph)
{
    struct graph *g = graph;

    (void)set;
    if (g != NULL) {
        free(g->items);
        free(g);
    }
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
        .stream_destroy = stream_destroy,
        .stream_sync = stream_sync,
        .stream_native = stream_native,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .record = record,
        .wait = wait,
        .done = done,
        .copy = copy,
        .fold = fold,
        .sgd = sgd,
    };

    if (graphs) {
        ops.capture_begin = capture_begin;
        ops.capture_end = capture_end;
        ops.graph_launch = graph_launch;
        ops.graph_destroy = graph_destroy;
    }
    return ops;
}

/* --- Playing --- */

/*
 * Commands take time: a copy or a fold reads all its sources when it starts and writes its
 * destinations when it finishes, and what other streams do lies before, between or behind.
 */
static void start(struct item *it)
{
    static const struct kernel_place everything = {0, 1, 0, 1};
    struct device_fold f = it->u.fold;

    if (it->kind == COPY) {
        it->between = malloc(it->u.copy.bytes + 1);
        memcpy(it->between, it->u.copy.src, it->u.copy.bytes);
    } else if (it->kind == FOLD) {
        it->between = malloc(f.n * kernel_fold_elem_bytes(f.dtype) + 1);
        f.dst[0] = it->between;
        f.n_dst = 1;
        kernel_fold(everything, &f, f.dtype, f.redop);
    }
}

static void finish(struct item *it)
{
    const struct device_fold *f = &it->u.fold;

    it->done = true;
    if (it->kind == COPY) {
        memcpy(it->u.copy.dst, it->between, it->u.copy.bytes);
    } else if (it->kind == FOLD) {
        for (int m = 0; m < f->n_dst; m++) {
            memcpy(f->dst[m], it->between, f->n * kernel_fold_elem_bytes(f->dtype));
        }
    } else if (it->kind == CALL) {
        it->u.call.fn(it->u.call.ctx, it->u.call.a, it->u.call.b);
    }
    free(it->between);
    it->between = NULL;
}

static void run(struct item *it)
{
    start(it);
    finish(it);
}

static void reset(struct recorder *r)
{
    for (int i = 0; i < r->n_blocks; i++) {
        memset(r->blocks[i].p, 0x4b, r->blocks[i].bytes); /* as floats: 1.3e7 */
    }
    for (int i = 0; i < r->n; i++) {
        r->items[i].done = false;
    }
    for (int i = 0; i < r->n_streams; i++) {
        r->streams[i].head = 0;
    }
}

static bool may_run(const struct recorder *r, const struct stream *s)
{
    const struct item *it;

    if (s->head == s->n) {
        return false;
    }
    it = &r->items[s->items[s->head]];
    return it->kind != WAIT || it->off || it->bound == NONE || r->items[it->bound].done;
}

/* A stream that may run its next command. All alike: the first behind a random place; sluggish: the
 * fastest one. */
static int pick(const struct recorder *r, uint64_t random, bool sluggish)
{
    int start = (int)(random % (uint64_t)r->n_streams), best = NONE;

    for (int k = 0; k < r->n_streams; k++) {
        int i = (start + k) % r->n_streams;
        if (may_run(r, &r->streams[i]) &&
            (best == NONE || r->streams[i].speed > r->streams[best].speed)) {
            best = i;
            if (!sluggish) {
                break;
            }
        }
    }
    return best;
}

void recorder_play(struct recorder *r, uint64_t seed, bool sluggish)
{
    struct rng speeds = rng_make(seed, RNG_TEST, 0), starts = rng_make(seed, RNG_TEST, 1);

    reset(r);
    for (int i = 0; i < r->n_streams; i++) {
        r->streams[i].speed = rng_u32(&speeds, (uint64_t)i);
    }
    for (uint64_t left = (uint64_t)r->n, step = 0; left > 0; step++) {
        int i = pick(r, rng_u64(&starts, step), sluggish);
        assert(i != NONE && "the streams wait for each other");
        struct item *it = &r->items[r->streams[i].items[r->streams[i].head]];
        if (it->between == NULL && (it->kind == COPY || it->kind == FOLD)) {
            start(it);
        } else {
            finish(it);
            r->streams[i].head++;
            left--;
        }
    }
}

static int nth_wait(const struct recorder *r, size_t w)
{
    for (int i = 0; i < r->n; i++) {
        if (r->items[i].kind == WAIT && r->items[i].bound != NONE && w-- == 0) {
            return i;
        }
    }
    return NONE;
}

size_t recorder_n_waits(const struct recorder *r)
{
    size_t n = 0;

    while (nth_wait(r, n) != NONE) {
        n++;
    }
    return n;
}

static bool is_work(const struct item *it)
{
    return it->kind != WAIT && it->kind != RECORD;
}

/* Mark in `after` item i and everything that comes after it. */
static void mark_after(const struct recorder *r, int i, bool *after)
{
    after[i] = true;
    for (int k = i + 1; k < r->n; k++) { /* the order of issue is a legal one */
        const struct item *it = &r->items[k];
        after[k] = (it->prev != NONE && after[it->prev]) ||
                   (it->kind == WAIT && !it->off && it->bound != NONE && after[it->bound]);
    }
}

static void run_marked(struct recorder *r, const bool *mark, bool value)
{
    for (int i = 0; i < r->n; i++) {
        if (mark[i] == value && !r->items[i].done && r->items[i].between == NULL) {
            run(&r->items[i]);
        }
    }
}

/* Item `target` starts as early as possible: after what it must follow, before all else; and
 * finishes at once, or as late as possible: after all that need not follow it. */
static void play_early(struct recorder *r, int target, bool finish_late)
{
    bool *before = calloc((size_t)r->n, sizeof *before),
         *after = calloc((size_t)r->n, sizeof *after);

    reset(r);
    mark_before(r->items, target, before);
    mark_after(r, target, after);
    before[target] = false;
    run_marked(r, before, true);
    start(&r->items[target]);
    if (finish_late && r->items[target].between != NULL) {
        after[target] = true;
        run_marked(r, after, false);
    }
    finish(&r->items[target]);
    run_marked(r, after, false);
    run_marked(r, after, true);
    free(before);
    free(after);
}

bool recorder_play_without(struct recorder *r, size_t w, bool (*check)(void *ctx), void *ctx)
{
    int wait_item = nth_wait(r, w);
    bool *behind = calloc((size_t)r->n, sizeof *behind), found = false;

    mark_after(r, wait_item, behind);
    r->items[wait_item].off = true;
    for (int i = wait_item + 1; i < r->n && !found; i++) {
        for (int late = 0; behind[i] && is_work(&r->items[i]) && late < 2 && !found; late++) {
            play_early(r, i, late == 1);
            found = check(ctx);
        }
    }
    r->items[wait_item].off = false;
    free(behind);
    return found;
}
