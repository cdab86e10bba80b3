#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "nn/onednn/od_conv_stem.h"
#include "nn/onednn/od_conv_winograd.h"
#include "tests/nn/reference.h"

/*
 * Winograd's convolutions against the definition. The data are small integers, and weights
 * multiples of 4, so that nothing is rounded before the result and equality is exact.
 */

struct setting {
    size_t kernel, stride; /* 3 and 1, or a stem: stride 2 and canonical input */
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

static bool is_stem(const struct rig *r)
{
    return r->s.stride == STEM_STRIDE;
}

static struct value_desc value_of(struct shape s, enum value_layout layout)
{
    return (struct value_desc){.shape = s, .layout = layout, .dtype = GRAPH_BF16};
}

static struct rig rig_create(const struct setting *s)
{
    struct conv_desc d = {
        .channels = s->o, .kernel = s->kernel, .pad = s->pad, .stride = s->stride};
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
    r.in = value_of(net_layer(r.net, 0)->out, is_stem(&r) ? LAYOUT_NCHW : LAYOUT_BLOCKED);
    r.out = value_of(net_layer(r.net, conv)->out, LAYOUT_BLOCKED);
    r.n_w = (is_stem(&r) ? s->c : od_chunks(&r.in) * KERNEL_LANES) * od_chunks(&r.out) *
            KERNEL_LANES * s->kernel * s->kernel;
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

/* Tap `k` of the kernel from channel c to o. */
static float *weight(const struct rig *r, size_t o, size_t c, size_t k)
{
    size_t taps = r->s.kernel * r->s.kernel, chunk = o / KERNEL_LANES, row;

    if (is_stem(r)) {
        row = (chunk * taps + k) * r->s.c + c;
    } else {
        row = ((chunk * od_chunks(&r->in) + c / KERNEL_LANES) * taps + k) * KERNEL_LANES +
              c % KERNEL_LANES;
    }
    return &r->w[row * KERNEL_LANES + o % KERNEL_LANES];
}

static void fill_weights(const struct rig *r)
{
    size_t taps = r->s.kernel * r->s.kernel;

    for (size_t i = 0; i < r->s.o * r->s.c * taps; i++) {
        *weight(r, i / taps / r->s.c, i / taps % r->s.c, i % taps) =
            4.0f * (float)(int)(3.0f * bench_random(3, i));
    }
}

static void run_stem(const struct rig *r, enum od_pass pass)
{
    struct conv_stem s;
    void *scratch;

    cr_assert(conv_stem_init(&s, &r->lib, &r->node, &r->in, &r->out, r->s.n, pass));
    scratch = mem_alloc(conv_stem_scratch(&s), 1);
    memset(scratch, 0xff, conv_stem_scratch(&s));
    conv_stem_run(&s, &r->lib, r->x, r->y, r->w, scratch);
    mem_free(scratch);
}

/* Scratch memory is full of NaN: nothing may be read before it is written. */
static void run(const struct rig *r, enum od_pass pass)
{
    struct conv_winograd w;
    void *scratch;

    if (is_stem(r)) {
        run_stem(r, pass);
        return;
    }
    cr_assert(conv_winograd_init(&w, &r->lib, &r->node, &r->in, &r->out, r->s.n, pass));
    scratch = mem_alloc(conv_winograd_scratch(&w), 1);
    memset(scratch, 0xff, conv_winograd_scratch(&w));
    conv_winograd_run(&w, &r->lib, r->x, r->y, r->w, scratch);
    mem_free(scratch);
}

/* The input that tap `k` of output (h, w) reads. */
static double input_at(const struct rig *r, size_t n, size_t c, size_t h, size_t w, size_t k)
{
    return value(&r->in, r->x, n, c, h * r->s.stride + k / r->s.kernel - r->s.pad,
                 w * r->s.stride + k % r->s.kernel - r->s.pad);
}

static double output(const struct rig *r, size_t n, size_t o, size_t h, size_t w)
{
    double sum = 0.0;

    for (size_t c = 0; c < r->s.c; c++) {
        for (size_t k = 0; k < r->s.kernel * r->s.kernel; k++) {
            sum += (double)*weight(r, o, c, k) * input_at(r, n, c, h, w, k);
        }
    }
    return r->s.relu && sum < 0.0 ? 0.0 : sum;
}

/* Stride 1 only. */
static double input_gradient(const struct rig *r, size_t n, size_t c, size_t h, size_t w)
{
    double sum = 0.0;

    for (size_t o = 0; o < r->s.o; o++) {
        for (size_t k = 0; k < 9; k++) {
            sum += (double)*weight(r, o, c, k) *
                   value(&r->out, r->y, n, o, h + r->s.pad - k / 3, w + r->s.pad - k % 3);
        }
    }
    return sum;
}

static double weight_gradient(const struct rig *r, size_t o, size_t c, size_t k)
{
    double sum = 0.0;

    for (size_t i = 0; i < r->s.n * r->out.shape.h * r->out.shape.w; i++) {
        size_t w = i % r->out.shape.w, h = i / r->out.shape.w % r->out.shape.h;
        size_t n = i / r->out.shape.w / r->out.shape.h;
        sum += value(&r->out, r->y, n, o, h, w) * input_at(r, n, c, h, w, k);
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
    size_t taps = r->s.kernel * r->s.kernel, all = r->s.o * r->s.c * taps;

    for (size_t i = 0; i < all; i += stride_of(all)) {
        size_t o = i / taps / r->s.c, c = i / taps % r->s.c, k = i % taps;
        cr_assert_eq((double)*weight(r, o, c, k), weight_gradient(r, o, c, k),
                     "weight %zu, %zu, %zu of %zux%zux%zu > %zu", o, c, k, r->s.c, r->s.h, r->s.w,
                     r->s.o);
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
    if (!is_stem(&r)) {
        memset(r.x, 0xff, value_bytes(&r.in, s->n));
        run(&r, OD_BACKWARD_DATA);
        check_value(&r, &r.in, r.x, input_gradient, "gradient of the input");
        check_padding(&r.in, s->n, r.x);
    }
    fill_value(&r.in, s->n, 4, r.x);
    memset(r.w, 0xff, r.n_w * sizeof *r.w);
    run(&r, OD_BACKWARD_WEIGHTS);
    check_weights(&r);
    rig_destroy(&r);
    cr_assert_eq(mem_live(), 0);
}

static void check_all(const struct setting *settings, size_t n)
{
    if (winograd_find() == NULL || stem_find() == NULL) {
        cr_skip_test("this processor has no bf16");
    }
    for (size_t i = 0; i < n; i++) {
        check(&settings[i]);
    }
}

/* Even and odd sizes, channels that fill blocks or not, all paddings, threads. */
Test(winograd, every_shape_is_exact)
{
    static const struct setting settings[] = {
        {3, 1, 16, 8, 8, 16, 1, 1, 1, false},  {3, 1, 16, 9, 7, 32, 1, 2, 1, true},
        {3, 1, 48, 5, 6, 16, 0, 3, 1, false},  {3, 1, 32, 7, 7, 48, 1, 2, 2, false},
        {3, 1, 20, 4, 5, 36, 2, 2, 1, true},   {3, 1, 5, 3, 3, 80, 1, 1, 3, false},
        {3, 1, 16, 3, 3, 16, 0, 1, 1, false},  {3, 1, 16, 1, 1, 16, 1, 1, 1, false},
        {3, 1, 64, 1, 12, 16, 2, 1, 2, false}, {3, 1, 144, 6, 6, 80, 1, 3, 2, false}};

    check_all(settings, sizeof settings / sizeof *settings);
}

/* More tiles than are transformed at once, in the gradient of the weights too. */
Test(winograd, several_blocks_are_exact)
{
    static const struct setting settings[] = {{3, 1, 64, 56, 54, 48, 1, 5, 1, false},
                                              {3, 1, 160, 30, 31, 96, 1, 6, 2, false}};

    check_all(settings, sizeof settings / sizeof *settings);
}

/* All kernels and paddings, few channels, sizes that do not fill tiles. */
Test(winograd, stems_are_exact)
{
    static const struct setting settings[] = {
        {7, 2, 3, 32, 32, 64, 3, 2, 1, false}, {7, 2, 3, 21, 70, 16, 3, 3, 2, true},
        {7, 2, 1, 7, 7, 48, 0, 1, 1, false},   {6, 2, 2, 19, 16, 16, 2, 2, 1, false},
        {5, 2, 4, 15, 9, 20, 2, 1, 3, true},   {4, 2, 3, 9, 12, 32, 1, 2, 1, false},
        {3, 2, 3, 8, 8, 32, 1, 2, 2, false},   {2, 2, 3, 5, 5, 16, 0, 2, 1, false},
        {1, 2, 2, 6, 3, 16, 0, 1, 1, false},   {3, 2, 1, 1, 1, 16, 2, 1, 1, false},
        {7, 2, 4, 9, 140, 32, 6, 3, 2, false}};

    check_all(settings, sizeof settings / sizeof *settings);
}

Test(winograd, other_convolutions_are_refused)
{
    struct setting s = {3, 1, 16, 8, 8, 16, 1, 1, 1, false};
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
        struct value_desc out = value_of(net_layer(r.net, conv)->out, LAYOUT_BLOCKED);
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

Test(winograd, other_stems_are_refused)
{
    struct setting few = {7, 2, 3, 16, 16, 16, 3, 1, 1, false}, many = few;
    struct rig r = rig_create(&few), five;
    struct value_desc last = r.in;
    struct conv_stem s;

    if (stem_find() == NULL) {
        cr_skip_test("this processor has no bf16");
    }
    many.c = 5;
    five = rig_create(&many);
    last.layout = LAYOUT_NHWC;
    cr_assert(conv_stem_init(&s, &r.lib, &r.node, &r.in, &r.out, 1, OD_FORWARD));
    cr_assert_not(conv_stem_init(&s, &r.lib, &r.node, &r.in, &r.out, 1, OD_BACKWARD_DATA));
    cr_assert_not(conv_stem_init(&s, &r.lib, &r.node, &last, &r.out, 1, OD_FORWARD));
    cr_assert_not(conv_stem_init(&s, &r.lib, &five.node, &five.in, &five.out, 1, OD_FORWARD));
    rig_destroy(&five);
    rig_destroy(&r);
}
