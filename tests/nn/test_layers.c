#include <criterion/criterion.h>

#include "base/mem.h"
#include "tests/nn/reference.h"

/* Every layer kind over awkward shapes: loss and gradients against the plain loops. */

enum {
    CLASSES = 3
};

static const size_t batches[] = {7, 3, 1};

static struct net *start(const char *name, size_t c, size_t h, size_t w)
{
    struct net *n;

    cr_assert_eq(net_create(name, (struct shape){c, h, w}, &n), ST_OK);
    return n;
}

/* Finish with a dense layer and check all batch sizes. */
static void check(struct net *n, int x)
{
    struct bench_args args = {.batches = batches, .n_batches = 3};
    struct bench b;
    size_t live = 0;

    x = net_dense(n, x, "last", CLASSES, true);
    cr_assert_eq(net_finish(n, x, CLASSES), ST_OK);
    b = bench_create(n, &args);
    for (size_t i = 0; i < 3; i++) {
        bench_check_loss(&b, batches[i], true, 1e-5);
        bench_check_gradients(&b, batches[i], 0.25f, 6, 2e-3);
        bench_check_loss(&b, batches[i], false, 1e-5);
    }
    bench_destroy(&b);
    cr_assert_eq(mem_live(), live);
}

Test(layers, dense)
{
    struct net *n = start("one", 1, 1, 1);
    check(n, 0);
    n = start("plain input", 3, 4, 5);
    check(n, net_relu(n, net_dense(n, 0, "d1", 33, true)));
    n = start("no bias", 17, 1, 1);
    check(n, net_dense(n, net_relu(n, net_dense(n, 0, "d1", 5, false)), "d2", 4, true));
}

struct conv_case {
    size_t c, h, w;
    struct conv_desc d;
};

Test(layers, conv)
{
    static const struct conv_case cases[] = {
        {1, 7, 5, {.channels = 4, .kernel = 3, .pad = 1, .bias = true}},
        {3, 9, 9, {.channels = 16, .kernel = 3, .stride = 2, .pad = 1}},
        {3, 12, 11, {.channels = 20, .kernel = 5, .bias = true}},
        {4, 6, 6, {.channels = 6, .kernel = 1, .stride = 2}},
        {2, 1, 1, {.channels = 5, .kernel = 1, .bias = true}},
        {1, 1, 1, {.channels = 16, .kernel = 3, .pad = 1}},
        {16, 7, 7, {.channels = 32, .kernel = 3, .pad = 1}},
        {5, 8, 7, {.channels = 7, .kernel = 7, .stride = 2, .pad = 3, .bias = true}},
        {8, 6, 5, {.channels = 8, .kernel = 3, .pad = 1, .groups = 8}},
        {6, 6, 6, {.channels = 4, .kernel = 3, .stride = 2, .groups = 2, .bias = true}},
        {32, 5, 5, {.channels = 32, .kernel = 3, .pad = 1, .groups = 2}},
        {16, 4, 4, {.channels = 16, .kernel = 3, .pad = 1, .groups = 16, .bias = true}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct conv_case *k = &cases[i];
        struct net *n = start("conv on the input", k->c, k->h, k->w);
        check(n, net_conv2d(n, 0, "c", k->d));
        n = start("conv behind a conv", k->c, k->h, k->w);
        check(n,
              net_relu(n, net_conv2d(n,
                                     net_conv2d(n, 0, "c0",
                                                (struct conv_desc){
                                                    .channels = k->c, .kernel = 1, .bias = true}),
                                     "c", k->d)));
    }
}

static struct conv_desc to(size_t channels)
{
    return (struct conv_desc){.channels = channels, .kernel = 3, .pad = 1, .bias = true};
}

Test(layers, norm)
{
    static const size_t channels[] = {1, 3, 16, 20, 33};

    for (size_t i = 0; i < 5; i++) {
        struct net *n = start("norm", 2, 5, 4);
        check(n, net_batch_norm(n, net_conv2d(n, 0, "c", to(channels[i])), "n"));
        n = start("norm and relu", 2, 5, 4);
        check(n, net_relu(n, net_batch_norm(n, net_conv2d(n, 0, "c", to(channels[i])), "n")));
        n = start("norm of a vector", 4, 1, 1);
        check(n, net_relu(n, net_batch_norm(n, net_dense(n, 0, "d", channels[i], true), "n")));
    }
    struct net *n = start("norm of the input", 3, 4, 4);
    check(n, net_batch_norm(n, 0, "n"));
}

Test(layers, residual)
{
    static const size_t channels[] = {3, 16, 24};

    for (size_t i = 0; i < 3; i++) {
        for (int relu = 0; relu < 2; relu++) {
            struct net *n = start("norm + add", 3, 6, 5);
            int a = net_relu(n, net_conv2d(n, 0, "c1", to(channels[i])));
            int b = net_batch_norm(n, net_conv2d(n, a, "c2", to(channels[i])), "n2");
            int c = net_add(n, relu ? b : a, relu ? a : b);
            check(n, relu ? net_relu(n, c) : c);
            n = start("norm + norm", 3, 6, 5);
            a = net_relu(n, net_conv2d(n, 0, "c1", to(channels[i])));
            b = net_batch_norm(n, net_conv2d(n, a, "c2", to(channels[i])), "n2");
            c = net_batch_norm(n, net_conv2d(n, a, "c3", to(channels[i])), "n3");
            c = net_add(n, b, c);
            check(n, relu ? net_relu(n, c) : c);
            n = start("plain add", 3, 6, 5);
            a = net_conv2d(n, 0, "c1", to(channels[i]));
            b = net_conv2d(n, a, "c2", to(channels[i]));
            c = net_add(n, a, net_relu(n, b));
            check(n, relu ? net_relu(n, c) : c);
        }
    }
}

Test(layers, shared_values)
{
    struct net *n = start("four readers", 2, 5, 5);
    int a = net_conv2d(n, 0, "c", to(16));
    int b = net_relu(n, a);
    int s = net_add(n, net_add(n, a, b), net_add(n, net_conv2d(n, a, "c2", to(16)), a));
    check(n, net_add(n, s, s));
    n = start("input read twice", 3, 4, 4);
    a = net_conv2d(n, 0, "c1", to(16));
    b = net_conv2d(n, 0, "c2", to(5));
    int both[] = {a, b, a};
    check(n, net_concat(n, both, 3));
}

Test(layers, pools)
{
    static const struct pool_desc cases[] = {
        {.kernel = 2, .stride = 2},
        {.kernel = 3, .stride = 2, .pad = 1},
        {.kernel = 3, .stride = 2, .ceil_mode = true},
        {.kernel = 3, .stride = 1, .pad = 1, .count_padding = true},
        {.kernel = 2, .stride = 3, .ceil_mode = true, .pad = 1, .count_padding = true},
        {.kernel = 5, .stride = 5, .pad = 2},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t c = 3; c <= 51; c += 13) { /* 3, 16, 29, 42 channels */
            struct net *n = start("max", 2, 7, 6);
            check(n, net_max_pool(n, net_conv2d(n, 0, "c", to(c)), cases[i]));
            n = start("average", 2, 7, 6);
            check(n, net_avg_pool(n, net_conv2d(n, 0, "c", to(c)), cases[i]));
        }
    }
    struct net *n = start("global", 2, 7, 6);
    check(n, net_global_pool(n, net_conv2d(n, 0, "c", to(20))));
    n = start("pool of the input", 3, 6, 7);
    check(n, net_conv2d(n, net_max_pool(n, 0, cases[1]), "c", to(4)));
    n = start("between layouts", 1, 12, 12);
    int a = net_max_pool(n, net_conv2d(n, 0, "c", to(20)), cases[0]);
    check(n, net_max_pool(n, net_conv2d(n, a, "c2", to(50)), cases[0]));
}

Test(layers, concat)
{
    static const size_t parts[][2] = {{16, 32}, {3, 5}, {16, 7}};

    for (size_t i = 0; i < 3; i++) {
        struct net *n = start("concat", 2, 4, 3);
        int x[2] = {net_conv2d(n, 0, "c1", to(parts[i][0])),
                    net_relu(n, net_conv2d(n, 0, "c2", to(parts[i][1])))};
        check(n, net_conv2d(n, net_concat(n, x, 2), "c3", to(4)));
    }
}

Test(layers, lrn)
{
    static const size_t channels[] = {3, 16, 20};

    for (size_t i = 0; i < 3; i++) {
        struct net *n = start("lrn", 2, 4, 3);
        check(n, net_lrn(n, net_conv2d(n, 0, "c", to(channels[i])), 5, 0.3, 0.75, 1.5));
    }
}

Test(layers, pad_channels)
{
    static const size_t channels[][2] = {{16, 32}, {3, 8}, {20, 33}, {16, 16}};

    for (size_t i = 0; i < 4; i++) {
        struct net *n = start("pad channels", 2, 7, 5);
        int a = net_conv2d(n, 0, "c", to(channels[i][0]));
        check(n, net_pad_channels(n, a, channels[i][1], 2));
    }
}
