#include <string.h>

#include "base/log.h"
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
    void *host_x = NULL, *x = NULL, *host_labels = NULL, *labels = NULL, *result = NULL;
    enum status st = p->ops->alloc_host(p->set, x_bytes, &host_x);

    st = st == ST_OK ? p->ops->alloc_host(p->set, l_bytes, &host_labels) : st;
    st = st == ST_OK ? p->ops->alloc(p->set, p->rank, x_bytes, &x) : st;
    st = st == ST_OK ? p->ops->alloc(p->set, p->rank, l_bytes, &labels) : st;
    st = st == ST_OK ? p->ops->alloc_host(p->set, sizeof *slot->result, &result) : st;
    slot->host_x = host_x;
    slot->host_labels = host_labels;
    slot->x = x;
    slot->labels = labels;
    slot->result = result;
    TRY(st);
    TRY(p->ops->event_create(p->set, p->rank, &slot->done));
    TRY(p->ops->event_create(p->set, p->rank, &slot->filled));
    return p->ops->event_create(p->set, p->rank, &slot->read);
}

enum status graph_stage_init(struct graph *g)
{
    const struct device_place *p = g->args.place;
    struct stage *s = &g->stage;
    void *now = NULL;

    TRY(p->ops->stream_create(p->set, p->rank, &s->upload));
    TRY(slot_init(g, &s->slots[0]));
    TRY(slot_init(g, &s->slots[1]));
    TRY(p->ops->alloc(p->set, p->rank, sizeof *s->now, &now));
    s->now = now;
    return ST_OK;
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
        p->ops->release_host(p->set, slot->result);
        p->ops->event_destroy(p->set, slot->done);
    }
    p->ops->release(p->set, p->rank, s->now);
    p->ops->stream_destroy(p->set, s->upload);
}

/* The pass before the last one has read its batch when the last one begins, which has been put on
 * the stream; so the copy of a batch runs while the last one is computed with. */
enum status graph_stage_put(struct graph *g, struct pass *pass)
{
    const struct device_place *p = g->args.place;
    struct stage *s = &g->stage;
    struct stage_slot *slot = &s->slots[s->next], *last = &s->slots[1 - s->next];
    const size_t x_bytes = pass->n * sample_elements(g) * sizeof(float);
    const size_t l_bytes = pass->n * sizeof(int32_t);

    if (s->n_left == 2) {
        return log_fail(ST_BADARG, "two passes of network %s have left results, collect them",
                        net_name(g->args.net));
    }
    TRY(p->ops->record(p->set, p->stream, last->read));
    TRY(p->ops->event_sync(p->set, slot->filled)); /* of two passes ago */
    memcpy(slot->host_x, pass->x, x_bytes);
    memcpy(slot->host_labels, pass->labels, l_bytes);
    TRY(p->ops->wait(p->set, s->upload, slot->read));
    TRY(p->ops->copy(p->set, s->upload, slot->x, slot->host_x, x_bytes));
    TRY(p->ops->copy(p->set, s->upload, slot->labels, slot->host_labels, l_bytes));
    TRY(p->ops->record(p->set, s->upload, slot->filled));
    TRY(p->ops->wait(p->set, p->stream, slot->filled));
    s->next = 1 - s->next;
    pass->x = slot->x;
    pass->labels = slot->labels;
    slot->pass = *pass;
    return ST_OK;
}

enum status graph_stage_leave(struct graph *g)
{
    const struct device_place *p = g->args.place;
    struct stage *s = &g->stage;

    TRY(p->ops->record(p->set, p->stream, s->slots[1 - s->next].done));
    s->n_left++;
    return ST_OK;
}

enum status graph_stage_collect(struct graph *g, struct graph_result *out)
{
    const struct device_place *p = g->args.place;
    struct stage *s = &g->stage;
    const int oldest = s->n_left == 2 ? s->next : 1 - s->next;
    const struct stage_slot *slot = &s->slots[oldest];

    if (s->n_left == 0) {
        return log_fail(ST_BADARG, "no pass of network %s has left a result",
                        net_name(g->args.net));
    }
    TRY(p->ops->event_sync(p->set, slot->done));
    s->n_left--;
    s->seen = oldest;
    *out = *slot->result;
    out->n = slot->pass.n;
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
