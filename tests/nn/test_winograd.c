#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "nn/onednn/od_conv_winograd.h"
#include "tests/nn/reference.h"

/*
 * Winograd's convolutions against the definition. The data are small integers, and weights
 * multiples of 4, so that nothing is rounded before the result and equality is exact.
 */

struct setting {
    size_t c, h, w, o, pad, n;
    int n_threads;
    bool relu;
};

struct rig {
    struct setting s;
    struct net *net;
    struct op_node node;
    struct value_desc in, out;
    struct od lib;
    uint16_t *x, *y;
    float *w; /* as the kernels read them */
    size_t n_w;
};

static struct value_desc blocked(struct shape s)
{
    return (struct value_desc){.shape = s, .layout = LAYOUT_BLOCKED, .dtype = GRAPH_BF16};
}

static struct rig rig_create(const struct setting *s)
{
    struct conv_desc d = {.channels = s->o, .kernel = 3, .pad = s->pad, .stride = 1};
    struct rig r = {.s = *s, .lib = {.n_threads = s->n_threads}};
    int conv;

    cr_assert_eq(net_create("one", (struct shape){s->c, s->h, s->w}, &r.net), ST_OK);
    conv = net_conv2d(r.net, 0, "conv", d);
    r.node = (struct op_node){.kind = LAYER_CONV2D,
                              .net = r.net,
                              .layer = net_layer(r.net, conv),
                              .relu = s->relu,
                              .n_inputs = 1,
                              .output = conv};
    r.in = blocked(net_layer(r.net, 0)->out);
    r.out = blocked(net_layer(r.net, conv)->out);
    r.n_w = od_chunks(&r.in) * od_chunks(&r.out) * 9 * KERNEL_LANES * KERNEL_LANES;
    r.x = mem_alloc(value_bytes(&r.in, s->n), 1);
    r.y = mem_alloc(value_bytes(&r.out, s->n), 1);
    r.w = mem_alloc(r.n_w, sizeof *r.w);
    return r;
}

static void rig_destroy(struct rig *r)
{
    net_destroy(r->net);
    mem_free(r->x);
    mem_free(r->y);
    mem_free(r->w);
}

static size_t per_sample(const struct value_desc *v)
{
    return v->shape.c * v->shape.h * v->shape.w;
}

/* Integers from -2 to 2. */
static void fill_value(const struct value_desc *v, size_t n, uint64_t stream, uint16_t *base)
{
    for (size_t i = 0; i < n * per_sample(v); i++) {
        size_t at = i / per_sample(v) * value_elements(v) + value_index(v, i % per_sample(v));
        od_put(GRAPH_BF16, base, at, (float)(int)(3.0f * bench_random(stream, i)));
    }
}

/* 0 outside. */
static double value(const struct value_desc *v, const uint16_t *base, size_t n, size_t c, size_t h,
                    size_t w)
{
    struct shape s = v->shape;

    if (h >= s.h || w >= s.w) {
        return 0.0;
    }
    return (double)od_get(GRAPH_BF16, base,
                          n * value_elements(v) + value_index(v, (c * s.h + h) * s.w + w));
}

static float *weight(const struct rig *r, size_t o, size_t c, size_t a, size_t b)
{
    size_t block = o / KERNEL_LANES * od_chunks(&r->in) + c / KERNEL_LANES;

    return &r->w[((block * 9 + 3 * a + b) * KERNEL_LANES + c % KERNEL_LANES) * KERNEL_LANES +
                 o % KERNEL_LANES];
}

static void fill_weights(const struct rig *r)
{
    for (size_t o = 0; o < r->s.o; o++) {
        for (size_t c = 0; c < r->s.c; c++) {
            for (size_t k = 0; k < 9; k++) {
                float f = bench_random(3, (o * r->s.c + c) * 9 + k);
                *weight(r, o, c, k / 3, k % 3) = 4.0f * (float)(int)(3.0f * f);
            }
        }
    }
}

static void run(const struct rig *r, enum od_pass pass)
{
    struct conv_winograd w;
    void *scratch;

    cr_assert(conv_winograd_init(&w, &r->lib, &r->node, &r->in, &r->out, r->s.n, pass));
    scratch = mem_alloc(conv_winograd_scratch(&w), 1);
    memset(scratch, 0xff,
           conv_winograd_scratch(&w)); /* NaN: nothing may be read before it is written */
    conv_winograd_run(&w, &r->lib, r->x, r->y, r->w, scratch);
    mem_free(scratch);
}

static double output(const struct rig *r, size_t n, size_t o, size_t h, size_t w)
{
    double sum = 0.0;

    for (size_t c = 0; c < r->s.c; c++) {
        for (size_t k = 0; k < 9; k++) {
            sum += (double)*weight(r, o, c, k / 3, k % 3) *
                   value(&r->in, r->x, n, c, h + k / 3 - r->s.pad, w + k % 3 - r->s.pad);
        }
    }
    return r->s.relu && sum < 0.0 ? 0.0 : sum;
}

static double input_gradient(const struct rig *r, size_t n, size_t c, size_t h, size_t w)
{
    double sum = 0.0;

    for (size_t o = 0; o < r->s.o; o++) {
        for (size_t k = 0; k < 9; k++) {
            sum += (double)*weight(r, o, c, k / 3, k % 3) *
                   value(&r->out, r->y, n, o, h + r->s.pad - k / 3, w + r->s.pad - k % 3);
        }
    }
    return sum;
}

static double weight_gradient(const struct rig *r, size_t o, size_t c, size_t a, size_t b)
{
    double sum = 0.0;

    for (size_t i = 0; i < r->s.n * r->out.shape.h * r->out.shape.w; i++) {
        size_t w = i % r->out.shape.w, h = i / r->out.shape.w % r->out.shape.h;
        size_t n = i / r->out.shape.w / r->out.shape.h;
        sum += value(&r->out, r->y, n, o, h, w) *
               value(&r->in, r->x, n, c, h + a - r->s.pad, w + b - r->s.pad);
    }
    return sum;
}

/* Every element, or of a large value about a thousand. */
static size_t stride_of(size_t n)
{
    return n <= 4096 ? 1 : n / 1024 + 1;
}

static void check_value(const struct rig *r, const struct value_desc *v, const uint16_t *base,
                        double (*want)(const struct rig *r, size_t n, size_t c, size_t h, size_t w),
                        const char *what)
{
    size_t all = r->s.n * per_sample(v);
    uint16_t rounded;

    for (size_t i = 0; i < all; i += stride_of(all)) {
        size_t w = i % v->shape.w, h = i / v->shape.w % v->shape.h;
        size_t c = i / v->shape.w / v->shape.h % v->shape.c, n = i / per_sample(v);
        double got = value(v, base, n, c, h, w), exact = want(r, n, c, h, w);
        od_put(GRAPH_BF16, &rounded, 0, (float)exact);
        cr_assert_eq(got, (double)od_get(GRAPH_BF16, &rounded, 0),
                     "%s of %zux%zux%zu > %zu, sample %zu, channel %zu, (%zu, %zu): %g, not %g",
                     what, r->s.c, r->s.h, r->s.w, r->s.o, n, c, h, w, got, exact);
    }
}

/* Blocked values keep zeros in the lanes of padding. */
static void check_padding(const struct value_desc *v, size_t n, const uint16_t *base)
{
    size_t pixels = v->shape.h * v->shape.w;

    for (size_t i = 0; i < n * value_elements(v); i++) {
        size_t in = i % value_elements(v);
        size_t channel = in / KERNEL_LANES / pixels * KERNEL_LANES + in % KERNEL_LANES;
        cr_assert(channel < v->shape.c || od_get(GRAPH_BF16, base, i) == 0.0f);
    }
}

static void check_weights(const struct rig *r)
{
    size_t all = r->s.o * r->s.c * 9;

    for (size_t i = 0; i < all; i += stride_of(all)) {
        size_t o = i / 9 / r->s.c, c = i / 9 % r->s.c, a = i % 9 / 3, b = i % 3;
        cr_assert_eq((double)*weight(r, o, c, a, b), weight_gradient(r, o, c, a, b),
                     "weight %zu, %zu, (%zu, %zu) of %zux%zux%zu > %zu", o, c, a, b, r->s.c, r->s.h,
                     r->s.w, r->s.o);
    }
}

static void check(const struct setting *s)
{
    struct rig r = rig_create(s);

    fill_weights(&r);
    fill_value(&r.in, s->n, 1, r.x);
    run(&r, OD_FORWARD);
    check_value(&r, &r.out, r.y, output, "forward");
    check_padding(&r.out, s->n, r.y);
    fill_value(&r.out, s->n, 2, r.y);
    memset(r.x, 0xff, value_bytes(&r.in, s->n));
    run(&r, OD_BACKWARD_DATA);
    check_value(&r, &r.in, r.x, input_gradient, "gradient of the input");
    check_padding(&r.in, s->n, r.x);
    fill_value(&r.in, s->n, 4, r.x);
    memset(r.w, 0xff, r.n_w * sizeof *r.w);
    run(&r, OD_BACKWARD_WEIGHTS);
    check_weights(&r);
    rig_destroy(&r);
    cr_assert_eq(mem_live(), 0);
}

/* Even and odd sizes, channels that fill blocks or not, all paddings, threads. */
Test(winograd, every_shape_is_exact)
{
    static const struct setting settings[] = {
        {16, 8, 8, 16, 1, 1, 1, false},  {16, 9, 7, 32, 1, 2, 1, true},
        {48, 5, 6, 16, 0, 3, 1, false},  {32, 7, 7, 48, 1, 2, 2, false},
        {20, 4, 5, 36, 2, 2, 1, true},   {5, 3, 3, 80, 1, 1, 3, false},
        {16, 3, 3, 16, 0, 1, 1, false},  {16, 1, 1, 16, 1, 1, 1, false},
        {64, 1, 12, 16, 2, 1, 2, false}, {144, 6, 6, 80, 1, 3, 2, false}};

    if (winograd_find() == NULL) {
        cr_skip_test("this processor has no bf16");
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        check(&settings[i]);
    }
}

/* More tiles than are transformed at once, in the gradient of the weights too. */
Test(winograd, several_blocks_are_exact)
{
    static const struct setting settings[] = {{64, 56, 54, 48, 1, 5, 1, false},
                                              {160, 30, 31, 96, 1, 6, 2, false}};

    if (winograd_find() == NULL) {
        cr_skip_test("this processor has no bf16");
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        check(&settings[i]);
    }
}

Test(winograd, other_convolutions_are_refused)
{
    struct setting s = {16, 8, 8, 16, 1, 1, 1, false};
    struct rig r = rig_create(&s);
    const struct conv_desc others[] = {
        {.channels = 16, .kernel = 3, .pad = 1, .stride = 2},
        {.channels = 16, .kernel = 5, .pad = 1, .stride = 1},
        {.channels = 16, .kernel = 3, .pad = 3, .stride = 1},
        {.channels = 16, .kernel = 3, .pad = 1, .stride = 1, .groups = 2},
        {.channels = 16, .kernel = 3, .pad = 1, .stride = 1, .bias = true}};
    static const char *const names[] = {"stride", "kernel", "pad", "groups", "bias"};
    struct value_desc last = r.in;
    struct conv_winograd w;

    if (winograd_find() == NULL) {
        cr_skip_test("this processor has no bf16");
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct op_node node = r.node;
        int conv = net_conv2d(r.net, 0, names[i], others[i]);
        struct value_desc out = blocked(net_layer(r.net, conv)->out);
        node.layer = net_layer(r.net, conv);
        cr_assert_not(conv_winograd_init(&w, &r.lib, &node, &r.in, &out, 1, OD_FORWARD));
    }
    r.node.layer = net_layer(r.net, r.node.output); /* layers move when one is added */
    last.layout = LAYOUT_NHWC;
    cr_assert_not(conv_winograd_init(&w, &r.lib, &r.node, &last, &last, 1, OD_FORWARD));
    last = r.in;
    last.dtype = GRAPH_FP32;
    cr_assert_not(conv_winograd_init(&w, &r.lib, &r.node, &last, &last, 1, OD_FORWARD));
    rig_destroy(&r);
}
