#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "nn/graph_internal.h"
#include "tests/nn/reference.h"

/* Whole networks: arenas, hooks, repetition, memory, errors. Their values: test_graph_values.c. */

/* --- arenas --- */

Test(graph, export_is_the_inverse_of_import)
{
    static const size_t channels[] = {16, 5};

    for (size_t i = 0; i < 2; i++) {
        struct bench b = bench_residual(channels[i], 9);
        size_t n = net_param_elements(b.net);
        float *back = mem_alloc(n, sizeof *back);
        double sum = 0.0, arena_sum = 0.0;

        cr_assert_eq(graph_export(b.graph, b.params, back), ST_OK);
        cr_assert_arr_eq(back, b.canonical, n * sizeof *back);
        for (size_t k = 0; k < n; k++) {
            sum += fabs((double)b.canonical[k]);
        }
        for (size_t k = 0; k < graph_arena_n(b.graph); k++) {
            arena_sum += fabs((double)b.params[k]);
        }
        cr_assert_float_eq(sum, arena_sum, 1e-9 * sum, "padding must be zero");
        mem_free(back);
        bench_destroy(&b);
    }
}

Test(graph, init_is_the_nets)
{
    struct bench b = bench_residual(5, 9);
    size_t n = net_param_elements(b.net), at = 0;
    float *values = mem_alloc(n, sizeof *values);

    graph_init_params(b.graph, 11, b.params);
    cr_assert_eq(graph_export(b.graph, b.params, values), ST_OK);
    for (int p = 0; p < net_n_params(b.net); p++) {
        for (size_t i = 0; i < net_param(b.net, p)->n; i++, at++) {
            cr_assert_eq(values[at], net_init_value(b.net, p, 11, i));
        }
    }
    mem_free(values);
    bench_destroy(&b);
}

/* Gradients keep the padding at zero too, for SGD must not move it. */
Test(graph, gradients_keep_padding_zero)
{
    struct bench b = bench_residual(5, 9);
    size_t n = net_param_elements(b.net);
    float *canonical = mem_alloc(n, sizeof *canonical);
    float *arena = mem_alloc(graph_arena_n(b.graph), sizeof *arena);
    struct graph_result r;

    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 6, true, 0, NULL, &r), ST_OK);
    cr_assert_eq(graph_backward(b.graph, 1.0f, NULL), ST_OK);
    cr_assert_eq(graph_export(b.graph, b.grads, canonical), ST_OK);
    cr_assert_eq(graph_import(b.graph, canonical, arena), ST_OK);
    for (size_t i = 0; i < graph_arena_n(b.graph); i++) {
        cr_assert_eq(arena[i], b.grads[i], "element %zu is %g", i, (double)b.grads[i]);
    }
    mem_free(canonical);
    mem_free(arena);
    bench_destroy(&b);
}

struct order {
    int n, fail_at;
    int seen[64];
};

static enum status note(void *ctx, int i)
{
    struct order *o = ctx;

    o->seen[o->n++] = i;
    return o->n == o->fail_at ? ST_PEER : ST_OK;
}

Test(graph, hooks_come_in_arena_order)
{
    struct bench b = bench_residual(16, 9);
    struct order forward = {0}, backward = {0};
    struct graph_hooks f = {&forward, note, NULL}, w = {&backward, NULL, note};
    struct graph_result r;
    size_t end = 0;

    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 6, true, 0, &f, &r), ST_OK);
    cr_assert_eq(graph_backward(b.graph, 1.0f, &w), ST_OK);
    cr_assert_eq(forward.n, net_n_params(b.net));
    cr_assert_eq(backward.n, graph_n_params(b.graph));
    for (int i = 0; i < backward.n; i++) {
        struct graph_param p = graph_param(b.graph, i);
        cr_assert_eq(backward.seen[i], i);
        cr_assert_eq(p.offset % 16, 0);
        cr_assert_geq(p.offset, end);
        cr_assert_geq(p.n, net_param(b.net, p.param)->n);
        end = p.offset + p.n;
    }
    cr_assert_leq(end, graph_arena_n(b.graph));
    cr_assert_str_eq(graph_param_name(b.graph, 0), "fc");
    bench_destroy(&b);
}

Test(graph, an_error_of_a_hook_ends_the_pass)
{
    struct bench b = bench_residual(16, 9);
    struct order o = {.fail_at = 4};
    struct graph_hooks f = {&o, note, NULL}, w = {&o, NULL, note};
    struct graph_result r;

    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 6, true, 0, &f, &r), ST_PEER);
    cr_assert_eq(o.n, 4);
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 6, true, 0, NULL, &r), ST_OK);
    o.n = 0;
    cr_assert_eq(graph_backward(b.graph, 1.0f, &w), ST_PEER);
    cr_assert_eq(o.n, 4);
    bench_destroy(&b);
}

/* --- repetition --- */

Test(graph, repeats_bitwise_between_batch_sizes_and_replicas)
{
    struct bench a = bench_residual(16, 9), b = bench_residual(16, 9);
    size_t bytes = graph_arena_n(a.graph) * sizeof(float);
    float *first = mem_alloc(bytes, 1), *again = mem_alloc(bytes, 1);

    bench_gradients(&a, 6, 0, first);
    bench_gradients(&a, 1, 1, again);
    cr_assert_neq(memcmp(first, again, bytes), 0);
    bench_gradients(&a, 6, 2, again);
    cr_assert_arr_eq(first, again, bytes);
    bench_gradients(&b, 6, 0, again);
    cr_assert_arr_eq(first, again, bytes);
    mem_free(first);
    mem_free(again);
    bench_destroy(&a);
    bench_destroy(&b);
}

Test(graph, an_evaluation_between_changes_nothing)
{
    struct bench a = bench_residual(16, 9);
    size_t bytes = graph_arena_n(a.graph) * sizeof(float);
    float *first = mem_alloc(bytes, 1), *again = mem_alloc(bytes, 1);
    float *state = mem_alloc(graph_state_n(a.graph), sizeof *state);
    struct graph_result r;

    bench_gradients(&a, 5, 0, first);
    memcpy(state, graph_state(a.graph), graph_state_n(a.graph) * sizeof *state);
    cr_assert_eq(graph_forward(a.graph, a.x, a.labels, 6, false, 0, NULL, &r), ST_OK);
    cr_assert_arr_eq(state, graph_state(a.graph), graph_state_n(a.graph) * sizeof *state);
    cr_assert_eq(graph_backward(a.graph, 1.0f, NULL), ST_BADARG);
    bench_gradients(&a, 5, 0, again);
    cr_assert_arr_eq(first, again, bytes);
    mem_free(first);
    mem_free(again);
    mem_free(state);
    bench_destroy(&a);
}

/* --- batch norm's running statistics --- */

Test(graph, running_statistics)
{
    const size_t n = 4;
    struct bench_args args = {.batches = &n, .n_batches = 1};
    struct net *net;
    struct bench b;
    struct graph_result r;
    float before[6];

    cr_assert_eq(net_create("statistics", (struct shape){3, 2, 2}, &net), ST_OK);
    cr_assert_eq(net_finish(net, net_dense(net, net_batch_norm(net, 0, "n"), "d", 2, true), 2),
                 ST_OK);
    b = bench_create(net, &args);
    cr_assert_eq(graph_state_n(b.graph), 6);
    memcpy(before, graph_state(b.graph), sizeof before);
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, n, true, 0, NULL, &r), ST_OK);
    for (size_t c = 0; c < 3; c++) {
        double mean = 0.0, var = 0.0;
        for (size_t i = 0; i < 16; i++) {
            mean += (double)b.x[(i / 4 * 3 + c) * 4 + i % 4] / 16.0;
        }
        for (size_t i = 0; i < 16; i++) {
            var += pow((double)b.x[(i / 4 * 3 + c) * 4 + i % 4] - mean, 2.0) / 15.0;
        }
        cr_assert_eq(before[c], 0.0f);
        cr_assert_eq(before[3 + c], 1.0f);
        cr_assert_float_eq(graph_state(b.graph)[c], 0.1 * mean, 1e-6);
        cr_assert_float_eq(graph_state(b.graph)[3 + c], 0.9 + 0.1 * var, 1e-6);
    }
    bench_destroy(&b);
}

/* --- dropout --- */

static const struct node *dropout_node(const struct bench *b)
{
    for (int i = 0; i < b->graph->n_nodes; i++) {
        if (b->graph->nodes[i].op_node.kind == LAYER_DROPOUT) {
            return &b->graph->nodes[i];
        }
    }
    return NULL;
}

static struct bench dropout_bench(int rank, const size_t *n)
{
    struct net *net;
    struct bench b = {0};
    struct graph_args args = {.ops = nn_ops_find("cpu"),
                              .batches = n,
                              .n_batches = 1,
                              .training = true,
                              .n_threads = 1,
                              .seed = 3,
                              .rank = rank};

    cr_assert_eq(net_create("dropout", (struct shape){1000, 1, 1}, &net), ST_OK);
    cr_assert_eq(
        net_finish(net,
                   net_dense(net, net_dropout(net, net_dense(net, 0, "d0", 1000, true), 0.3), "d",
                             2, true),
                   2),
        ST_OK);
    args.net = net;
    b.net = net;
    cr_assert_eq(graph_create(&args, &b.graph), ST_OK);
    b.params = mem_alloc(graph_arena_n(b.graph), sizeof(float));
    b.grads = mem_alloc(graph_arena_n(b.graph), sizeof(float));
    b.x = mem_alloc(1000 * *n, sizeof(float));
    b.labels = mem_alloc(*n, sizeof(int32_t));
    for (size_t i = 0; i < 1000 * *n; i++) {
        b.x[i] = bench_random(1, i);
    }
    graph_init_params(b.graph, 1, b.params);
    graph_bind(b.graph, b.params, b.grads);
    return b;
}

Test(graph, dropout_keeps_its_share_and_repeats)
{
    const size_t n = 10, total = 10000;
    struct bench b = dropout_bench(0, &n), c = dropout_bench(1, &n);
    const struct node *d = dropout_node(&b), *other = dropout_node(&c);
    float *first = mem_alloc(total, sizeof *first), *whole = mem_alloc(total, sizeof *whole);
    struct graph_result r;
    size_t kept = 0;

    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, n, false, 5, NULL, &r), ST_OK);
    memcpy(whole, d->io.y, total * sizeof *whole);
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, n, true, 5, NULL, &r), ST_OK);
    memcpy(first, d->io.y, total * sizeof *first);
    for (size_t i = 0; i < total; i++) {
        float x = whole[i];
        cr_assert_neq(x, 0.0f);
        cr_assert(first[i] == 0.0f || fabsf(first[i] - x / 0.7f) <= 1e-6f * fabsf(x));
        kept += first[i] != 0.0f;
    }
    cr_assert(fabs((double)kept / (double)total - 0.7) < 0.02, "%zu kept", kept);
    cr_assert_eq(graph_backward(b.graph, 1.0f, NULL), ST_OK);
    for (size_t i = 0; i < total; i++) {
        cr_assert_eq(((const float *)d->io.dx[0])[i] != 0.0f, first[i] != 0.0f);
    }
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, n, true, 6, NULL, &r), ST_OK);
    cr_assert_neq(memcmp(first, d->io.y, total * sizeof *first), 0, "steps differ");
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, n, true, 5, NULL, &r), ST_OK);
    cr_assert_arr_eq(first, d->io.y, total * sizeof *first);
    cr_assert_eq(graph_forward(c.graph, c.x, c.labels, n, true, 5, NULL, &r), ST_OK);
    cr_assert_neq(memcmp(first, other->io.y, total * sizeof *first), 0, "ranks differ");
    mem_free(first);
    mem_free(whole);
    bench_destroy(&b);
    bench_destroy(&c);
}

/* --- loss --- */

Test(graph, ties_go_to_the_smaller_index)
{
    const size_t n = 7;
    struct bench_args args = {.batches = &n, .n_batches = 1};
    struct net *net;
    struct bench b;
    struct graph_result r;

    cr_assert_eq(net_create("ties", (struct shape){2, 1, 1}, &net), ST_OK);
    cr_assert_eq(net_finish(net, net_dense(net, 0, "d", 7, false), 7), ST_OK);
    b = bench_create(net, &args);
    memset(b.params, 0, graph_arena_n(b.graph) * sizeof *b.params); /* all outputs are equal */
    for (size_t i = 0; i < n; i++) {
        b.labels[i] = (int32_t)i;
    }
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, n, false, 0, NULL, &r), ST_OK);
    cr_assert_eq(r.top1, 1);
    cr_assert_eq(r.top5, 5);
    cr_assert_float_eq(r.loss_sum, 7.0 * log(7.0), 1e-6);
    b.params[0] = NAN;
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, n, false, 0, NULL, &r), ST_OK);
    cr_assert(isnan(r.loss_sum));
    bench_destroy(&b);
}

Test(graph, labels_out_of_range_are_bad_input)
{
    static const int32_t bad[] = {-1, 7, INT32_MAX, INT32_MIN};
    struct bench b = bench_residual(16, 9);
    struct graph_result r = {.n = 99};

    for (size_t i = 0; i < 4; i++) {
        b.labels[2] = bad[i];
        cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 5, true, 0, NULL, &r), ST_INPUT);
        cr_assert_eq(r.n, 99);
    }
    b.labels[2] = 0;
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 4, true, 0, NULL, &r), ST_BADARG);
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 5, true, 0, NULL, &r), ST_OK);
    bench_destroy(&b);
}

Test(graph, the_first_non_finite_layer_is_named)
{
    struct bench b = bench_residual(16, 9);
    size_t state_bytes = graph_state_n(b.graph) * sizeof(float);
    float *state = mem_alloc(state_bytes, 1);
    struct graph_result r;

    cr_assert_null(graph_find_nonfinite(b.graph));
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 6, true, 0, NULL, &r), ST_OK);
    memcpy(state, graph_state(b.graph), state_bytes);
    cr_assert_null(graph_find_nonfinite(b.graph));
    cr_assert_arr_eq(state, graph_state(b.graph), state_bytes);
    for (int i = 0; i < graph_n_params(b.graph); i++) {
        if (strcmp(graph_param_name(b.graph, i), "c3") == 0) {
            b.params[graph_param(b.graph, i).offset] = INFINITY;
        }
    }
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 6, true, 1, NULL, &r), ST_OK);
    cr_assert_not(isfinite(r.loss_sum));
    cr_assert_str_eq(graph_find_nonfinite(b.graph), "c3");
    b.x[0] = NAN;
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 6, true, 2, NULL, &r), ST_OK);
    cr_assert_str_eq(graph_find_nonfinite(b.graph), "input");
    mem_free(state);
    bench_destroy(&b);
}

/* --- building --- */

Test(graph, injected_failures_leave_nothing, .timeout = 600)
{
    struct net *net = bench_residual_net(16, 9, 0.5);
    struct graph_args args = {.net = net,
                              .ops = nn_ops_find("cpu"),
                              .batches = bench_batches,
                              .n_batches = 3,
                              .training = true,
                              .n_threads = 1};
    size_t live = mem_live(), k = 0;
    enum status st = ST_NOMEM;

    while (st != ST_OK) {
        struct graph *g = NULL;
        mem_fail_at(++k);
        st = graph_create(&args, &g);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        graph_destroy(g);
        cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
    }
    cr_assert_gt(k, 20);
    net_destroy(net);
}

Test(graph, memory_is_accounted_and_shared)
{
    struct net *net = bench_residual_net(16, 33, 0.0);
    const size_t n = 8;
    struct graph_args args = {.net = net,
                              .ops = nn_ops_find("cpu"),
                              .batches = &n,
                              .n_batches = 1,
                              .training = true,
                              .n_threads = 1};
    size_t before = mem_live_bytes(), values = 0;
    struct graph_memory training, forward;
    struct graph *g;

    cr_assert_eq(graph_create(&args, &g), ST_OK);
    training = graph_memory(g);
    cr_assert_leq(training.activations + training.gradients_of_activations + training.workspace +
                      training.derived_weights,
                  mem_live_bytes() - before);
    for (int i = 1; i < g->n_nodes; i++) {
        values += value_bytes(&g->values[g->nodes[i].op_node.output], n);
    }
    cr_assert_lt(training.activations + training.gradients_of_activations, 2 * values);
    cr_assert_gt(training.activations, values / 4);
    graph_destroy(g);
    args.training = false;
    cr_assert_eq(graph_create(&args, &g), ST_OK);
    forward = graph_memory(g);
    cr_assert_lt(forward.activations, training.activations);
    cr_assert_eq(forward.gradients_of_activations, 0);
    graph_destroy(g);
    net_destroy(net);
}

/* No two buffers that live at the same time may overlap. */
Test(graph, buffers_that_live_together_do_not_overlap)
{
    struct bench b = bench_residual(16, 9);
    const struct graph *g = b.graph;

    for (int i = 0; i < g->n_buffers; i++) {
        const struct buffer *p = &g->buffers[i];
        cr_assert_leq(p->offset + p->bytes, g->memory_bytes);
        for (int k = 0; k < i; k++) {
            const struct buffer *q = &g->buffers[k];
            cr_assert(p->last < q->first || q->last < p->first ||
                      p->offset + p->bytes <= q->offset || q->offset + q->bytes <= p->offset);
        }
    }
    bench_destroy(&b);
}
