#include "train/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/trace_names.h"

enum {
    TEXT_BYTES = 64 << 10,
    LINE_BYTES = 1024, /* of an event without its name, or of a rank's names */
};

enum {
    THREAD_COMPUTE,
    THREAD_COMM,
    THREAD_DATA,
    N_THREADS
};

static const struct {
    const char *name, *category;
    int thread;
} kinds[TRACE_KINDS] = {
    {"forward", "compute", THREAD_COMPUTE},
    {"backward", "compute", THREAD_COMPUTE},
    {"post", "compute", THREAD_COMPUTE},
    {"update", "compute", THREAD_COMPUTE},
    {NULL, "comm", THREAD_COMM},
    {"broadcast", "comm", THREAD_COMM},
    {"wait for", "wait", THREAD_COMM},
    {"wait for ranks", "wait", THREAD_COMM},
    {"wait for a batch", "wait", THREAD_DATA},
};

struct event {
    enum trace_kind kind;
    size_t index;
    int64_t from_ns, to_ns;
};

/* A line to write: an event, or one end of a bucket's way. */
struct line {
    int64_t ns;
    size_t event;
    char phase; /* X complete, b begin, e end */
};

struct trace_rank {
    _Alignas(64) struct event *events; /* [max_events] */
    struct line *lines;                /* [2 max_events] */
    size_t n, dropped;
    char *text; /* [text_bytes] */
    size_t used;
};

struct trace {
    int file;
    char *path;
    uint64_t first, n_steps;
    size_t max_events, text_bytes;
    double zero_s;
    char *collective;
    struct trace_names layers, buckets;
    struct trace_rank *ranks;
    int n_ranks;
    atomic_bool failed;
};

/* --- text */

static void flush(struct trace *t, struct trace_rank *r)
{
    for (size_t done = 0; done < r->used && !atomic_load(&t->failed);) {
        ssize_t n = write(t->file, r->text + done, r->used - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            if (!atomic_exchange(&t->failed, true)) {
                log_error("cannot write the trace, %s: %s, make room", t->path, strerror(errno));
            }
        }
    }
    r->used = 0;
}

static void put(const struct trace *t, struct trace_rank *r, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static void put(const struct trace *t, struct trace_rank *r, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(r->text + r->used, t->text_bytes - r->used, fmt, args);
    va_end(args);
    r->used += n > 0 ? (size_t)n : 0;
}

/* Only whole lines are written, so that those of several ranks do not mix. */
static void end_line(struct trace *t, struct trace_rank *r)
{
    if (r->used >= TEXT_BYTES) {
        flush(t, r);
    }
}

/* --- making */

static enum status open_file(struct trace *t)
{
    t->file = open(t->path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (t->file < 0) {
        return log_fail(ST_INPUT, "cannot make the trace, %s: %s, [log] trace, give another place",
                        t->path, strerror(errno));
    }
    return ST_OK;
}

static void write_head(struct trace *t)
{
    static const char *const threads[N_THREADS] = {"compute", "comm", "data"};

    for (int r = 0; r < t->n_ranks; r++) {
        put(t, &t->ranks[0],
            "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}",
            r == 0 ? "[\n" : ",\n", r, r);
        for (int k = 0; k < N_THREADS; k++) {
            put(t, &t->ranks[0],
                ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{"
                "\"name\":"
                "\"%s\"}}",
                r, k, threads[k]);
        }
        end_line(t, &t->ranks[0]);
    }
    flush(t, &t->ranks[0]);
}

static size_t room_for(size_t longest)
{
    return TEXT_BYTES + 2 * (longest + LINE_BYTES);
}

static enum status make_ranks(struct trace *t, size_t longest)
{
    t->text_bytes = room_for(longest);
    t->ranks = mem_alloc((size_t)t->n_ranks, sizeof *t->ranks);
    if (t->ranks == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < t->n_ranks; r++) {
        struct trace_rank *k = &t->ranks[r];
        k->events = mem_alloc(t->max_events, sizeof *k->events);
        k->lines = mem_alloc(2 * t->max_events, sizeof *k->lines);
        k->text = mem_alloc(t->text_bytes, 1);
        if (k->events == NULL || k->lines == NULL || k->text == NULL) {
            return ST_NOMEM;
        }
    }
    return ST_OK;
}

static enum status fill(struct trace *t, const struct trace_args *a)
{
    size_t longest;

    t->path = mem_strdup(a->path);
    t->collective = mem_strdup(a->collective);
    if (t->path == NULL || t->collective == NULL) {
        return ST_NOMEM;
    }
    TRY(trace_names_init(&t->layers, a->layers, a->n_layers));
    TRY(trace_names_init(&t->buckets, a->buckets, a->n_buckets));
    longest = t->layers.longest > t->buckets.longest ? t->layers.longest : t->buckets.longest;
    TRY(make_ranks(t, longest));
    TRY(open_file(t));
    write_head(t);
    return atomic_load(&t->failed) ? ST_IO : ST_OK;
}

enum status trace_create(const struct trace_args *args, struct trace **out)
{
    struct trace *t = mem_alloc(1, sizeof *t);
    enum status st;

    if (t == NULL) {
        return ST_NOMEM;
    }
    t->file = -1;
    t->n_ranks = args->n_ranks;
    t->first = args->first;
    t->n_steps = args->n_steps;
    t->max_events = args->max_events;
    t->zero_s = clock_now_s();
    atomic_init(&t->failed, false);
    st = fill(t, args);
    if (st != ST_OK) {
        trace_destroy(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

/* Longer names take longer lines. */
static enum status make_room(struct trace *t, size_t longest)
{
    for (int r = 0; r < t->n_ranks && room_for(longest) > t->text_bytes; r++) {
        struct trace_rank *k = &t->ranks[r];
        char *text = mem_grow(k->text, t->text_bytes, room_for(longest), 1);
        if (text == NULL) {
            return ST_NOMEM;
        }
        k->text = text;
    }
    t->text_bytes = room_for(longest) > t->text_bytes ? room_for(longest) : t->text_bytes;
    return ST_OK;
}

enum status trace_rename(struct trace *t, const char *const *buckets, size_t n_buckets)
{
    struct trace_names names = {.n = 0};
    enum status st = trace_names_init(&names, buckets, n_buckets);

    if (st == ST_OK) {
        st = make_room(t, names.longest);
    }
    if (st != ST_OK) {
        trace_names_fini(&names);
        return st;
    }
    trace_names_fini(&t->buckets);
    t->buckets = names;
    return ST_OK;
}

enum status trace_close(struct trace *t)
{
    if (t == NULL || t->file < 0) {
        return ST_OK;
    }
    for (int r = 0; r < t->n_ranks; r++) {
        if (t->ranks[r].dropped > 0) {
            log_warn("rank %d had %zu events too many, they are not in the trace %s", r,
                     t->ranks[r].dropped, t->path);
        }
    }
    put(t, &t->ranks[0], "\n]\n");
    flush(t, &t->ranks[0]);
    if (close(t->file) != 0 && !atomic_exchange(&t->failed, true)) {
        log_error("cannot write the trace, %s: %s, make room", t->path, strerror(errno));
    }
    t->file = -1;
    return atomic_load(&t->failed) ? ST_IO : ST_OK;
}

void trace_destroy(struct trace *t)
{
    if (t == NULL) {
        return;
    }
    if (t->file >= 0) {
        (void)close(t->file);
    }
    for (int r = 0; t->ranks != NULL && r < t->n_ranks; r++) {
        mem_free(t->ranks[r].events);
        mem_free(t->ranks[r].lines);
        mem_free(t->ranks[r].text);
    }
    mem_free(t->ranks);
    trace_names_fini(&t->layers);
    trace_names_fini(&t->buckets);
    mem_free(t->collective);
    mem_free(t->path);
    mem_free(t);
}

/* --- the run */

bool trace_wants(const struct trace *t, uint64_t step)
{
    return t != NULL && step >= t->first && step - t->first < t->n_steps;
}

void trace_add(struct trace *t, int rank, enum trace_kind kind, size_t index, double from_s,
               double to_s)
{
    struct trace_rank *r = &t->ranks[rank];
    struct event *e = &r->events[r->n];

    if (r->n == t->max_events) {
        r->dropped++;
        return;
    }
    *e = (struct event){.kind = kind, .index = index};
    e->from_ns = (int64_t)((from_s - t->zero_s) * 1e9);
    e->to_ns = (int64_t)((to_s - t->zero_s) * 1e9);
    e->from_ns = e->from_ns > 0 ? e->from_ns : 0;
    e->to_ns = e->to_ns > e->from_ns ? e->to_ns : e->from_ns;
    r->n++;
}

/* The lines in the order of time; they are nearly so already. */
static size_t order_lines(struct trace_rank *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        const struct event *e = &r->events[i];
        const bool bucket = e->kind == TRACE_BUCKET || e->kind == TRACE_SHARE;
        r->lines[n++] = (struct line){e->from_ns, i, bucket ? 'b' : 'X'};
        if (bucket) {
            r->lines[n++] = (struct line){e->to_ns, i, 'e'};
        }
    }
    for (size_t i = 1; i < n; i++) {
        struct line l = r->lines[i];
        size_t k = i;
        for (; k > 0 && r->lines[k - 1].ns > l.ns; k--) {
            r->lines[k] = r->lines[k - 1];
        }
        r->lines[k] = l;
    }
    return n;
}

static const char *name_of(const struct trace *t, const struct event *e)
{
    return e->kind == TRACE_FORWARD || e->kind == TRACE_BACKWARD ? t->layers.texts[e->index]
           : e->kind == TRACE_MEET || e->kind == TRACE_DATA      ? ""
                                                                 : t->buckets.texts[e->index];
}

static void put_line(struct trace *t, int rank, const struct line *l, uint64_t step)
{
    struct trace_rank *r = &t->ranks[rank];
    const struct event *e = &r->events[l->event];
    const char *what = e->kind == TRACE_BUCKET ? t->collective : kinds[e->kind].name;
    const char *name = name_of(t, e);
    const int64_t ns = e->to_ns - e->from_ns;

    put(t, r,
        ",\n{\"name\":\"%s%s%s\",\"cat\":\"%s\",\"ph\":\"%c\",\"ts\":%" PRId64 ".%03d,\"pid\":%d,"
        "\"tid\":%d,",
        what, name[0] == '\0' ? "" : " ", name, kinds[e->kind].category, l->phase, l->ns / 1000,
        (int)(l->ns % 1000), rank, kinds[e->kind].thread);
    if (l->phase == 'X') {
        put(t, r, "\"dur\":%" PRId64 ".%03d,", ns / 1000, (int)(ns % 1000));
    } else {
        put(t, r, "\"id\":\"r%d%c%zus%" PRIu64 "\",", rank, e->kind == TRACE_SHARE ? 'w' : 'b',
            e->index, step + 1);
    }
    put(t, r, "\"args\":{\"step\":%" PRIu64 "}}", step + 1);
    end_line(t, r);
}

void trace_write(struct trace *t, int rank, uint64_t step)
{
    struct trace_rank *r = &t->ranks[rank];
    const size_t n = order_lines(r);

    for (size_t i = 0; i < n; i++) {
        put_line(t, rank, &r->lines[i], step);
    }
    flush(t, r);
    r->n = 0;
}
