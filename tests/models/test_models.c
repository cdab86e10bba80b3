#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "models/models.h"

/* A [model] section as a config would hold it. */
static struct config_model section(const char *name, const char *shortcut)
{
    struct config_model m = {.name = (char *)name, .shortcut = (char *)shortcut};

    return m;
}

static struct net *make(const struct config_model *m, size_t c, size_t hw, int classes)
{
    struct net *n = NULL;

    cr_assert_eq(model_create(m, (struct shape){c, hw, hw}, classes, &n), ST_OK, "%s", m->name);
    return n;
}

struct known {
    const char *name, *shortcut;
    size_t c, hw;
    int classes;
    size_t params;
    double gflop; /* forward, per sample */
};

/* Counts as published or counted by hand from the tables of the papers. */
static const struct known known[] = {
    {"lenet", "projection", 1, 28, 10, 431080, 0.004586},
    {"alexnet", "projection", 3, 227, 1000, 60965224, 1.449},
    {"resnet20", "projection", 3, 32, 10, 272474, 0.081626},
    {"resnet32", "projection", 3, 32, 10, 466906, 0.138249},
    {"resnet44", "projection", 3, 32, 10, 661338, 0.194873},
    {"resnet56", "projection", 3, 32, 10, 855770, 0.251496},
    {"resnet20", "pad", 3, 32, 10, 269722, 0.081102},
    {"resnet32", "pad", 3, 32, 10, 464154, 0.137725},
    {"resnet44", "pad", 3, 32, 10, 658586, 0.194349},
    {"resnet56", "pad", 3, 32, 10, 853018, 0.250972},
    {"resnet18", "projection", 3, 224, 1000, 11689512, 3.628},
    {"resnet34", "projection", 3, 224, 1000, 21797672, 7.328},
    {"resnet50", "projection", 3, 224, 1000, 25557032, 8.178},
};
enum {
    N_KNOWN = sizeof known / sizeof known[0]
};

Test(models, have_the_parameters_and_flops_of_the_field)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        struct config_model m = section(known[i].name, known[i].shortcut);
        struct net *n = make(&m, known[i].c, known[i].hw, known[i].classes);
        double gflop = net_forward_flops(n) * 1e-9;

        cr_assert_eq(net_param_elements(n), known[i].params, "%s %s has %zu parameters",
                     known[i].name, known[i].shortcut, net_param_elements(n));
        cr_assert_float_eq(gflop, known[i].gflop, 0.0005 * known[i].gflop, "%s: %.6f GFLOP",
                           known[i].name, gflop);
        cr_assert_eq(net_classes(n), known[i].classes);
        cr_assert_str_eq(net_name(n), known[i].name);
        net_destroy(n);
    }
}

Test(models, every_registered_name_is_counted_above_or_is_the_mlp)
{
    size_t count = 0;

    for (const struct model_ops *m; (m = model_at(count)) != NULL; count++) {
        bool found = strcmp(m->name, "mlp") == 0;
        for (size_t i = 0; i < N_KNOWN; i++) {
            found = found || strcmp(known[i].name, m->name) == 0;
        }
        cr_assert(found, "%s", m->name);
        cr_assert_gt(strlen(m->desc), 10);
        for (size_t i = 0; i < count; i++) {
            cr_assert_str_neq(model_at(i)->name, m->name);
        }
    }
    cr_assert_eq(count, 10);
}

Test(models, mlp_has_the_widths_of_the_section)
{
    double widths[] = {300, 100};
    struct config_model m = section("mlp", "projection");
    struct net *n = make(&m, 1, 28, 10);

    cr_assert_eq(net_param_elements(n), 784 * 10 + 10, "no hidden layer: logistic regression");
    net_destroy(n);

    m.hidden.v = widths;
    m.hidden.n = 2;
    n = make(&m, 1, 28, 10);
    cr_assert_eq(net_param_elements(n), 784 * 300 + 300 + 300 * 100 + 100 + 100 * 10 + 10);
    net_destroy(n);
}

Test(models, mlp_refuses_widths_that_are_no_counts)
{
    static const double bad[] = {0.0, -5.0, 2.5, 1e300, NAN};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double widths[] = {16, bad[i]};
        struct config_model m = section("mlp", "projection");
        struct net *n = NULL;

        m.hidden.v = widths;
        m.hidden.n = 2;
        cr_assert_eq(model_create(&m, (struct shape){1, 8, 8}, 4, &n), ST_INPUT, "%g", bad[i]);
        cr_assert_null(n);
    }
    cr_assert_eq(mem_live(), 0);
}

static int count_kind(const struct net *n, enum layer_kind kind)
{
    int count = 0;

    for (int i = 0; i < net_n_layers(n); i++) {
        count += net_layer(n, i)->kind == kind;
    }
    return count;
}

Test(models, dropout_stands_where_the_files_say)
{
    static const struct {
        const char *name;
        int layers;
    } want[] = {{"mlp", 2}, {"lenet", 1}, {"alexnet", 2}, {"resnet20", 1}, {"resnet50", 1}};
    double widths[] = {30, 20};

    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct config_model m = section(want[i].name, "projection");
        struct net *n;

        m.hidden.v = widths;
        m.hidden.n = 2;
        n = make(&m, 3, 96, 7);
        cr_assert_eq(count_kind(n, LAYER_DROPOUT), 0, "%s", want[i].name);
        net_destroy(n);
        m.dropout = 0.25;
        n = make(&m, 3, 96, 7);
        cr_assert_eq(count_kind(n, LAYER_DROPOUT), want[i].layers, "%s", want[i].name);
        net_destroy(n);
    }
}

static const struct layer *find_layer(const struct net *n, const char *name)
{
    for (int i = 0; i < net_n_layers(n); i++) {
        if (strcmp(net_layer(n, i)->name, name) == 0) {
            return net_layer(n, i);
        }
    }
    cr_assert(false, "%s has no layer %s", net_name(n), name);
    return NULL;
}

static void assert_out(const struct net *n, const char *name, size_t c, size_t hw)
{
    struct shape s = find_layer(n, name)->out;

    cr_assert(s.c == c && s.h == hw && s.w == hw, "%s of %s is %zux%zux%zu", name, net_name(n), s.c,
              s.h, s.w);
}

Test(models, stages_have_the_shapes_of_the_papers)
{
    struct config_model m = section("lenet", "projection");
    struct net *n = make(&m, 1, 28, 10);

    assert_out(n, "conv1", 20, 24);
    assert_out(n, "conv2", 50, 8);
    cr_assert_eq(count_kind(n, LAYER_RELU), 1);
    net_destroy(n);

    m.name = (char *)"resnet32";
    n = make(&m, 3, 32, 10);
    assert_out(n, "layer1.4.conv2", 16, 32);
    assert_out(n, "layer2.4.conv2", 32, 16);
    assert_out(n, "layer3.4.conv2", 64, 8);
    cr_assert_eq(count_kind(n, LAYER_CONV2D) + count_kind(n, LAYER_DENSE), 32 + 2);
    net_destroy(n);

    m.shortcut = (char *)"pad";
    n = make(&m, 3, 32, 10);
    cr_assert_eq(count_kind(n, LAYER_CONV2D) + count_kind(n, LAYER_DENSE), 32);
    cr_assert_eq(count_kind(n, LAYER_PAD_CHANNELS), 2);
    net_destroy(n);

    m.name = (char *)"resnet50";
    n = make(&m, 3, 224, 1000);
    assert_out(n, "conv1", 64, 112);
    assert_out(n, "layer1.2.conv3", 256, 56);
    assert_out(n, "layer2.3.conv3", 512, 28);
    assert_out(n, "layer3.5.conv3", 1024, 14);
    assert_out(n, "layer4.2.conv3", 2048, 7);
    cr_assert_eq(find_layer(n, "layer2.0.conv2")->u.conv.stride, 2);
    cr_assert_eq(find_layer(n, "layer2.0.conv1")->u.conv.stride, 1);
    cr_assert_eq(count_kind(n, LAYER_CONV2D) + count_kind(n, LAYER_DENSE), 50 + 4);
    net_destroy(n);
}

/* Checks that the values of parameter `p` keep within `bound`, and almost reach it. */
static void assert_uniform(const struct net *n, int p, double bound)
{
    double most = 0.0;

    for (size_t i = 0; i < net_param(n, p)->n; i++) {
        most = fmax(most, fabs((double)net_init_value(n, p, 3, i)));
    }
    cr_assert_leq(most, bound * (1.0 + 1e-6));
    cr_assert_gt(most, bound * (net_param(n, p)->n > 1000 ? 0.99 : 0.5));
}

Test(models, layers_start_as_the_field_starts_them)
{
    struct config_model m = section("lenet", "projection");
    struct net *n = make(&m, 1, 28, 10);
    static const double fan_in[] = {25, 20 * 25, 800, 500};
    const struct layer *l;

    cr_assert_eq(net_n_params(n), 8);
    for (int i = 0; i < 8; i++) {
        assert_uniform(n, i, 1.0 / sqrt(fan_in[i / 2]));
    }
    net_destroy(n);

    m.name = (char *)"resnet18";
    n = make(&m, 3, 224, 1000);
    l = find_layer(n, "layer4.0.conv1");
    cr_assert_float_eq(net_param(n, l->params[0])->init_std, sqrt(2.0 / (512 * 9)), 1e-6);
    l = find_layer(n, "layer4.1.bn2");
    cr_assert_eq(net_init_value(n, l->params[0], 5, 511), 1.0f);
    cr_assert_eq(net_init_value(n, l->params[1], 5, 511), 0.0f);
    l = find_layer(n, "fc");
    assert_uniform(n, l->params[0], 1.0 / sqrt(512.0));
    assert_uniform(n, l->params[1], 1.0 / sqrt(512.0));
    net_destroy(n);

    m.name = (char *)"alexnet";
    n = make(&m, 3, 227, 1000);
    l = find_layer(n, "conv4");
    cr_assert_float_eq(net_param(n, l->params[0])->init_std, 0.01, 1e-9);
    cr_assert_eq(net_init_value(n, l->params[1], 5, 100), 1.0f);
    net_destroy(n);
}

Test(models, smallest_images_fit_and_smaller_ones_are_refused)
{
    for (size_t i = 0; model_at(i) != NULL; i++) {
        struct config_model m = section(model_at(i)->name, "projection");
        size_t least = model_at(i)->min_size;
        struct net *n = make(&m, 3, least, 10);

        net_destroy(n);
        n = NULL;
        cr_assert_eq(model_create(&m, (struct shape){3, least - 1, least}, 10, &n), ST_INPUT);
        cr_assert_eq(model_create(&m, (struct shape){3, least, least - 1}, 10, &n), ST_INPUT);
        cr_assert_eq(model_create(&m, (struct shape){3, least, least}, 0, &n), ST_INPUT);
        cr_assert_null(n);
    }
    cr_assert_eq(mem_live(), 0);
}

Test(models, what_a_section_gets_wrong_is_refused)
{
    static const char *const names[] = {"", "resnet", "resnet19", "LENET", "vgg"};
    struct config_model m = section("resnet20", "conv");
    struct net *n = NULL;

    cr_assert_eq(model_create(&m, (struct shape){3, 32, 32}, 10, &n), ST_INPUT, "shortcut conv");
    m = section("lenet", "projection");
    m.dropout = 1.0;
    cr_assert_eq(model_create(&m, (struct shape){1, 28, 28}, 10, &n), ST_INPUT, "dropout 1");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        m = section(names[i], "projection");
        cr_assert_eq(model_create(&m, (struct shape){3, 32, 32}, 10, &n), ST_INPUT, "'%s'",
                     names[i]);
    }
    cr_assert_null(n);
    cr_assert_eq(mem_live(), 0);
}

Test(models, an_unknown_name_is_answered_with_the_nearest, .init = cr_redirect_stderr)
{
    static const char *const names[][2] = {{"resnet", "resnet20"},
                                           {"ResNet5", "resnet56"},
                                           {"resnet19", "resnet18"},
                                           {"lnet", "lenet"}};
    struct net *n;
    FILE *f;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct config_model m = section(names[i][0], "projection");
        cr_assert_eq(model_create(&m, (struct shape){3, 32, 32}, 10, &n), ST_INPUT);
    }
    fflush(stderr);
    f = cr_get_redirected_stderr();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char line[256], want[64];

        snprintf(want, sizeof want, "did you mean '%s'?", names[i][1]);
        cr_assert_not_null(fgets(line, sizeof line, f));
        cr_assert_not_null(strstr(line, want), "%s: %s", want, line);
    }
}

Test(models, failed_allocations_leave_nothing_behind)
{
    double widths[] = {30, 20};

    for (size_t i = 0; model_at(i) != NULL; i++) {
        struct config_model m = section(model_at(i)->name, "projection");
        enum status st = ST_NOMEM;
        size_t failures = 0;

        m.hidden.v = widths;
        m.hidden.n = 2;
        for (size_t k = 1; st != ST_OK; k++) {
            struct net *n = NULL;
            mem_fail_at(k);
            st = model_create(&m, (struct shape){3, 96, 96}, 10, &n);
            mem_fail_at(0);
            cr_assert(st == ST_OK || st == ST_NOMEM, "%s, %zu: %s", m.name, k, status_text(st));
            cr_assert(st == ST_OK || n == NULL);
            failures += st != ST_OK;
            net_destroy(n);
            cr_assert_eq(mem_live(), 0, "%s: failure %zu leaks", m.name, k);
        }
        cr_assert_geq(failures, 8, "%s", m.name);
    }
}
