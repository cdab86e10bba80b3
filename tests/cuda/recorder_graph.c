/* Captures: lists of commands of their own, which a launch writes down once more. */
#include <assert.h>
#include <stdlib.h>

#include "recorder_internal.h"

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

void recorder_mark_before(const struct item *items, int i, bool *before)
{
    while (i != NONE && !before[i]) {
        before[i] = true;
        if (items[i].kind == WAIT && !items[i].off && items[i].bound != NONE) {
            recorder_mark_before(items, items[i].bound, before);
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
    recorder_mark_before(g->items, last, before);
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

    recorder_append(r, &(struct item){.kind = RECORD, .stream = number(stream)});
    map[g->origin] = number(stream) + 1;
    for (int i = 0; i < g->n; i++) {
        struct item it = g->items[i];
        if (map[it.stream] == 0) {
            map[it.stream] = recorder_new_stream(r, r->streams[it.stream].rank) + 1;
            recorder_append(
                r, &(struct item){.kind = WAIT, .stream = map[it.stream] - 1, .bound = start});
        }
        it.stream = map[it.stream] - 1;
        it.bound = it.kind == WAIT && it.bound != NONE ? at[it.bound] : it.bound;
        recorder_append(r, &it);
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

void recorder_add_graphs(struct device_ops *ops)
{
    ops->capture_begin = capture_begin;
    ops->capture_end = capture_end;
    ops->graph_launch = graph_launch;
    ops->graph_destroy = graph_destroy;
}
