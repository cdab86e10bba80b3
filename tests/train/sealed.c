#include "sealed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/kernels/kernel_convert.h"
#include "device/kernels/kernel_finite.h"
#include "device/kernels/kernel_fold.h"
#include "device/kernels/kernel_sgd.h"

enum {
    ALIGN = 256,
    MAX_STREAMS = 4096
};
static const size_t SPACE_BYTES = (size_t)1 << 32;

enum kind {
    COPY,
    CLEAR,
    CONVERT,
    FINITE,
    FOLD,
    SGD,
    RECORD,
    WAIT,
    CALL
};

struct event {
    size_t issued, reached; /* records, counted */
    size_t n_uses;          /* queued records and waits */
};

struct call {
    enum status (*fn)(void *op, const struct op_io *io);
    void *op;
    struct op_io io;
    bool is_loss;
    /* or a sum of gradients */
    const struct value_desc *v;
    const void *y, *a, *b;
    void *g;
    void *lib;
};

struct work {
    enum kind kind;
    struct work *next;
    union {
        struct {
            void *dst;
            const void *src;
            size_t bytes;
        } copy;
        struct device_convert convert;
        struct device_finite finite;
        struct device_fold fold;
        struct device_sgd sgd;
        struct {
            struct event *event;
            size_t number;
        } place;
        struct call call;
    } u;
};

struct stream {
    struct work *first, *last;
    size_t n_queued;
    int slot;
};

struct set {
    struct stream *streams[MAX_STREAMS];
    size_t live; /* allocations */
};

/* One world for all sets. */
static struct {
    pthread_mutex_t lock;
    char *sealed, *open; /* the same memory, twice: for the program, and for us */
    size_t used;
    struct rng rng;
    uint64_t drawn;
    size_t align;
    size_t faults, stops, waits, drop;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER, .align = 64};

static const struct nn_ops *host_ops(void)
{
    return nn_ops_find("cpu");
}

static void fault(const char *what)
{
    fprintf(stderr, "sealed: %s\n", what);
    world.faults++;
}

/* Where memory really is. */
static void *opened(const void *p)
{
    const char *at = p;

    return world.sealed != NULL && at >= world.sealed && at < world.sealed + SPACE_BYTES
               ? world.open + (at - world.sealed)
               : (void *)(uintptr_t)p;
}

/* --- running what was put on streams --- */

static void run_call(const struct call *c)
{
    struct op_io io = c->io;

    host_ops()->attach(c->lib);
    if (c->fn == NULL) {
        host_ops()->gradient(c->lib, c->v, io.n, opened(c->y), opened(c->a), opened(c->b),
                             opened(c->g));
        return;
    }
    for (int k = 0; k < LAYER_MAX_INPUTS; k++) {
        io.x[k] = opened(io.x[k]);
        io.dx[k] = opened(io.dx[k]);
    }
    for (int k = 0; k < LAYER_MAX_PARAMS; k++) {
        io.w[k] = opened(io.w[k]);
        io.dw[k] = opened(io.dw[k]);
    }
    io.y = opened(io.y);
    io.dy[0] = opened(io.dy[0]);
    io.dy[1] = opened(io.dy[1]);
    io.kept = opened(io.kept);
    io.scratch = opened(io.scratch);
    io.state = opened(io.state);
    io.labels = opened(io.labels);
    if (c->is_loss) {
        *io.result = (struct graph_result){0, 0, 0, 0};
    }
    if (c->fn(c->op, &io) != ST_OK) {
        fault("an operation failed");
    }
}

static void run_fold(const struct device_fold *fold)
{
    const struct kernel_place everything = {0, 1, 0, 1};
    struct device_fold f = *fold;

    for (int k = 0; k < f.n_src; k++) {
        f.src[k] = opened(f.src[k]);
    }
    for (int k = 0; k < f.n_dst; k++) {
        f.dst[k] = opened(f.dst[k]);
    }
    kernel_fold(everything, &f, f.dtype, f.redop);
}

static void run_sgd(const struct device_sgd *sgd)
{
    const struct kernel_place everything = {0, 1, 0, 1};
    struct device_sgd s = *sgd;

    s.w = opened(s.w);
    s.v = opened(s.v);
    s.g = opened(s.g);
    s.ranges = opened(s.ranges);
    kernel_sgd(everything, &s);
}

static void run_finite(const struct device_finite *finite)
{
    const struct kernel_place everything = {0, 1, 0, 1};
    struct device_finite f = *finite;

    f.x = opened(f.x);
    f.flag = opened(f.flag);
    kernel_finite(everything, &f);
}

static void run_convert(const struct device_convert *convert)
{
    const struct kernel_place everything = {0, 1, 0, 1};
    struct device_convert c = *convert;

    c.src = opened(c.src);
    c.dst = opened(c.dst);
    kernel_convert(everything, &c);
}

static bool can_run(const struct work *w)
{
    return w->kind != WAIT || w->u.place.event->reached >= w->u.place.number;
}

static void run_first(struct stream *s)
{
    struct work *w = s->first;

    s->first = w->next;
    s->last = s->first == NULL ? NULL : s->last;
    s->n_queued--;
    switch (w->kind) {
    case COPY:
        memmove(opened(w->u.copy.dst), opened(w->u.copy.src), w->u.copy.bytes);
        break;
    case CLEAR:
        memset(opened(w->u.copy.dst), 0, w->u.copy.bytes);
        break;
    case CONVERT:
        run_convert(&w->u.convert);
        break;
    case FINITE:
        run_finite(&w->u.finite);
        break;
    case FOLD:
        run_fold(&w->u.fold);
        break;
    case SGD:
        run_sgd(&w->u.sgd);
        break;
    case RECORD:
        w->u.place.event->reached = w->u.place.number;
        w->u.place.event->n_uses--;
        break;
    case WAIT:
        w->u.place.event->n_uses--;
        break;
    case CALL:
        run_call(&w->u.call);
        break;
    }
    free(w);
}

static uint32_t draw(void)
{
    return rng_u32(&world.rng, world.drawn++);
}

/* Run something of the set that can be run; false if nothing can. */
static bool run_any(struct set *set)
{
    struct stream *able[MAX_STREAMS];
    size_t n = 0;

    for (int i = 0; i < MAX_STREAMS; i++) {
        struct stream *s = set->streams[i];
        if (s != NULL && s->first != NULL && can_run(s->first)) {
            able[n++] = s;
        }
    }
    if (n == 0) {
        return false;
    }
    run_first(able[draw() % n]);
    return true;
}

static enum status stuck(void)
{
    fault("nothing can run, and a thread waits");
    return ST_INTERNAL;
}

/* --- putting it there --- */

/* Now and then a device is fast. */
static void put(struct set *set, struct stream *s, const struct work *w)
{
    struct work *copy = malloc(sizeof *copy);

    (void)pthread_mutex_lock(&world.lock);
    *copy = *w;
    copy->next = NULL;
    if (w->kind == RECORD) {
        copy->u.place.number = ++w->u.place.event->issued;
        w->u.place.event->n_uses++;
    }
    if (w->kind == WAIT) {
        copy->u.place.number = ++world.waits == world.drop ? 0 : w->u.place.event->issued;
        w->u.place.event->n_uses++;
    }
    if (s->last != NULL) {
        s->last->next = copy;
    } else {
        s->first = copy;
    }
    s->last = copy;
    s->n_queued++;
    for (uint32_t k = draw() % 16; k < 3; k++) {
        (void)run_any(set);
    }
    (void)pthread_mutex_unlock(&world.lock);
}

/* --- the table --- */

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

    if (f < 0 || ftruncate(f, (off_t)SPACE_BYTES) != 0) {
        return ST_NOMEM;
    }
    world.sealed = mmap(NULL, SPACE_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, f, 0);
    world.open = mmap(NULL, SPACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, f, 0);
    (void)close(f);
    return world.sealed != MAP_FAILED && world.open != MAP_FAILED ? ST_OK : ST_NOMEM;
}

static enum status open_set(const int *devices, int n_ranks, void **out)
{
    struct set *s;

    for (int r = 0; r < n_ranks; r++) {
        if (devices[r] < 0 || devices[r] >= SEALED_DEVICES) {
            return ST_INPUT;
        }
    }
    if (world.sealed == NULL && map_world() != ST_OK) {
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
        fault("memory is left");
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
    (void)pthread_mutex_lock(&world.lock);
    if (world.used + size > SPACE_BYTES) {
        (void)pthread_mutex_unlock(&world.lock);
        return ST_NOMEM;
    }
    *p = world.sealed + world.used;
    world.used += size;
    s->live++;
    (void)pthread_mutex_unlock(&world.lock);
    return ST_OK;
}

static void release(void *set, int rank, void *p)
{
    struct set *s = set;

    (void)rank;
    if (p == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&world.lock);
    if (!all_idle(s)) {
        fault("memory is released while streams have work");
    }
    s->live--;
    (void)pthread_mutex_unlock(&world.lock);
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

static enum status stream_create(void *set, int rank, void **out)
{
    struct set *s = set;
    struct stream *made = mem_alloc(1, sizeof *made);

    (void)rank;
    if (made == NULL) {
        return ST_NOMEM;
    }
    (void)pthread_mutex_lock(&world.lock);
    while (s->streams[made->slot] != NULL) {
        made->slot++;
    }
    s->streams[made->slot] = made;
    (void)pthread_mutex_unlock(&world.lock);
    *out = made;
    return ST_OK;
}

static void stream_destroy(void *set, void *stream)
{
    struct stream *s = stream;

    if (s == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&world.lock);
    if (s->first != NULL) {
        fault("a stream with work is destroyed");
    }
    ((struct set *)set)->streams[s->slot] = NULL;
    (void)pthread_mutex_unlock(&world.lock);
    mem_free(s);
}

static enum status stream_sync(void *set, void *stream)
{
    struct stream *s = stream;
    enum status st = ST_OK;

    (void)pthread_mutex_lock(&world.lock);
    world.stops += s->first != NULL;
    while (st == ST_OK && s->first != NULL) {
        st = run_any(set) ? ST_OK : stuck();
    }
    (void)pthread_mutex_unlock(&world.lock);
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
        fault("an event in use is destroyed");
    }
    mem_free(event);
}

static enum status record(void *set, void *stream, void *event)
{
    put(set, stream, &(struct work){.kind = RECORD, .u.place = {event, 0}});
    return ST_OK;
}

static enum status wait_for(void *set, void *stream, void *event)
{
    put(set, stream, &(struct work){.kind = WAIT, .u.place = {event, 0}});
    return ST_OK;
}

static enum status done(void *set, void *event, bool *out)
{
    const struct event *e = event;

    (void)pthread_mutex_lock(&world.lock);
    (void)run_any(set);
    *out = e->reached >= e->issued;
    (void)pthread_mutex_unlock(&world.lock);
    return ST_OK;
}

static enum status event_sync(void *set, void *event)
{
    const struct event *e = event;
    enum status st = ST_OK;
    size_t want;

    (void)pthread_mutex_lock(&world.lock);
    want = e->issued;
    world.stops += e->reached < want;
    while (st == ST_OK && e->reached < want) {
        st = run_any(set) ? ST_OK : stuck();
    }
    (void)pthread_mutex_unlock(&world.lock);
    return st;
}

static enum status copy(void *set, void *stream, void *dst, const void *src, size_t bytes)
{
    put(set, stream, &(struct work){.kind = COPY, .u.copy = {dst, src, bytes}});
    return ST_OK;
}

static enum status clear(void *set, void *stream, void *p, size_t bytes)
{
    put(set, stream, &(struct work){.kind = CLEAR, .u.copy = {p, NULL, bytes}});
    return ST_OK;
}

static enum status convert(void *set, void *stream, const struct device_convert *c)
{
    put(set, stream, &(struct work){.kind = CONVERT, .u.convert = *c});
    return ST_OK;
}

static enum status is_finite(void *set, void *stream, const struct device_finite *f)
{
    put(set, stream, &(struct work){.kind = FINITE, .u.finite = *f});
    return ST_OK;
}

static enum status fold(void *set, void *stream, const struct device_fold *f)
{
    put(set, stream, &(struct work){.kind = FOLD, .u.fold = *f});
    return ST_OK;
}

static enum status sgd(void *set, void *stream, const struct device_sgd *s)
{
    put(set, stream, &(struct work){.kind = SGD, .u.sgd = *s});
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
        .stream_destroy = stream_destroy,
        .stream_sync = stream_sync,
        .stream_native = stream_native,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .record = record,
        .wait = wait_for,
        .done = done,
        .event_sync = event_sync,
        .copy = copy,
        .clear = clear,
        .convert = convert,
        .finite = is_finite,
        .fold = fold,
        .sgd = sgd,
    };

    table.align = world.align;
    return &table;
}

void sealed_set_align(size_t bytes)
{
    world.align = bytes;
}

void sealed_seed(uint64_t seed)
{
    world.rng = rng_make(seed, RNG_TEST, 0);
    world.drawn = 0;
}

size_t sealed_faults(void)
{
    return world.faults;
}

size_t sealed_stops(void)
{
    return world.stops;
}

void sealed_drop_wait(size_t k)
{
    world.waits = 0;
    world.drop = k;
}

size_t sealed_n_waits(void)
{
    return world.waits;
}

/* --- the op library --- */

struct lib {
    void *od;
    struct device_place place;
};

struct op {
    const struct op_kind *kind;
    void *od;
    struct lib *lib;
    bool is_loss;
};

static enum status op_create(void *lib, const struct op_env *env, const struct op_node *node,
                             const struct value_desc *values, struct op_info *info, void **out)
{
    struct op *op = mem_alloc(1, sizeof *op);

    if (op == NULL) {
        return ST_NOMEM;
    }
    *out = op;
    op->kind = host_ops()->kinds[node->kind];
    op->lib = lib;
    op->is_loss = node->kind == LAYER_SOFTMAX_LOSS;
    return op->kind->create(op->lib->od, env, node, values, info, &op->od);
}

static void op_destroy(void *op)
{
    struct op *o = op;

    if (o != NULL) {
        o->kind->destroy(o->od);
        mem_free(o);
    }
}

static enum status op_put(const struct op *o, const struct op_io *io,
                          enum status (*fn)(void *op, const struct op_io *io), bool is_loss)
{
    struct work w = {
        .kind = CALL,
        .u.call = {.fn = fn, .op = o->od, .io = *io, .is_loss = is_loss, .lib = o->lib->od}};

    put(o->lib->place.set, o->lib->place.stream, &w);
    return ST_OK;
}

static enum status op_forward(void *op, const struct op_io *io)
{
    const struct op *o = op;

    return op_put(o, io, o->kind->forward, o->is_loss);
}

static enum status op_backward_weights(void *op, const struct op_io *io)
{
    const struct op *o = op;

    return op_put(o, io, o->kind->backward_weights, false);
}

static enum status op_backward(void *op, const struct op_io *io)
{
    const struct op *o = op;

    return op_put(o, io, o->kind->backward, false);
}

static size_t op_param_index(const void *op, int k, size_t i)
{
    const struct op *o = op;

    return o->kind->param_index == NULL ? i : o->kind->param_index(o->od, k, i);
}

static enum status lib_open(const struct op_env *env, void **out)
{
    struct lib *l = mem_alloc(1, sizeof *l);
    enum status st;

    if (l == NULL) {
        return ST_NOMEM;
    }
    l->place = *env->place;
    st = host_ops()->open(env, &l->od);
    if (st != ST_OK) {
        mem_free(l);
        return st;
    }
    *out = l;
    return ST_OK;
}

static void lib_close(void *lib)
{
    struct lib *l = lib;

    host_ops()->close(l->od);
    mem_free(l);
}

static enum status lib_arrange(void *lib, const struct op_env *env, const struct op_node *nodes,
                               int n_nodes, struct value_desc *values)
{
    return host_ops()->arrange(((struct lib *)lib)->od, env, nodes, n_nodes, values);
}

static void lib_gradient(void *lib, const struct value_desc *v, size_t n, const void *y,
                         const void *a, const void *b, void *g)
{
    const struct lib *l = lib;
    struct work w = {
        .kind = CALL,
        .u.call = {.v = v, .io = {.n = n}, .y = y, .a = a, .b = b, .g = g, .lib = l->od}};

    put(l->place.set, l->place.stream, &w);
}

static void lib_attach(void *lib)
{
    host_ops()->attach(((struct lib *)lib)->od); /* it is built for so many threads */
}

const struct nn_ops *sealed_ops(void)
{
    static const struct op_kind forward_only = {
        .create = op_create, .destroy = op_destroy, .forward = op_forward};
    static const struct op_kind whole = {.create = op_create,
                                         .destroy = op_destroy,
                                         .forward = op_forward,
                                         .backward = op_backward,
                                         .param_index = op_param_index};
    static const struct op_kind split = {.create = op_create,
                                         .destroy = op_destroy,
                                         .forward = op_forward,
                                         .backward_weights = op_backward_weights,
                                         .backward = op_backward,
                                         .param_index = op_param_index};
    static struct nn_ops table;

    table = (struct nn_ops){.name = "sealed",
                            .version = host_ops()->version,
                            .open = lib_open,
                            .close = lib_close,
                            .arrange = lib_arrange,
                            .gradient = lib_gradient,
                            .attach = lib_attach};
    for (int k = 0; k < LAYER_KINDS; k++) {
        const struct op_kind *od = host_ops()->kinds[k];
        table.kinds[k] = od == NULL                     ? NULL
                         : od->backward == NULL         ? &forward_only
                         : od->backward_weights != NULL ? &split
                                                        : &whole;
    }
    return &table;
}
