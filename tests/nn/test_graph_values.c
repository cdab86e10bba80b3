#include <criterion/criterion.h>
#include <math.h>

#include "base/mem.h"
#include "nn/ops.h"
#include "tests/nn/reference.h"

/* Whole networks give the values and gradients of the reference, in fp32 and bf16. */

Test(graph_values, residual_net_matches)
{
    static const size_t channels[] = {16, 5};

    for (size_t i = 0; i < 2; i++) {
        struct bench b = bench_residual(channels[i], 9);
        for (size_t k = 0; k < 3; k++) {
            bench_check_loss(&b, bench_batches[k], true, 2e-5);
            bench_check_gradients(&b, bench_batches[k], 1.0f, 10, 5e-3);
            bench_check_loss(&b, bench_batches[k], false, 2e-5);
        }
        bench_destroy(&b);
        cr_assert_eq(mem_live(), 0);
    }
}

/* Channels and tiles enough for Winograd's algorithm. */
Test(graph_values, wide_convolutions_match, .timeout = 600)
{
    const size_t n[] = {16, 3};
    struct bench_args args = {.batches = n, .n_batches = 2};
    struct net *net;
    struct bench b;
    int x;

    cr_assert_eq(net_create("wide", (struct shape){3, 7, 8}, &net), ST_OK);
    x = net_relu(net, net_conv2d(net, 0, "c1", bench_conv3(32, 1)));
    x = net_relu(net, net_batch_norm(net, net_conv2d(net, x, "c2", bench_conv3(64, 1)), "n2"));
    x = net_conv2d(net, x, "c3", bench_conv3(32, 1));
    x = net_dense(net, x, "fc", 5, true);
    cr_assert_eq(net_finish(net, x, 5), ST_OK);
    b = bench_create(net, &args);
    bench_check_loss(&b, 16, true, 2e-5);
    bench_check_gradients(&b, 16, 1.0f, 4, 5e-3);
    bench_check_loss(&b, 3, true, 2e-5);
    bench_check_gradients(&b, 3, 1.0f, 4, 5e-3);
    bench_destroy(&b);
}

/* Every algorithm and layout that timing might choose, windows over the border included. */
Test(graph_values, every_variant_matches, .timeout = 600)
{
    const size_t n[] = {5, 2};

    for (int v = 1; v <= nn_ops_find("cpu")->n_variants; v++) {
        struct bench_args args = {.batches = n, .n_batches = 2, .forced_variant = v};
        struct net *net;
        struct bench b;
        int x;

        cr_assert_eq(net_create("variants", (struct shape){1, 15, 14}, &net), ST_OK);
        x = net_conv2d(net, 0, "c1", (struct conv_desc){.channels = 20, .kernel = 5, .bias = true});
        x = net_max_pool(net, x, (struct pool_desc){.kernel = 2});
        x = net_relu(net, net_conv2d(net, x, "c2",
                                     (struct conv_desc){
                                         .channels = 19, .kernel = 5, .pad = 3, .bias = true}));
        x = net_conv2d(net, x, "c3", bench_conv3(32, 2));
        x = net_conv2d(net, x, "c4", bench_conv3(32, 1));
        x = net_dense(net, x, "fc", 5, true);
        cr_assert_eq(net_finish(net, x, 5), ST_OK);
        b = bench_create(net, &args);
        for (size_t i = 0; i < 2; i++) {
            bench_check_loss(&b, n[i], true, 2e-5);
            bench_check_gradients(&b, n[i], 1.0f, 3, 5e-3);
        }
        bench_destroy(&b);
    }
}

Test(graph_values, two_threads_match)
{
    struct bench_args args = {.batches = bench_batches, .n_batches = 3, .n_threads = 2};
    struct bench b = bench_create(bench_residual_net(16, 9, 0.0), &args);

    bench_check_loss(&b, 5, true, 2e-5);
    bench_check_gradients(&b, 5, 1.0f, 6, 5e-3);
    bench_destroy(&b);
}

/* Data far from zero must not lose the variance's digits. */
Test(graph_values, norm_of_data_with_a_large_mean)
{
    const size_t n = 8;
    struct bench_args args = {.batches = &n, .n_batches = 1};
    struct net *net;
    struct bench b;

    cr_assert_eq(net_create("offset", (struct shape){3, 6, 6}, &net), ST_OK);
    cr_assert_eq(net_finish(net, net_dense(net, net_batch_norm(net, 0, "n"), "d", 2, true), 2),
                 ST_OK);
    b = bench_create(net, &args);
    for (size_t i = 0; i < n * 3 * 36; i++) {
        b.x[i] = 1000.0f + b.x[i];
    }
    bench_check_loss(&b, n, true, 1e-3);
    bench_destroy(&b);
}

/* Whether graphs of bf16 can be made here; if not, they must be refused. */
static bool has_bf16(void)
{
    struct net *net = bench_residual_net(16, 9, 0.0);
    struct graph_args args = {.net = net,
                              .ops = nn_ops_find("cpu"),
                              .batches = bench_batches,
                              .n_batches = 1,
                              .compute = GRAPH_BF16,
                              .n_threads = 1};
    struct graph *g;
    enum status st = graph_create(&args, &g);

    if (st == ST_OK) {
        graph_destroy(g);
    } else {
        cr_assert_eq(st, ST_UNSUPPORTED);
    }
    net_destroy(net);
    return st == ST_OK;
}

/* Add up the squares of the errors of all gradients of `b` for `n` samples, and of those of
 * `exact`. */
static void add_errors(struct bench *b, struct bench *exact, size_t n, double *error, double *size)
{
    size_t elements = net_param_elements(b->net);
    float *want = mem_alloc(elements, sizeof *want), *got = mem_alloc(elements, sizeof *got);

    bench_gradients(exact, n, 0, exact->grads);
    bench_gradients(b, n, 0, b->grads);
    cr_assert_eq(graph_export(exact->graph, exact->grads, want), ST_OK);
    cr_assert_eq(graph_export(b->graph, b->grads, got), ST_OK);
    for (size_t i = 0; i < elements; i++) {
        *error += pow((double)got[i] - (double)want[i], 2.0);
        *size += pow((double)want[i], 2.0);
    }
    mem_free(want);
    mem_free(got);
}

Test(graph_values, bf16_is_close_or_refused)
{
    if (!has_bf16()) {
        cr_skip_test("this processor has no bf16");
    }
    for (int v = 0; v <= nn_ops_find("cpu")->n_variants; v++) {
        struct bench_args args = {
            .batches = bench_batches, .n_batches = 3, .compute = GRAPH_BF16, .forced_variant = v};
        struct bench b = bench_create(bench_residual_net(16, 9, 0.0), &args);
        struct bench exact = bench_residual(16, 9);
        double error = 0.0, size = 0.0;
        for (size_t k = 0; k < 3; k++) {
            bench_check_loss(&b, bench_batches[k], true, 0.05);
            if (bench_batches[k] > 1) {
                add_errors(&b, &exact, bench_batches[k], &error, &size);
            }
        }
        cr_assert_lt(sqrt(error / size), 0.08, "variant %d", v);
        cr_assert_gt(error, 0.0, "bf16 cannot be exact");
        bench_destroy(&b);
        bench_destroy(&exact);
    }
}

/* Single gradients, for a network in which Winograd's algorithm can take every pass. */
Test(graph_values, bf16_gradients_match, .timeout = 600)
{
    const size_t n[] = {16, 3};

    if (!has_bf16()) {
        cr_skip_test("this processor has no bf16");
    }
    for (int v = 0; v <= nn_ops_find("cpu")->n_variants; v++) {
        struct bench_args args = {
            .batches = n, .n_batches = 2, .compute = GRAPH_BF16, .forced_variant = v};
        struct net *net;
        struct bench b;
        int x;

        cr_assert_eq(net_create("wide", (struct shape){3, 14, 16}, &net), ST_OK);
        x = net_conv2d(net, 0, "c1",
                       (struct conv_desc){.channels = 32, .kernel = 7, .pad = 3, .stride = 2});
        x = net_relu(net, x);
        x = net_relu(net, net_batch_norm(net, net_conv2d(net, x, "c2", bench_conv3(64, 1)), "n2"));
        x = net_conv2d(net, x, "c3", bench_conv3(32, 1));
        x = net_dense(net, x, "fc", 5, true);
        cr_assert_eq(net_finish(net, x, 5), ST_OK);
        b = bench_create(net, &args);
        for (size_t i = 0; i < 2; i++) {
            bench_check_loss(&b, n[i], true, 0.05);
            bench_check_gradients(&b, n[i], 1.0f, 4, 0.05);
        }
        bench_destroy(&b);
    }
}
