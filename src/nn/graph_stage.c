#include <string.h>

#include "nn/graph_internal.h"

static size_t sample_elements(const struct graph *g)
{
    const struct shape s = net_layer(g->args.net, 0)->out;

    return s.c * s.h * s.w;
}

static enum status slot_init(struct graph *g, struct stage_slot *slot)
{
    const struct device_place *p = g->args.place;
    const size_t n = g->batches[0];
    const size_t x_bytes = n * sample_elements(g) * sizeof(float), l_bytes = n * sizeof(int32_t);
    void *host_x = NULL, *x = NULL, *host_labels = NULL, *labels = NULL;
    enum status st = p->ops->alloc_host(p->set, x_bytes, &host_x);

    st = st == ST_OK ? p->ops->alloc_host(p->set, l_bytes, &host_labels) : st;
    st = st == ST_OK ? p->ops->alloc(p->set, p->rank, x_bytes, &x) : st;
    st = st == ST_OK ? p->ops->alloc(p->set, p->rank, l_bytes, &labels) : st;
    slot->host_x = host_x;
    slot->host_labels = host_labels;
    slot->x = x;
    slot->labels = labels;
    TRY(st);
    TRY(p->ops->event_create(p->set, p->rank, &slot->filled));
    return p->ops->event_create(p->set, p->rank, &slot->read);
}

enum status graph_stage_init(struct graph *g)
{
    const struct device_place *p = g->args.place;
    struct stage *s = &g->stage;
    void *result = NULL, *now = NULL;

    TRY(p->ops->stream_create(p->set, p->rank, &s->upload));
    TRY(slot_init(g, &s->slots[0]));
    TRY(slot_init(g, &s->slots[1]));
    TRY(p->ops->alloc_host(p->set, sizeof *s->result, &result));
    s->result = result;
    TRY(p->ops->alloc(p->set, p->rank, sizeof *s->now, &now));
    s->now = now;
    return p->ops->event_create(p->set, p->rank, &s->done);
}

void graph_stage_fini(struct graph *g)
{
    const struct device_place *p = g->args.place;
    struct stage *s = &g->stage;

    for (int i = 0; i < 2; i++) {
        struct stage_slot *slot = &s->slots[i];
        p->ops->release_host(p->set, slot->host_x);
        p->ops->release_host(p->set, slot->host_labels);
        p->ops->release(p->set, p->rank, slot->x);
        p->ops->release(p->set, p->rank, slot->labels);
        p->ops->event_destroy(p->set, slot->filled);
        p->ops->event_destroy(p->set, slot->read);
    }
    p->ops->release_host(p->set, s->result);
    p->ops->release(p->set, p->rank, s->now);
    p->ops->event_destroy(p->set, s->done);
    p->ops->stream_destroy(p->set, s->upload);
}

/* The pass before the last one has read its batch when the last one begins, which has been put on
 * the stream; so the copy of a batch runs while the last one is computed with. */
enum status graph_stage_put(struct graph *g, size_t n, const float **x, const int32_t **labels)
{
    const struct device_place *p = g->args.place;
    struct stage *s = &g->stage;
    struct stage_slot *slot = &s->slots[s->next], *last = &s->slots[1 - s->next];
    const size_t x_bytes = n * sample_elements(g) * sizeof(float), l_bytes = n * sizeof(int32_t);

    TRY(p->ops->record(p->set, p->stream, last->read));
    TRY(p->ops->event_sync(p->set, slot->filled)); /* of two passes ago */
    memcpy(slot->host_x, *x, x_bytes);
    memcpy(slot->host_labels, *labels, l_bytes);
    TRY(p->ops->wait(p->set, s->upload, slot->read));
    TRY(p->ops->copy(p->set, s->upload, slot->x, slot->host_x, x_bytes));
    TRY(p->ops->copy(p->set, s->upload, slot->labels, slot->host_labels, l_bytes));
    TRY(p->ops->record(p->set, s->upload, slot->filled));
    TRY(p->ops->wait(p->set, p->stream, slot->filled));
    s->next = 1 - s->next;
    *x = slot->x;
    *labels = slot->labels;
    return ST_OK;
}

enum status graph_stage_now(const struct graph *g, size_t offset, const void *value, size_t bytes)
{
    const struct device_place *p = g->args.place;
    struct device_store s = {.dst = (char *)g->stage.now + offset, .n = bytes};

    if (p == NULL) {
        return ST_OK;
    }
    memcpy(s.bytes, value, bytes);
    return p->ops->store(p->set, p->stream, &s);
}

enum status graph_stage_fetch(const struct graph *g, void *to, const void *from, size_t bytes)
{
    const struct device_place *p = g->args.place;

    TRY(p->ops->copy(p->set, p->stream, to, from, bytes));
    return p->ops->stream_sync(p->set, p->stream);
}
