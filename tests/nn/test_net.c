#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "nn/net.h"

static struct net *make(size_t c, size_t h, size_t w)
{
    struct net *n;

    cr_assert_eq(net_create("net", (struct shape){c, h, w}, &n), ST_OK);
    return n;
}

static void assert_shape(const struct net *n, int v, size_t c, size_t h, size_t w)
{
    struct shape s;

    cr_assert_geq(v, 0);
    s = net_layer(n, v)->out;
    cr_assert(s.c == c && s.h == h && s.w == w, "value %d is %zux%zux%zu, not %zux%zux%zu", v, s.c,
              s.h, s.w, c, h, w);
}

/* A small net with every kind of layer. Returns the status of net_finish. */
static enum status build_every_kind(struct net *n)
{
    int a, b, x[3];

    a = net_conv2d(n, 0, "conv", (struct conv_desc){.channels = 8, .kernel = 3, .pad = 1});
    a = net_relu(n, net_batch_norm(n, a, "norm"));
    a = net_max_pool(n, a, (struct pool_desc){.kernel = 3, .stride = 2, .pad = 1});
    b = net_conv2d(
        n, a, "grouped",
        (struct conv_desc){
            .channels = 12, .kernel = 3, .stride = 1, .pad = 1, .groups = 4, .bias = true});
    a = net_add(n, net_pad_channels(n, a, 12, 1), b);
    x[0] = a;
    x[1] = net_lrn(n, a, 5, 1e-4, 0.75, 2.0);
    x[2] = b;
    a = net_avg_pool(n, net_concat(n, x, 3), (struct pool_desc){.kernel = 2});
    a = net_dropout(n, net_global_pool(n, a), 0.5);
    return net_finish(n, net_dense(n, a, "fc", 5, true), 5);
}

Test(net, shapes_and_parameters_of_every_kind_of_layer)
{
    struct net *n = make(2, 9, 7);
    static const struct {
        const char *name;
        struct shape out;
    } want[] = {{"input", {2, 9, 7}},      {"conv", {8, 9, 7}},        {"norm", {8, 9, 7}},
                {"relu3", {8, 9, 7}},      {"max_pool4", {8, 5, 4}},   {"grouped", {12, 5, 4}},
                {"pad6", {12, 5, 4}},      {"add7", {12, 5, 4}},       {"lrn8", {12, 5, 4}},
                {"concat9", {36, 5, 4}},   {"avg_pool10", {36, 2, 2}}, {"pool11", {36, 1, 1}},
                {"dropout12", {36, 1, 1}}, {"fc", {5, 1, 1}},          {"loss", {1, 1, 1}}};

    cr_assert_eq(build_every_kind(n), ST_OK);
    cr_assert_eq(net_n_layers(n), (int)(sizeof want / sizeof want[0]));
    for (int i = 0; i < net_n_layers(n); i++) {
        cr_assert_str_eq(net_layer(n, i)->name, want[i].name);
        assert_shape(n, i, want[i].out.c, want[i].out.h, want[i].out.w);
    }
    cr_assert_eq(net_classes(n), 5);
    cr_assert_eq(net_n_params(n), 7);
    cr_assert_eq(net_param_elements(n), (size_t)(8 * 2 * 9 + 8 + 8 + 12 * 2 * 9 + 12 + 5 * 36 + 5));
    cr_assert_eq(net_forward_flops(n), 2.0 * 8 * 2 * 9 * 63 + 2.0 * 12 * 2 * 9 * 20 + 2.0 * 36 * 5);
    for (int i = 0; i < net_n_params(n); i++) {
        const struct param *p = net_param(n, i);
        const struct layer *l = net_layer(n, p->layer);
        size_t product = 1;
        for (int d = 0; d < p->n_dims; d++) {
            product *= p->dims[d];
        }
        cr_assert_eq(p->n, product);
        cr_assert(l->params[0] == i || l->params[1] == i);
    }
    net_destroy(n);
}

Test(net, windows_follow_the_rules_of_the_field)
{
    /* size, kernel, stride, pad, floor, ceil: the last ceil window must start before the padding */
    static const size_t c[][6] = {
        {224, 7, 2, 3, 112, 113}, {112, 3, 2, 1, 56, 57}, {5, 2, 2, 0, 2, 3}, {6, 3, 2, 0, 2, 3},
        {4, 2, 3, 1, 2, 2},       {7, 7, 1, 0, 1, 1},     {1, 3, 2, 1, 1, 1}, {3, 2, 2, 1, 2, 2}};

    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct net *n = make(3, c[i][0], c[i][0]);
        struct pool_desc d = {.kernel = c[i][1], .stride = c[i][2], .pad = c[i][3]};

        assert_shape(n, net_max_pool(n, 0, d), 3, c[i][4], c[i][4]);
        d.ceil_mode = true;
        assert_shape(n, net_avg_pool(n, 0, d), 3, c[i][5], c[i][5]);
        net_destroy(n);
    }
}

Test(net, pad_channels_keeps_every_stride_th_pixel)
{
    struct net *n = make(16, 33, 32);

    assert_shape(n, net_pad_channels(n, 0, 32, 2), 32, 17, 16);
    assert_shape(n, net_pad_channels(n, 0, 16, 1), 16, 33, 32);
    net_destroy(n);
}

/* One mistake each; every one must give -1 and spoil the net. */
enum {
    N_MISTAKES = 19
};

static int mistake(struct net *n, int which)
{
    int ok = net_conv2d(n, 0, "ok", (struct conv_desc){.channels = 6, .kernel = 1});
    int two[2] = {ok, 0};
    char long_name[80];

    memset(long_name, 'x', sizeof long_name);
    long_name[64] = '\0';
    switch (which) {
    case 0:
        return net_conv2d(n, ok, "a", (struct conv_desc){.channels = 6, .kernel = 9});
    case 1:
        return net_conv2d(n, ok, "a", (struct conv_desc){.channels = 6, .kernel = 3, .groups = 4});
    case 2:
        return net_conv2d(n, ok, "a", (struct conv_desc){.channels = 6});
    case 3:
        return net_conv2d(n, ok, "a", (struct conv_desc){.kernel = 3});
    case 4:
        return net_conv2d(n, ok, "ok", (struct conv_desc){.channels = 6, .kernel = 3});
    case 5:
        return net_conv2d(n, ok, long_name, (struct conv_desc){.channels = 6, .kernel = 3});
    case 6:
        return net_dense(n, ok, "", 4, true);
    case 7:
        return net_dense(n, ok, "a", 0, true);
    case 8:
        return net_dense(n, ok, "a", SIZE_MAX / 16, true);
    case 9:
        return net_max_pool(n, ok, (struct pool_desc){.kernel = 2, .pad = 2});
    case 10:
        return net_max_pool(n, ok, (struct pool_desc){.kernel = 9});
    case 11:
        return net_add(n, ok, 0);
    case 12:
        return net_concat(n, two, 0);
    case 13:
        return net_concat(n, two, LAYER_MAX_INPUTS + 1);
    case 14:
        return net_lrn(n, ok, 4, 1e-4, 0.75, 1.0);
    case 15:
        return net_dropout(n, ok, 1.0);
    case 16:
        return net_pad_channels(n, ok, 5, 1);
    case 17:
        return net_relu(n, 7);
    default:
        two[1] = net_global_pool(n, ok);
        return net_concat(n, two, 2);
    }
}

Test(net, a_mistake_gives_minus_one_and_is_passed_on)
{
    for (int i = 0; i < N_MISTAKES; i++) {
        struct net *n = make(3, 8, 8);
        int x = mistake(n, i), before;

        cr_assert_eq(x, -1, "mistake %d", i);
        before = net_n_layers(n);
        x = net_relu(n, net_batch_norm(n, x, "later"));
        x = net_add(n, x, net_max_pool(n, x, (struct pool_desc){.kernel = 2}));
        x = net_dropout(n, net_lrn(n, x, 3, 1e-4, 0.75, 1.0), 0.5);
        net_init_last(n, PARAM_WEIGHT, 1.0f, 0.0f, 0.0f);
        cr_assert_eq(x, -1, "mistake %d", i);
        cr_assert_eq(net_relu(n, 0), -1, "mistake %d: a spoilt net takes no layers", i);
        cr_assert_eq(net_n_layers(n), before);
        cr_assert_eq(net_finish(n, net_dense(n, 0, "fc", 10, true), 10), ST_INPUT, "mistake %d", i);
        net_destroy(n);
    }
}

Test(net, finish_refuses_unused_values_and_wrong_classes)
{
    struct net *n = make(3, 8, 8);
    int fc;

    (void)net_relu(n, 0);
    fc = net_dense(n, 0, "fc", 10, true);
    cr_assert_eq(net_finish(n, fc, 10), ST_INPUT, "relu1 feeds nothing");
    net_destroy(n);

    n = make(3, 8, 8);
    cr_assert_eq(net_finish(n, net_dense(n, 0, "fc", 10, true), 11), ST_INPUT);
    net_destroy(n);

    n = make(3, 8, 8);
    cr_assert_eq(net_finish(n, net_dense(n, 0, "fc", 10, true), 0), ST_INPUT);
    net_destroy(n);

    n = make(10, 1, 1);
    cr_assert_eq(net_finish(n, 0, 10), ST_OK, "an input may go straight to the loss");
    cr_assert_eq(net_relu(n, 0), -1, "a finished net takes no layers");
    net_destroy(n);
}

Test(net, empty_inputs_are_refused)
{
    struct net *n;

    cr_assert_eq(net_create("e", (struct shape){0, 8, 8}, &n), ST_INPUT);
    cr_assert_eq(net_create("e", (struct shape){1, 8, 0}, &n), ST_INPUT);
    cr_assert_eq(net_create("e", (struct shape){SIZE_MAX / 2, 8, 8}, &n), ST_INPUT);
    cr_assert_eq(mem_live(), 0);
}

Test(net, dropout_of_rate_zero_is_nothing)
{
    struct net *n = make(1, 4, 4);
    int x = net_relu(n, 0);

    cr_assert_eq(net_dropout(n, x, 0.0), x);
    net_destroy(n);
}

static int find_param(const struct net *n, const char *layer, enum param_role role)
{
    for (int i = 0; i < net_n_params(n); i++) {
        const struct param *p = net_param(n, i);
        if (p->role == role && strcmp(net_layer(n, p->layer)->name, layer) == 0) {
            return i;
        }
    }
    cr_assert(false, "no such parameter in %s", layer);
    return -1;
}

static void moments(const struct net *n, int p, double *mean, double *std, double *most)
{
    size_t count = net_param(n, p)->n;
    double sum = 0.0, squares = 0.0;

    *most = 0.0;
    for (size_t i = 0; i < count; i++) {
        double v = net_init_value(n, p, 42, i);
        sum += v;
        squares += v * v;
        *most = fmax(*most, fabs(v));
    }
    *mean = sum / (double)count;
    *std = sqrt(squares / (double)count - *mean * *mean);
}

Test(net, start_values_have_their_distribution)
{
    struct net *n = make(32, 8, 8);
    double mean, std, most;
    int x, p;

    x = net_conv2d(n, 0, "conv", (struct conv_desc){.channels = 64, .kernel = 3, .bias = true});
    x = net_batch_norm(n, x, "norm");
    x = net_dense(n, x, "fc1", 100, true);
    x = net_dense(n, x, "fc2", 1000, true);
    net_init_last(n, PARAM_WEIGHT, 0.0f, 0.1f, 0.0f);
    net_init_last(n, PARAM_BIAS, 0.0f, 0.0f, 0.25f);
    cr_assert_eq(net_finish(n, x, 1000), ST_OK);

    p = find_param(n, "conv", PARAM_WEIGHT);
    moments(n, p, &mean, &std, &most);
    cr_assert_float_eq(std, sqrt(2.0 / (64 * 9)), 0.02 * std); /* 18432 values: 4 sigma is 2 % */
    cr_assert_float_eq(mean, 0.0, 4.0 * std / sqrt(18432));
    cr_assert_gt(most, 3.0 * std, "a normal distribution has tails");

    moments(n, find_param(n, "fc1", PARAM_WEIGHT), &mean, &std, &most);
    cr_assert_float_eq(std, sqrt(2.0 / (64 * 36)), 0.01 * std);

    moments(n, find_param(n, "fc2", PARAM_WEIGHT), &mean, &std, &most);
    cr_assert_float_eq(std, 0.1 / sqrt(3.0), 0.01 * std);
    cr_assert_float_eq(mean, 0.0, 4.0 * std / sqrt(100000));
    cr_assert(most <= 0.1 && most > 0.0999);

    cr_assert_eq(net_init_value(n, find_param(n, "fc2", PARAM_BIAS), 1, 999), 0.25f);
    cr_assert_eq(net_init_value(n, find_param(n, "conv", PARAM_BIAS), 1, 63), 0.0f);
    cr_assert_eq(net_init_value(n, find_param(n, "norm", PARAM_GAMMA), 1, 63), 1.0f);
    cr_assert_eq(net_init_value(n, find_param(n, "norm", PARAM_BETA), 1, 63), 0.0f);
    net_destroy(n);
}

Test(net, start_values_are_a_pure_function_of_seed_parameter_and_element)
{
    struct net *a = make(2, 9, 7), *b = make(2, 9, 7);
    int p, q;
    size_t same = 0;

    cr_assert_eq(build_every_kind(a), ST_OK);
    cr_assert_eq(build_every_kind(b), ST_OK);
    p = find_param(a, "grouped", PARAM_WEIGHT);
    q = find_param(a, "conv", PARAM_WEIGHT);
    for (size_t i = net_param(a, p)->n; i-- > 0;) { /* backwards: the order of calls is no matter */
        float v = net_init_value(a, p, 7, i);
        cr_assert_eq(v, net_init_value(b, p, 7, i));
        same += v == net_init_value(a, p, 8, i);
        same +=
            i < net_param(a, q)->n &&
            v * net_param(a, q)->init_std == net_init_value(a, q, 7, i) * net_param(a, p)->init_std;
    }
    cr_assert_leq(same, 1, "seeds and parameters differ");
    net_destroy(a);
    net_destroy(b);
}

Test(net, init_of_a_missing_role_is_refused)
{
    struct net *n = make(1, 4, 4);
    int x = net_dense(n, 0, "fc", 3, false);

    net_init_last(n, PARAM_BIAS, 0.0f, 0.0f, 1.0f);
    cr_assert_eq(net_finish(n, x, 3), ST_INPUT);
    net_destroy(n);
}

Test(net, failed_allocations_leave_nothing_behind)
{
    enum status st = ST_NOMEM;
    size_t failures = 0;

    for (size_t k = 1; st != ST_OK; k++) {
        struct net *n = NULL;
        mem_fail_at(k);
        st = net_create("net", (struct shape){2, 9, 7}, &n);
        if (st == ST_OK) {
            st = build_every_kind(n);
        }
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "failure %zu: %s", k, status_text(st));
        net_destroy(n);
        cr_assert_eq(mem_live(), 0, "failure %zu leaks", k);
        failures += st != ST_OK;
    }
    cr_assert_geq(failures, 8);
}

Test(net, printed_rows_add_up_to_the_totals)
{
    struct net *n = make(2, 9, 7);
    FILE *f = tmpfile();
    char line[256], name[64];
    uint64_t flops = 0, sum_flops = 0;
    size_t params = 0, sum_params = 0;
    int rows = 0;

    cr_assert_eq(build_every_kind(n), ST_OK);
    net_print(n, f);
    rewind(f);
    while (fgets(line, sizeof line, f) != NULL) {
        char *end = strrchr(line, ' ');
        char *middle = end;
        if (sscanf(line, "%63s", name) != 1 || sscanf(end, "%" SCNu64, &flops) != 1) {
            continue; /* a heading */
        }
        while (middle > line && *middle == ' ') {
            middle--;
        }
        while (middle > line && *middle != ' ') {
            middle--;
        }
        cr_assert_eq(sscanf(middle, "%zu", &params), 1, "%s", line);
        if (strcmp(name, "total") != 0) {
            cr_assert_str_eq(name, net_layer(n, rows)->name);
            sum_params += params;
            sum_flops += flops;
            rows++;
        }
    }
    fclose(f);
    cr_assert_eq(rows, net_n_layers(n));
    cr_assert_eq(params, sum_params);
    cr_assert_eq(params, net_param_elements(n));
    cr_assert_eq(flops, sum_flops);
    cr_assert_eq((double)flops, net_forward_flops(n));
    net_destroy(n);
}
