/*
 * The kernels of layers on GPUs, compiled as C: against what they are defined as, gradients against
 * differences or as adjoints, and index arithmetic beyond 2^32 elements.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "nn/cudnn/cd_kernel.h"

enum {
    MAX_N = 4096
};

static float x[MAX_N], x2[MAX_N], y[MAX_N], dy[MAX_N], dx[MAX_N], dx2[MAX_N];
static uint8_t kept[MAX_N];

static void fill(float *p, size_t n, uint64_t salt)
{
    struct rng r = rng_make(salt, RNG_TEST, 0);

    for (size_t i = 0; i < n; i++) {
        p[i] = rng_uniform(&r, i) * 2.0f - 1.0f;
    }
}

static void run(void (*kernel)(const struct cd_args *a, size_t i), size_t n,
                const struct cd_args *a)
{
    for (size_t i = n; i-- > 0;) { /* no item depends on another one: backwards */
        kernel(a, i);
    }
}

static size_t elements(size_t n, const struct cd_shape *s)
{
    return n * s->c * s->h * s->w;
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

static void near(double got, double want, const char *what)
{
    cr_assert(fabs(got - want) <= 1e-4 * (1 + fabs(want)), "%s: %g instead of %g", what, got, want);
}

/* --- indices --- */

Test(layers, coordinates_beyond_32_bits)
{
    const struct cd_shape s = {.c = 2048, .h = 224, .w = 225};
    const size_t per_sample = elements(1, &s);
    const size_t some[] = {0,
                           1,
                           per_sample - 1,
                           (UINT64_C(1) << 32) - 1,
                           UINT64_C(1) << 32,
                           (UINT64_C(1) << 40) + 12345};

    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        struct cd_at at = cd_split(some[k], &s);
        cr_assert(at.c < s.c && at.h < s.h && at.w < s.w);
        cr_assert_eq(at.n, some[k] / per_sample);
        cr_assert_eq(cd_join(at, &s), some[k]);
    }
}

/* Windows and their readers are the same relation, seen from both sides. */
Test(layers, windows_and_readers_agree)
{
    for (size_t n_in = 1; n_in < 12; n_in++) {
        for (size_t kernel = 1; kernel < 5; kernel++) {
            for (size_t stride = 1; stride < 4; stride++) {
                for (size_t pad = 0; pad < kernel; pad++) {
                    size_t n_out =
                        n_in + 2 * pad < kernel
                            ? 0
                            : (n_in + 2 * pad - kernel + stride - 1) / stride + 1; /* ceil_mode */
                    while (n_out > 0 && (n_out - 1) * stride >= n_in + pad) {
                        n_out--; /* it would begin behind the input */
                    }
                    for (size_t o = 0; o < n_out; o++) {
                        struct cd_span v = cd_span_of(o, n_in, kernel, stride, pad);
                        for (size_t i = 0; i < n_in; i++) {
                            struct cd_span r = cd_readers(i, n_out, kernel, stride, pad);
                            bool reads = i + pad >= o * stride && i + pad < o * stride + kernel;
                            cr_assert_eq(reads, i >= v.from && i < v.to);
                            cr_assert_eq(reads, o >= r.from && o < r.to);
                        }
                        cr_assert_leq(v.padded, kernel);
                    }
                }
            }
        }
    }
}

/* --- windows --- */

static struct cd_args pool_args(bool count_padding)
{
    return (struct cd_args){.in_shape = {.c = 3, .h = 7, .w = 6},
                            .out_shape = {.c = 3, .h = 4, .w = 3},
                            .window = {3, 3, 2, 1, count_padding},
                            .x = x,
                            .dy = dy,
                            .kept = kept};
}

Test(layers, max_pool_takes_the_largest_and_sends_the_gradient_there)
{
    struct cd_args a = pool_args(false);
    size_t n_in = elements(2, &a.in_shape), n_out = elements(2, &a.out_shape);

    fill(x, n_in, 1);
    fill(dy, n_out, 2);
    a.out = y;
    run(cd_max_pool, n_out, &a);
    for (size_t i = 0; i < n_out; i++) {
        struct cd_at o = cd_split(i, &a.out_shape);
        float best = -INFINITY;
        for (size_t j = 0; j < n_in; j++) {
            struct cd_at at = cd_split(j, &a.in_shape);
            bool in = at.n == o.n && at.c == o.c && at.h + 1 >= 2 * o.h && at.h + 1 < 2 * o.h + 3 &&
                      at.w + 1 >= 2 * o.w && at.w + 1 < 2 * o.w + 3;
            best = in && x[j] > best ? x[j] : best;
        }
        cr_assert_eq(y[i], best);
    }
    a.out = dx;
    run(cd_max_pool_gradient, n_in, &a);
    near(dot(dx, x, n_in), dot(dy, y, n_out), "maximum");
}

Test(layers, average_pools_are_adjoint_to_their_gradients)
{
    for (int padding = 0; padding < 2; padding++) {
        struct cd_args a = pool_args(padding == 1);
        size_t n_in = elements(2, &a.in_shape), n_out = elements(2, &a.out_shape);
        fill(x, n_in, 3);
        fill(dy, n_out, 4);
        a.out = y;
        run(cd_avg_pool, n_out, &a);
        a.out = dx;
        run(cd_avg_pool_gradient, n_in, &a);
        near(dot(dx, x, n_in), dot(dy, y, n_out), "average");
        for (size_t i = 0; i < n_in; i++) {
            x[i] = 1.0f;
        }
        a.out = y;
        run(cd_avg_pool, n_out, &a);
        cr_assert_float_eq(y[0], padding == 1 ? 4.0f / 9.0f : 1.0f, 1e-6);
    }
}

/* --- channels --- */

Test(layers, concatenation_and_padding_move_what_they_should)
{
    struct cd_args a = {.in_shape = {.c = 2, .h = 5, .w = 4},
                        .out_shape = {.c = 5, .h = 3, .w = 2},
                        .window = {.stride = 2},
                        .x = x,
                        .dy = dy,
                        .out = y};
    size_t n_in = elements(3, &a.in_shape), n_out = elements(3, &a.out_shape);

    fill(x, n_in, 5);
    fill(dy, n_out, 6);
    run(cd_pad, n_out, &a);
    a.out = dx;
    run(cd_pad_gradient, n_in, &a);
    near(dot(dx, x, n_in), dot(dy, y, n_out), "padding");
    cr_assert_eq(y[2], 0.0f, "a new channel");
    cr_assert_eq(y[5], x[4], "the pixel after the next");

    a.out_shape = (struct cd_shape){.c = 7, .h = 5, .w = 4};
    a.first = 3;
    memset(y, 0, sizeof y);
    a.out = y;
    run(cd_concat, n_in, &a);
    cr_assert_eq(y[3], x[0]);
    cr_assert_eq(y[7 + 4], x[3]);
    cr_assert_eq(y[2], 0.0f);
    a.dy = y;
    a.out = dx;
    run(cd_concat_gradient, n_in, &a);
    cr_assert_eq(memcmp(dx, x, n_in * sizeof *x), 0);
}

Test(layers, the_input_changes_its_layout)
{
    struct cd_args a = {.out_shape = {.c = 3, .h = 2, .w = 2}, .x = x, .out = y};

    fill(x, 24, 7);
    run(cd_input, 24, &a);
    cr_assert_eq(y[12 + 1], x[12 + 4], "channel 1 of the first pixel of sample 1");
}

/* --- batch norm --- */

struct norm {
    float gamma[3], beta[3], mean[3], inv_std[3], state[6], coefficients[6], dgamma[3], dbeta[3];
    float sums[2 * CD_SLICES * 3];
};

enum {
    PIXELS = 700 /* more than there are slices */
};

static struct cd_args norm_args(struct norm *b)
{
    return (struct cd_args){.relu = true,
                            .out_shape = {.c = 3, .h = 1, .w = 1},
                            .n_pixels = PIXELS,
                            .x = x,
                            .x2 = x2,
                            .out = y,
                            .gamma = b->gamma,
                            .bias = b->beta,
                            .mean = b->mean,
                            .inv_std = b->inv_std,
                            .sums = b->sums,
                            .state = b->state,
                            .eps = 1e-5f,
                            .momentum = 0.9f};
}

/* The sum of dy · y, as a function of x, x2 and the parameters. */
static double norm_forward(struct norm *b)
{
    struct cd_args a = norm_args(b);

    run(cd_norm_slice, CD_SLICES * 3, &a);
    run(cd_norm_batch, 3, &a);
    run(cd_norm_apply, PIXELS * 3, &a);
    return dot(dy, y, PIXELS * 3);
}

static double difference(struct norm *b, float *at)
{
    const float h = 1e-2f, old = *at;
    double more, less;

    *at = old + h;
    more = norm_forward(b);
    *at = old - h;
    less = norm_forward(b);
    *at = old;
    return (more - less) / (2 * (double)h);
}

Test(layers, batch_norm_is_the_gradient_of_itself)
{
    struct norm b = {.gamma = {0.5f, 1.0f, 2.0f}, .beta = {0.1f, 0.0f, -0.2f}, .state = {0}};
    struct cd_args a = norm_args(&b);

    fill(x, PIXELS * 3, 8);
    fill(x2, PIXELS * 3, 9);
    fill(dy, PIXELS * 3, 10);
    (void)norm_forward(&b);
    for (int c = 0; c < 3; c++) {
        double mean = 0, var = 0;
        for (size_t p = 0; p < PIXELS; p++) {
            mean += (double)x[p * 3 + (size_t)c] / PIXELS;
        }
        for (size_t p = 0; p < PIXELS; p++) {
            double d = (double)x[p * 3 + (size_t)c] - mean;
            var += d * d / PIXELS;
        }
        near((double)b.mean[c], mean, "mean");
        near((double)b.inv_std[c], 1 / sqrt(var + 1e-5), "deviation");
        near((double)b.state[c], 0.1 * mean, "running mean");
        near((double)b.state[3 + c], 0.1 * var * PIXELS / (PIXELS - 1), "running variance");
    }
    a.dy = dy;
    a.y = y;
    a.dgamma = b.dgamma;
    a.dbias = b.dbeta;
    a.coefficients = b.coefficients;
    a.out = dx;
    a.out2 = dx2;
    run(cd_slice, CD_SLICES * 3, &a);
    run(cd_norm_sums, 3, &a);
    run(cd_norm_gradient, PIXELS * 3, &a);
    for (size_t i = 0; i < 12; i++) { /* a kink of the ReLU may lie between the two points */
        cr_assert_float_eq(difference(&b, &x[i * 97]), (double)dx[i * 97], 0.1, "dx %zu", i);
    }
    for (int c = 0; c < 3; c++) {
        cr_assert_float_eq(difference(&b, &b.gamma[c]), (double)b.dgamma[c], 0.3, "gamma");
        cr_assert_float_eq(difference(&b, &b.beta[c]), (double)b.dbeta[c], 0.6, "beta");
    }
    (void)norm_forward(&b);
    for (size_t i = 0; i < PIXELS * 3; i++) {
        cr_assert_eq(dx2[i], y[i] > 0 ? dy[i] : 0.0f);
    }
}

/* --- LRN, dropout, loss --- */

static double lrn_forward(const struct cd_args *args)
{
    struct cd_args a = *args;

    a.out = y;
    run(cd_lrn, 60, &a);
    return dot(dy, y, 60);
}

Test(layers, lrn_is_the_gradient_of_itself)
{
    struct cd_args a = {.out_shape = {.c = 10, .h = 2, .w = 3},
                        .x = x,
                        .dy = dy,
                        .out = dx,
                        .half = 2,
                        .alpha = 0.3f,
                        .beta = 0.75f,
                        .lrn_k = 2.0f};

    fill(x, 60, 11);
    fill(dy, 60, 12);
    run(cd_lrn_gradient, 60, &a);
    for (size_t i = 0; i < 60; i++) {
        const float old = x[i], h = 1e-2f;
        double more, less;
        x[i] = old + h;
        more = lrn_forward(&a);
        x[i] = old - h;
        less = lrn_forward(&a);
        x[i] = old;
        cr_assert_float_eq((more - less) / (2 * (double)h), (double)dx[i], 1e-3, "dx %zu", i);
    }
}

Test(layers, dropout_draws_the_numbers_of_the_host)
{
    const struct op_now now = {.step = 99};
    struct rng r = rng_make(7, RNG_DROPOUT, UINT64_C(3) << 38 | 99);
    struct cd_args a = {.x = x,
                        .out = y,
                        .kept = kept,
                        .seed = 7,
                        .purpose = RNG_DROPOUT,
                        .stream = UINT64_C(3) << 38,
                        .now = &now,
                        .keep_below = 1u << 31,
                        .scale = 2.0f};
    uint32_t word[4];

    fill(x, 1000, 13);
    run(cd_dropout, 1000, &a);
    for (size_t i = 0; i < 1000; i++) {
        rng_block(&r, i / 4, word);
        cr_assert_eq(y[i], word[i % 4] < 1u << 31 ? 2.0f * x[i] : 0.0f);
    }
}

Test(layers, loss_counts_and_its_gradient_sums_to_zero)
{
    const struct op_now now = {.scale = 0.5f};
    int32_t labels[4] = {0, 2, 1, 3};
    struct cd_loss_row rows[4];
    double sum;
    size_t top1, top5;
    struct cd_args a = {.out_shape = {.c = 4},
                        .x = x,
                        .labels = labels,
                        .probabilities = x2,
                        .losses = rows,
                        .now = &now,
                        .out = dx};
    const float z[16] = {3, 1, 1, 0, /**/ 5, 5, 5, 0, /**/ 0, NAN, 0, 0, /**/ 1000, 0, 0, -1000};

    memcpy(x, z, sizeof z);
    run(cd_loss, 4, &a);
    cr_assert_eq(rows[0].better, 0);
    cr_assert_eq(rows[1].better, 2, "equal ones with a smaller index are better");
    cr_assert_eq(rows[2].better, UINT32_MAX);
    cr_assert(isnan(rows[2].loss));
    cr_assert_eq(rows[3].better, 3);
    near((double)rows[3].loss, 2000, "far off");
    near((double)rows[0].loss, log(exp(3) + 2 * exp(1) + 1) - 3, "loss");
    run(cd_loss_gradient, 16, &a);
    near((double)(dx[0] + dx[1] + dx[2] + dx[3]), 0, "sum");
    near((double)dx[6], 0.5 * ((double)x2[6] - 1), "at the label");
    a = (struct cd_args){
        .losses = rows, .loss_sum = &sum, .top1 = &top1, .top5 = &top5, .n_samples = 2};
    cd_loss_total(&a, 0);
    cr_assert(sum == (double)rows[0].loss + (double)rows[1].loss && top1 == 1 && top5 == 2);
    a.n_samples = 4;
    cd_loss_total(&a, 0);
    cr_assert(isnan(sum) && top1 == 1 && top5 == 3);
}

Test(layers, sums_mask_and_keep_nans)
{
    float bias[2] = {1.0f, -3.0f};
    struct cd_args a = {
        .relu = true, .out_shape = {.c = 2}, .x = x, .x2 = x2, .bias = bias, .out = y};

    memcpy(x, (const float[]){1, 1, NAN, 4}, 16);
    memcpy(x2, (const float[]){2, 1, 0, 1}, 16);
    run(cd_sum, 4, &a);
    cr_assert(y[0] == 4 && y[1] == 0 && isnan(y[2]) && y[3] == 2);
    a = (struct cd_args){.dy = x2, .dy2 = x2, .y = y, .out = dx};
    y[2] = -1;
    run(cd_gradient, 4, &a);
    cr_assert(dx[0] == 4 && dx[1] == 0 && dx[2] == 0 && dx[3] == 2);
}

Test(layers, fp16_values_are_rounded_once)
{
    uint16_t in[8], out[8];
    struct cd_args a = {.type = CD_F16, .x = x, .out = in};
    struct cd_args sum = {.type = CD_F16, .out_shape = {.c = 8}, .x = in, .x2 = in, .out = out};

    fill(x, 8, 15);
    x[0] = 70000.0f; /* beyond the largest */
    run(cd_narrow, 8, &a);
    run(cd_sum, 8, &sum);
    a = (struct cd_args){.type = CD_F16, .x = out, .out = y};
    run(cd_widen, 8, &a);
    cr_assert(isinf(y[0]));
    for (int i = 1; i < 8; i++) {
        float once = halves_f32_of_f16(halves_f16_of_f32(x[i]));
        cr_assert_float_eq(once, x[i], 0x1p-11);
        cr_assert_eq(y[i], 2.0f * once);
    }
}

Test(layers, bf16_values_are_rounded_once)
{
    uint16_t in[8], out[8];
    struct cd_args a = {.type = CD_BF16, .x = x, .out = in};
    struct cd_args sum = {.type = CD_BF16, .out_shape = {.c = 8}, .x = in, .x2 = in, .out = out};

    fill(x, 8, 14);
    run(cd_narrow, 8, &a);
    run(cd_sum, 8, &sum);
    a = (struct cd_args){.type = CD_BF16, .x = out, .out = y};
    run(cd_widen, 8, &a);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(y[i], 2.0f * halves_f32_of_bf16(halves_bf16_of_f32(x[i])));
    }
}
