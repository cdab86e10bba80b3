#include <criterion/criterion.h>
#include <string.h>

#include "tests/nn/reference.h"

/* The network on which most tests of graphs are made. */

const size_t bench_batches[3] = {6, 5, 1};

struct conv_desc bench_conv3(size_t channels, size_t stride)
{
    return (struct conv_desc){.channels = channels, .kernel = 3, .pad = 1, .stride = stride};
}

struct net *bench_residual_net(size_t c, size_t size, double dropout)
{
    struct net *n;
    int x, y, z;

    cr_assert_eq(net_create("residual", (struct shape){3, size, size}, &n), ST_OK);
    x = net_relu(n, net_batch_norm(n, net_conv2d(n, 0, "stem", bench_conv3(c, 1)), "n0"));
    x = net_max_pool(n, x, (struct pool_desc){.kernel = 3, .stride = 2, .pad = 1});
    y = net_relu(n, net_batch_norm(n, net_conv2d(n, x, "c1", bench_conv3(c, 1)), "n1"));
    y = net_batch_norm(n, net_conv2d(n, y, "c2", bench_conv3(c, 1)), "n2");
    x = net_relu(n, net_add(n, y, x));
    y = net_relu(n, net_batch_norm(n, net_conv2d(n, x, "c3", bench_conv3(2 * c, 2)), "n3"));
    y = net_batch_norm(n, net_conv2d(n, y, "c4", bench_conv3(2 * c, 1)), "n4");
    z = net_conv2d(n, x, "short", (struct conv_desc){.channels = 2 * c, .kernel = 1, .stride = 2});
    x = net_relu(n, net_add(n, y, net_batch_norm(n, z, "n5")));
    x = net_dropout(n, net_global_pool(n, x), dropout);
    x = net_dense(n, x, "fc", 7, true);
    cr_assert_eq(net_finish(n, x, 7), ST_OK);
    return n;
}

struct bench bench_residual(size_t c, size_t size)
{
    struct bench_args args = {.batches = bench_batches, .n_batches = 3};

    return bench_create(bench_residual_net(c, size, 0.0), &args);
}

void bench_gradients(struct bench *b, size_t n, uint64_t step, float *out)
{
    struct graph_result r;

    cr_assert_eq(graph_forward(b->graph, b->x, b->labels, n, true, step, NULL, &r), ST_OK);
    cr_assert_eq(graph_backward(b->graph, 0.5f, NULL), ST_OK);
    memmove(out, b->grads, graph_arena_n(b->graph) * sizeof *out);
}
