#include "nn/graph_internal.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/halves.h"
#include "base/log.h"
#include "base/mem.h"

static enum status check_labels(const struct graph *g, const int32_t *labels, size_t n)
{
    int classes = net_classes(g->args.net);

    for (size_t i = 0; i < n; i++) {
        if (labels[i] < 0 || labels[i] >= classes) {
            return log_fail(ST_INPUT,
                            "label %d of sample %zu of the batch is not in 0..%d, network %s, "
                            "check the data set and the number of classes",
                            (int)labels[i], i, classes - 1, net_name(g->args.net));
        }
    }
    return ST_OK;
}

static enum status find_batch(const struct graph *g, size_t n, size_t *batch)
{
    for (size_t i = 0; i < g->args.n_batches; i++) {
        if (g->batches[i] == n) {
            *batch = i;
            return ST_OK;
        }
    }
    return log_fail(ST_BADARG,
                    "a batch of %zu samples, network %s, was not asked for at its making", n,
                    net_name(g->args.net));
}

/* One thread's time is its own, whatever else the processor does; several need the wall clock. */
static int64_t now_ns(const struct graph *g)
{
    if (!g->timed) {
        return 0;
    }
    return g->env.n_threads == 1 ? clock_thread_ns() : clock_now_ns();
}

/* Add the time since `*start` to the node's account and set `*start` to now. */
static void account(const struct graph *g, struct node *n, enum op_call call, int64_t *start)
{
    int64_t now;

    if (g->timed) {
        now = now_ns(g);
        n->spent_ns[call] += now - *start;
        *start = now;
    }
}

static void *scratch_of(const struct graph *g, const struct node *n, int direction)
{
    return n->scratch[direction] == NO_BUFFER ? g->scratch : graph_buffer(g, n->scratch[direction]);
}

enum status graph_forward_node(struct graph *g, struct node *n, const struct graph_hooks *hooks)
{
    bool issue;

    for (int k = 0;
         hooks != NULL && hooks->before_forward != NULL && k < n->op_node.layer->n_params; k++) {
        TRY(hooks->before_forward(hooks->ctx, n->first_param + k));
    }
    for (int k = 0; k < n->op_node.n_inputs; k++) {
        if (g->value_buffer[n->op_node.inputs[k]] == NO_BUFFER) {
            n->io.x[k] = g->pass.x;
        }
    }
    if (n->op_node.kind == LAYER_INPUT) {
        n->io.x[0] = g->pass.x;
    }
    n->io.scratch = scratch_of(g, n, 0);
    TRY(graph_capture_call(g, &issue));
    return issue ? n->kind->forward(n->op, &n->io) : ST_OK;
}

static enum status forward_nodes(struct graph *g, const struct graph_hooks *hooks)
{
    int64_t start = now_ns(g);

    for (int i = 0; i < g->n_nodes; i++) {
        TRY(graph_forward_node(g, &g->nodes[i], hooks));
        account(g, &g->nodes[i], CALL_FORWARD, &start);
    }
    return ST_OK;
}

/* Tell all nodes, and the device, of g->pass. */
static enum status set_pass(struct graph *g, struct graph_result *result)
{
    const struct pass *p = &g->pass;

    for (int i = 0; i < g->n_nodes; i++) {
        struct op_io *io = &g->nodes[i].io;
        io->n = p->n;
        io->batch = p->batch;
        io->training = p->training;
        io->step = p->step;
        io->now = g->stage.now;
        io->labels = p->labels;
        io->result = result;
    }
    return graph_stage_now(g, offsetof(struct op_now, step), &p->step, sizeof p->step);
}

enum status graph_forward(struct graph *g, const float *x, const int32_t *labels, size_t n,
                          bool training, uint64_t step, const struct graph_hooks *hooks,
                          struct graph_result *out)
{
    const bool on_device = g->args.place != NULL;
    struct pass pass = {.x = x, .labels = labels, .n = n, .training = training, .step = step};

    TRY(check_labels(g, labels, n));
    TRY(find_batch(g, n, &pass.batch));
    g->args.ops->attach(g->lib);
    if (on_device) {
        TRY(graph_stage_put(g, &pass));
    }
    g->pass = pass;
    g->result = (struct graph_result){.n = n};
    g->trained = training && g->args.training;
    TRY(set_pass(g, on_device ? g->stage.slots[1 - g->stage.next].result : &g->result));
    graph_capture_begin(g, training ? CAPTURE_FORWARD : CAPTURE_EVALUATION);
    TRY(graph_capture_end(g, forward_nodes(g, hooks)));
    if (on_device) {
        TRY(graph_stage_leave(g));
    }
    return out != NULL ? graph_collect(g, out) : ST_OK;
}

enum status graph_collect(struct graph *g, struct graph_result *out)
{
    if (g->args.place != NULL) {
        return graph_stage_collect(g, out);
    }
    *out = g->result;
    return ST_OK;
}

const double *graph_loss(const struct graph *g)
{
    return &g->stage.slots[1 - g->stage.next].result->loss_sum;
}

static void add_parts(struct graph *g, const struct node *n)
{
    for (int k = 0; k < n->n_sums; k++) {
        const struct summation *s = &n->sums[k];
        g->args.ops->gradient(g->lib, &g->values[s->value], n->io.n, NULL, graph_buffer(g, s->a),
                              graph_buffer(g, s->b), graph_buffer(g, s->dst));
    }
}

static enum status backward_hooks(const struct node *n, const struct graph_hooks *hooks)
{
    if (hooks == NULL || hooks->after_backward == NULL) {
        return ST_OK;
    }
    for (int k = 0; k < n->op_node.layer->n_params; k++) {
        TRY(hooks->after_backward(hooks->ctx, n->first_param + k));
    }
    return ST_OK;
}

/* The gradient of the node's output, if it has several parts; then those of its weights. */
static enum status weights_call(struct graph *g, struct node *n)
{
    const struct op_node *o = &n->op_node;
    const bool mask = o->relu && !n->info.masks, combines = n->combined_from[0] != NO_BUFFER;
    bool issue = false;

    if (combines || n->kind->backward_weights != NULL) {
        TRY(graph_capture_call(g, &issue));
    }
    if (issue && combines) {
        g->args.ops->gradient(g->lib, &g->values[o->output], n->io.n, mask ? n->io.y : NULL,
                              graph_buffer(g, n->combined_from[0]),
                              graph_buffer(g, n->combined_from[1]), graph_buffer(g, n->dy[0]));
    }
    return issue && n->kind->backward_weights != NULL ? n->kind->backward_weights(n->op, &n->io)
                                                      : ST_OK;
}

/* Those of its inputs, and of its weights if they come together. */
static enum status inputs_call(struct graph *g, struct node *n)
{
    bool wanted = n->kind->backward_weights == NULL, issue = false;

    for (int k = 0; k < n->op_node.n_inputs; k++) {
        wanted = wanted || n->op_node.wants_dx[k];
    }
    if (wanted) {
        TRY(graph_capture_call(g, &issue));
    }
    return issue ? n->kind->backward(n->op, &n->io) : ST_OK;
}

static enum status sums_call(struct graph *g, const struct node *n)
{
    bool issue = false;

    if (n->n_sums > 0) {
        TRY(graph_capture_call(g, &issue));
    }
    if (issue) {
        add_parts(g, n);
    }
    return ST_OK;
}

static enum status backward_node(struct graph *g, struct node *n, const struct graph_hooks *hooks)
{
    const bool apart = n->kind->backward_weights != NULL;
    int64_t start = now_ns(g);

    n->io.scratch = scratch_of(g, n, 1);
    TRY(weights_call(g, n));
    if (apart) {
        account(g, n, CALL_BACKWARD_WEIGHTS, &start);
        TRY(backward_hooks(n, hooks));
    }
    TRY(inputs_call(g, n));
    if (!apart) {
        TRY(backward_hooks(n, hooks));
    }
    TRY(sums_call(g, n));
    account(g, n, CALL_BACKWARD, &start);
    return ST_OK;
}

static enum status backward_nodes(struct graph *g, float scale, const struct graph_hooks *hooks)
{
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        if (g->nodes[i].has_backward) {
            g->nodes[i].io.scale = scale;
            TRY(backward_node(g, &g->nodes[i], hooks));
        }
    }
    return ST_OK;
}

enum status graph_backward(struct graph *g, float scale, const struct graph_hooks *hooks)
{
    if (!g->trained) {
        return log_fail(ST_BADARG, "backward without a training forward pass, network %s",
                        net_name(g->args.net));
    }
    g->args.ops->attach(g->lib);
    TRY(graph_stage_now(g, offsetof(struct op_now, scale), &scale, sizeof scale));
    graph_capture_begin(g, CAPTURE_BACKWARD);
    return graph_capture_end(g, backward_nodes(g, scale, hooks));
}

static bool value_is_finite(const struct value_desc *v, const void *data, size_t n)
{
    size_t per_sample = v->shape.c * v->shape.h * v->shape.w, row = value_elements(v);

    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < per_sample; i++) {
            size_t at = s * row + value_index(v, i);
            float f;
            if (v->dtype == GRAPH_FP32) {
                f = ((const float *)data)[at];
            } else {
                uint16_t half = ((const uint16_t *)data)[at];
                f = v->dtype == GRAPH_BF16 ? halves_f32_of_bf16(half) : halves_f32_of_f16(half);
            }
            if (!isfinite(f)) {
                return false;
            }
        }
    }
    return true;
}

/* What the node has just written, copied to `host` if it is elsewhere. */
static bool output_is_finite(const struct graph *g, const struct node *n, void *host,
                             const struct graph_result *result)
{
    const struct op_node *o = &n->op_node;
    const struct value_desc *v = &g->values[o->output];
    const struct device_place *p = g->args.place;
    const void *data = g->value_buffer[o->output] == NO_BUFFER ? (const void *)g->pass.x : n->io.y;

    if (o->kind == LAYER_SOFTMAX_LOSS) {
        return (p != NULL && p->ops->stream_sync(p->set, p->stream) != ST_OK) ||
               isfinite(result->loss_sum);
    }
    if (p == NULL) {
        return value_is_finite(v, data, n->io.n);
    }
    return graph_stage_fetch(g, host, data, value_bytes(v, n->io.n)) != ST_OK ||
           value_is_finite(v, host, n->io.n);
}

static const char *run_until_nonfinite(struct graph *g, void *host)
{
    for (int i = 0; i < g->n_nodes; i++) {
        struct node *n = &g->nodes[i];
        struct graph_result local = {0}, *kept = n->io.result;
        struct graph_result *result = g->args.place != NULL ? kept : &local;
        enum status st;

        n->io.result = result;
        st = graph_forward_node(g, n, NULL);
        n->io.result = kept;
        if (st != ST_OK) {
            return NULL;
        }
        if (!output_is_finite(g, n, host, result)) {
            return n->op_node.layer->name;
        }
    }
    return NULL;
}

static size_t largest_value(const struct graph *g)
{
    size_t most = 0;

    for (int i = 0; i < g->n_values; i++) {
        size_t bytes = value_bytes(&g->values[i], g->batches[0]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Values share memory, so the pass is run once more and each value is looked at when it is made. */
const char *graph_find_nonfinite(const struct graph *g)
{
    struct graph *again = (struct graph *)g; /* the same results are written once more */
    const struct device_place *p = g->args.place;
    const struct stage_slot *seen = &g->stage.slots[g->stage.seen];
    const size_t state_bytes = g->state_n * sizeof *g->state;
    const char *found = NULL;
    float *state = mem_alloc(g->state_n, sizeof *state);
    void *host = p != NULL ? mem_alloc(largest_value(g), 1) : NULL;

    if (g->pass.x != NULL && state != NULL && (p == NULL || host != NULL)) {
        g->args.ops->attach(g->lib);
        if (p == NULL) {
            memcpy(state, g->state, state_bytes);
            found = run_until_nonfinite(again, NULL);
            memcpy(g->state, state, state_bytes);
        } else if (graph_stage_fetch(g, state, g->state, state_bytes) == ST_OK) {
            again->pass = seen->pass;
            found =
                set_pass(again, seen->result) == ST_OK ? run_until_nonfinite(again, host) : NULL;
            (void)!p->ops->copy(p->set, p->stream, g->state, state, state_bytes);
            (void)!p->ops->stream_sync(p->set, p->stream);
        }
    }
    mem_free(state);
    mem_free(host);
    return found;
}
