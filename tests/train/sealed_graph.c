/*
 * Captures of the sealed devices: what is put on a stream is kept, with the addresses and numbers
 * that it has, and is put there anew by each launch.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "sealed_internal.h"

static void *grown(void *p, size_t n, size_t elem_bytes)
{
    return (n & (n - 1)) == 0 ? realloc(p, (2 * n + 1) * elem_bytes) : p;
}

static struct event *event_of(const struct work *w)
{
    return w->kind == RECORD || w->kind == WAIT ? w->u.place.event : NULL;
}

/* Streams join a capture by waiting for what was recorded in it. */
static void check_wait(struct stream *s, const struct event *e)
{
    if (s->capture == NULL && e->capture != NULL) {
        if (e->capture->origin->capture != e->capture) {
            sealed_fault("a stream waits for an event of a capture that is over");
            return;
        }
        s->capture = e->capture->origin->capture;
    }
    if (s->capture != NULL && e->capture != s->capture) {
        sealed_fault("a captured stream waits for what is not captured");
    }
}

bool sealed_take(struct stream *s, const struct work *w)
{
    struct graph *g;

    if (w->kind == WAIT) {
        check_wait(s, w->u.place.event);
    }
    if (w->kind == RECORD) {
        w->u.place.event->capture = s->capture;
    }
    g = s->capture;
    if (g == NULL) {
        return false;
    }
    if (w->kind == WAIT && ++sealed_world.waits == sealed_world.drop) {
        return true;
    }
    g->items = grown(g->items, g->n, sizeof *g->items);
    g->items[g->n++] = (struct taken){*w, s};
    return true;
}

static enum status capture_begin(void *set, void *stream)
{
    struct stream *s = stream;
    struct graph *g = mem_alloc(1, sizeof *g); /* faults can be injected here */

    (void)set;
    if (g == NULL) {
        return ST_NOMEM;
    }
    (void)pthread_mutex_lock(&sealed_world.lock);
    if (s->capture != NULL) {
        sealed_fault("a capture begins in another one");
    }
    g->origin = s;
    s->capture = g;
    (void)pthread_mutex_unlock(&sealed_world.lock);
    return ST_OK;
}

/* The graph's own stream or event for the one that was taken. */
static void *own_stream(const struct graph *g, const struct stream *s)
{
    for (size_t i = 0; i < g->n_streams; i++) {
        if (g->streams[i].taken == s) {
            return g->streams[i].own;
        }
    }
    return NULL;
}

static struct event *own_event(const struct graph *g, const struct event *e)
{
    for (size_t i = 0; i < g->n_events; i++) {
        if (g->events[i].taken == e) {
            return g->events[i].own;
        }
    }
    return NULL;
}

static void name_parts(struct set *set, struct graph *g)
{
    for (size_t i = 0; i < g->n; i++) {
        struct stream *s = g->items[i].on;
        struct event *e = event_of(&g->items[i].work);
        if (s != g->origin && own_stream(g, s) == NULL) {
            g->streams = grown(g->streams, g->n_streams, sizeof *g->streams);
            g->streams[g->n_streams].taken = s;
            g->streams[g->n_streams++].own = sealed_stream(set);
        }
        if (e != NULL && own_event(g, e) == NULL) {
            g->events = grown(g->events, g->n_events, sizeof *g->events);
            g->events[g->n_events].taken = e;
            g->events[g->n_events++].own = calloc(1, sizeof(struct event));
        }
    }
}

static enum status capture_end(void *set, void *stream, void **graph)
{
    struct set *all = set;
    struct graph *g = ((struct stream *)stream)->capture;

    (void)pthread_mutex_lock(&sealed_world.lock);
    if (g == NULL || g->origin != stream) {
        sealed_fault("a capture ends where it did not begin");
    }
    for (int i = 0; i < MAX_STREAMS; i++) {
        if (all->streams[i] != NULL && all->streams[i]->capture == g) {
            all->streams[i]->capture = NULL;
        }
    }
    (void)pthread_mutex_unlock(&sealed_world.lock);
    name_parts(all, g);
    *graph = g;
    return ST_OK;
}

static enum status launch(void *set, void *graph, void *stream)
{
    struct graph *g = graph;

    if (g->n_streams > 0) {
        sealed_put(set, stream, &(struct work){.kind = RECORD, .u.place = {&g->start, 0}});
    }
    for (size_t i = 0; i < g->n_streams; i++) {
        sealed_put(set, g->streams[i].own, &(struct work){.kind = WAIT, .u.place = {&g->start, 0}});
    }
    for (size_t i = 0; i < g->n; i++) {
        struct work w = g->items[i].work;
        struct stream *s = own_stream(g, g->items[i].on);
        if (event_of(&w) != NULL) {
            w.u.place.event = own_event(g, event_of(&w));
        }
        if (w.kind == CALL) {
            w.u.call.again = true;
        }
        sealed_put(set, s != NULL ? s : stream, &w);
    }
    return ST_OK;
}

static void destroy(void *set, void *graph)
{
    struct graph *g = graph;

    if (g == NULL) {
        return;
    }
    for (size_t i = 0; i < g->n_streams; i++) {
        sealed_stream_end(set, g->streams[i].own);
    }
    for (size_t i = 0; i < g->n_events; i++) {
        free(g->events[i].own);
    }
    free(g->streams);
    free(g->events);
    free(g->items);
    mem_free(g);
}

void sealed_add_graphs(struct device_ops *table)
{
    table->capture_begin = capture_begin;
    table->capture_end = capture_end;
    table->graph_launch = launch;
    table->graph_destroy = destroy;
}
