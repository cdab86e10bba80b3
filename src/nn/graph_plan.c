#include "nn/graph_internal.h"

#include <stdlib.h>

#include "base/mem.h"

/*
 * Which buffer every operand is, found by playing a training step: first all forward calls, then
 * all backward calls. The gradient of a value is one buffer or the sum of two; layers that pass a
 * gradient on unchanged (additions) share the buffer, and a call may overwrite a buffer that nobody
 * else holds.
 */

struct parts {
    int buffer[2];
    int n;
};

static int call_forward(int node)
{
    return node;
}

static int call_backward(const struct graph *g, int node)
{
    return 2 * g->n_nodes - 1 - node;
}

static int buffer_new(struct graph *g, enum buffer_use use, size_t bytes, int call)
{
    struct buffer *b = &g->buffers[g->n_buffers];
    const size_t align = graph_align(g);

    *b = (struct buffer){
        .use = use, .bytes = (bytes + align - 1) / align * align, .first = call, .last = call};
    return g->n_buffers++;
}

static void buffer_touch(struct graph *g, int b, int call)
{
    if (b != NO_BUFFER && g->buffers[b].last < call) {
        g->buffers[b].last = call;
    }
}

static size_t largest(const struct graph *g, int value)
{
    return value_bytes(&g->values[value], g->batches[0]);
}

static void plan_scratch(struct graph *g, struct node *n, int direction, int call)
{
    size_t bytes = n->info.scratch_bytes[direction];

    n->scratch[direction] = NO_BUFFER;
    if (bytes > SHARED_SCRATCH_BYTES) {
        n->scratch[direction] = buffer_new(g, BUFFER_SCRATCH, bytes, call);
    } else if (bytes > g->scratch_bytes) {
        g->scratch_bytes = bytes;
    }
}

static void plan_forward(struct graph *g, int i)
{
    struct node *n = &g->nodes[i];
    int call = call_forward(i), out = n->op_node.output;

    for (int k = 0; k < n->op_node.n_inputs; k++) {
        buffer_touch(g, g->value_buffer[n->op_node.inputs[k]], call);
    }
    n->kept = NO_BUFFER;
    plan_scratch(g, n, 0, call);
    if (n->op_node.kind != LAYER_INPUT || !value_is_canonical(&g->values[out])) {
        g->value_buffer[out] = buffer_new(g, BUFFER_ACTIVATION, largest(g, out), call);
    }
    if (n->info.kept_bytes > 0) {
        n->kept = buffer_new(g, BUFFER_KEPT, n->info.kept_bytes, call);
    }
}

/* A buffer among the parts that only they hold, or a new one. */
static int own_or_new(struct graph *g, const struct parts *p, size_t bytes, int call)
{
    for (int k = 0; k < p->n; k++) {
        if (g->buffers[p->buffer[k]].holders == 1) {
            return p->buffer[k];
        }
    }
    return buffer_new(g, BUFFER_GRADIENT, bytes, call);
}

/* Turn the parts into one buffer that may be overwritten, which becomes the only part. */
static void merge(struct graph *g, struct parts *p, int merged, int call)
{
    for (int k = 0; k < p->n; k++) {
        buffer_touch(g, p->buffer[k], call);
        g->buffers[p->buffer[k]].holders--;
    }
    g->buffers[merged].holders++;
    *p = (struct parts){{merged, NO_BUFFER}, 1};
}

/* `value` gets one more summand. A third one is added to another at once. */
static void add_part(struct graph *g, struct node *n, struct parts *all, int value, int b, int call)
{
    struct parts *p = &all[value];

    g->buffers[b].holders++;
    if (p->n == 2) {
        struct summation *s = &n->sums[n->n_sums++];
        *s = (struct summation){.value = value, .a = p->buffer[0], .b = p->buffer[1]};
        s->dst = own_or_new(g, p, largest(g, value), call);
        merge(g, p, s->dst, call);
    }
    p->buffer[p->n++] = b;
}

static void plan_dx(struct graph *g, struct node *n, const struct parts *dy, int call)
{
    const struct op_node *o = &n->op_node;
    bool own = dy->n > 0 && g->buffers[dy->buffer[0]].holders == 1;

    for (int k = 0; k < o->n_inputs; k++) {
        bool over = k == 0 ? n->info.over_dy : k == 1 && n->info.rest_over_dy;

        if (!o->wants_dx[k]) {
            continue;
        }
        if (o->kind == LAYER_ADD) {
            n->dx[k] = dy->buffer[0];
        } else if (over && own) {
            n->dx[k] = dy->buffer[0];
            own = false;
        } else {
            n->dx[k] = buffer_new(g, BUFFER_GRADIENT, largest(g, o->inputs[k]), call);
        }
    }
}

static void plan_backward(struct graph *g, int i, struct parts *all)
{
    struct node *n = &g->nodes[i];
    const struct op_node *o = &n->op_node;
    struct parts *dy = &all[o->output];
    int call = call_backward(g, i);
    bool mask = o->relu && !n->info.masks;

    for (int k = 0; k < o->n_inputs && n->info.needs_x; k++) {
        buffer_touch(g, g->value_buffer[o->inputs[k]], call);
    }
    if (n->info.needs_y || mask) {
        buffer_touch(g, g->value_buffer[o->output], call);
    }
    buffer_touch(g, n->kept, call);
    plan_scratch(g, n, 1, call);
    if (mask || (dy->n == 2 && !n->info.takes_two)) {
        int merged = own_or_new(g, dy, largest(g, o->output), call);
        n->combined_from[0] = dy->buffer[0];
        n->combined_from[1] = dy->n == 2 ? dy->buffer[1] : NO_BUFFER;
        merge(g, dy, merged, call);
    }
    for (int k = 0; k < dy->n; k++) {
        n->dy[k] = dy->buffer[k];
        buffer_touch(g, dy->buffer[k], call);
    }
    plan_dx(g, n, dy, call);
    for (int k = 0; k < dy->n; k++) {
        g->buffers[dy->buffer[k]].holders--;
    }
    for (int k = 0; k < o->n_inputs; k++) {
        if (n->dx[k] != NO_BUFFER) {
            add_part(g, n, all, o->inputs[k], n->dx[k], call);
        }
    }
}

static bool lives_touch(const struct buffer *a, const struct buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int by_size(const void *a, const void *b)
{
    const struct buffer *x = *(struct buffer *const *)a, *y = *(struct buffer *const *)b;

    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? 1 : -1;
    }
    return x < y ? -1 : x > y;
}

/* The lowest offset at which `b` fits between the first `n` buffers of `placed`. */
static size_t lowest_fit(struct buffer *const *placed, int n, const struct buffer *b)
{
    size_t offset = 0;
    bool moved = true;

    while (moved) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const struct buffer *p = placed[i];
            if (lives_touch(p, b) && offset < p->offset + p->bytes &&
                p->offset < offset + b->bytes) {
                offset = p->offset + p->bytes;
                moved = true;
            }
        }
    }
    return offset;
}

/* Place the buffers of the uses up to `most`, largest first, and return the bytes that they take.
 */
static size_t pack(struct graph *g, struct buffer **order, enum buffer_use most)
{
    size_t total = 0;
    int n = 0;

    for (int i = 0; i < g->n_buffers; i++) {
        if (g->buffers[i].use <= most) {
            order[n++] = &g->buffers[i];
        }
    }
    qsort(order, (size_t)n, sizeof(struct buffer *), by_size);
    for (int i = 0; i < n; i++) {
        order[i]->offset = lowest_fit(order, i, order[i]);
        if (order[i]->offset + order[i]->bytes > total) {
            total = order[i]->offset + order[i]->bytes;
        }
    }
    return total;
}

static size_t more_than(size_t a, size_t b)
{
    return a > b ? a - b : 0;
}

/* Gradients and scratch memory are reported as what they need beyond the memory of activations. */
static enum status place(struct graph *g)
{
    struct buffer **order = mem_alloc((size_t)g->n_buffers, sizeof(struct buffer *));
    size_t activations, gradients;

    if (order == NULL) {
        return ST_NOMEM;
    }
    activations = pack(g, order, BUFFER_KEPT);
    gradients = pack(g, order, BUFFER_GRADIENT);
    g->memory_bytes = pack(g, order, BUFFER_SCRATCH);
    g->report.activations = activations < g->memory_bytes ? activations : g->memory_bytes;
    g->report.gradients_of_activations = more_than(gradients, activations);
    g->report.workspace =
        more_than(g->memory_bytes, activations > gradients ? activations : gradients);
    mem_free(order);
    return ST_OK;
}

enum status graph_plan(struct graph *g)
{
    struct parts *all = mem_alloc((size_t)g->n_values, sizeof *all);

    /* Per node: y, kept, scratch twice, a merged gradient, and for each input dx and a sum. */
    g->buffers = mem_alloc((size_t)g->n_nodes * (5 + 2 * LAYER_MAX_INPUTS), sizeof *g->buffers);
    if (all == NULL || g->buffers == NULL) {
        mem_free(all);
        return ST_NOMEM;
    }
    for (int i = 0; i < g->n_nodes; i++) {
        struct node *n = &g->nodes[i];
        n->dy[0] = n->dy[1] = n->combined_from[0] = n->combined_from[1] = NO_BUFFER;
        for (int k = 0; k < LAYER_MAX_INPUTS; k++) {
            n->dx[k] = NO_BUFFER;
        }
        plan_forward(g, i);
    }
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        if (g->nodes[i].has_backward) {
            plan_backward(g, i, all);
        }
    }
    mem_free(all);
    return place(g);
}
