#include "tests/nn/reference.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "nn/graph_internal.h"

/* --- the layers in fp64 --- */

static double at(const double *x, struct shape s, size_t n, size_t c, size_t h, size_t w)
{
    return x[((n * s.c + c) * s.h + h) * s.w + w];
}

static void conv(const struct layer *l, struct shape in, const double *x, const double *w,
                 const double *b, size_t n, double *y)
{
    size_t k = l->u.conv.kernel_h, stride = l->u.conv.stride, pad = l->u.conv.pad;
    size_t ci = in.c / l->u.conv.groups, co = l->out.c / l->u.conv.groups;

    for (size_t s = 0; s < n; s++) {
        for (size_t o = 0; o < l->out.c; o++) {
            for (size_t i = 0; i < l->out.h; i++) {
                for (size_t j = 0; j < l->out.w; j++) {
                    double sum = b == NULL ? 0.0 : b[o];
                    for (size_t c = 0; c < ci; c++) {
                        for (size_t u = 0; u < k; u++) {
                            for (size_t v = 0; v < k; v++) {
                                size_t h = i * stride + u - pad, q = j * stride + v - pad;
                                if (h < in.h && q < in.w) {
                                    sum += at(x, in, s, o / co * ci + c, h, q) *
                                           w[((o * ci + c) * k + u) * k + v];
                                }
                            }
                        }
                    }
                    *y++ = sum;
                }
            }
        }
    }
}

static void pool(const struct layer *l, struct shape in, const double *x, size_t n, double *y)
{
    bool global = l->kind == LAYER_GLOBAL_POOL, max = l->kind == LAYER_MAX_POOL;
    size_t kh = global ? in.h : l->u.pool.kernel, kw = global ? in.w : l->u.pool.kernel;
    size_t stride = global ? 1 : l->u.pool.stride, pad = global ? 0 : l->u.pool.pad;

    for (size_t s = 0; s < n * in.c; s++) {
        for (size_t i = 0; i < l->out.h; i++) {
            for (size_t j = 0; j < l->out.w; j++) {
                double sum = 0.0, best = -INFINITY;
                size_t inside = 0, padded = 0;
                for (size_t u = 0; u < kh; u++) {
                    for (size_t v = 0; v < kw; v++) {
                        size_t h = i * stride + u - pad, w = j * stride + v - pad;
                        padded +=
                            i * stride + u < in.h + 2 * pad && j * stride + v < in.w + 2 * pad;
                        if (h < in.h && w < in.w) {
                            double e = at(x, in, s / in.c, s % in.c, h, w);
                            sum += e;
                            best = fmax(best, e);
                            inside++;
                        }
                    }
                }
                if (!global && l->u.pool.count_padding) {
                    inside = padded;
                }
                *y++ = max ? best : sum / (double)inside;
            }
        }
    }
}

static void norm(const struct layer *l, const double *x, const double *gamma, const double *beta,
                 const float *state, size_t n, bool training, double *y)
{
    size_t c = l->out.c, pixels = l->out.h * l->out.w, count = n * pixels;

    for (size_t k = 0; k < c; k++) {
        double mean = 0.0, var = 0.0;
        for (size_t i = 0; i < count; i++) {
            mean += x[(i / pixels * c + k) * pixels + i % pixels];
        }
        mean /= (double)count;
        for (size_t i = 0; i < count; i++) {
            double d = x[(i / pixels * c + k) * pixels + i % pixels] - mean;
            var += d * d;
        }
        var /= (double)count;
        if (!training) {
            mean = (double)state[k];
            var = (double)state[c + k];
        }
        for (size_t i = 0; i < count; i++) {
            size_t p = (i / pixels * c + k) * pixels + i % pixels;
            y[p] = gamma[k] * (x[p] - mean) / sqrt(var + l->u.norm.eps) + beta[k];
        }
    }
}

static void lrn(const struct layer *l, const double *x, size_t n, double *y)
{
    size_t c = l->out.c, pixels = l->out.h * l->out.w, half = l->u.lrn.size / 2;

    for (size_t s = 0; s < n; s++) {
        for (size_t k = 0; k < c; k++) {
            for (size_t p = 0; p < pixels; p++) {
                double sum = 0.0;
                for (size_t j = k > half ? k - half : 0; j < c && j <= k + half; j++) {
                    sum += pow(x[(s * c + j) * pixels + p], 2.0);
                }
                y[(s * c + k) * pixels + p] =
                    x[(s * c + k) * pixels + p] *
                    pow(l->u.lrn.k + l->u.lrn.alpha / (double)l->u.lrn.size * sum, -l->u.lrn.beta);
            }
        }
    }
}

static void dense(const double *x, size_t k, const double *w, const double *b, size_t n,
                  size_t units, double *y)
{
    for (size_t s = 0; s < n; s++) {
        for (size_t u = 0; u < units; u++) {
            double sum = b == NULL ? 0.0 : b[u];
            for (size_t i = 0; i < k; i++) {
                sum += x[s * k + i] * w[u * k + i];
            }
            *y++ = sum;
        }
    }
}

static void pad_channels(const struct layer *l, struct shape in, const double *x, size_t n,
                         double *y)
{
    size_t stride = l->u.pad_channels.stride;

    for (size_t i = 0; i < n * l->out.c * l->out.h * l->out.w; i++) {
        size_t w = i % l->out.w, h = i / l->out.w % l->out.h,
               c = i / l->out.w / l->out.h % l->out.c;
        size_t s = i / l->out.w / l->out.h / l->out.c;
        y[i] = c < in.c ? at(x, in, s, c, h * stride, w * stride) : 0.0;
    }
}

static void concat(const struct net *net, const struct layer *l, double *const *values, size_t n,
                   double *y)
{
    for (size_t s = 0; s < n; s++) {
        for (int k = 0; k < l->n_inputs; k++) {
            struct shape in = net_layer(net, l->inputs[k])->out;
            size_t size = in.c * in.h * in.w;
            memcpy(y, values[l->inputs[k]] + s * size, size * sizeof *y);
            y += size;
        }
    }
}

static void loss(const double *z, size_t classes, const int32_t *labels, size_t n,
                 struct reference *r)
{
    for (size_t s = 0; s < n; s++, z += classes) {
        size_t label = (size_t)labels[s], better = 0;
        double sum = 0.0;
        for (size_t c = 0; c < classes; c++) {
            sum += exp(z[c] - z[label]);
            better += z[c] > z[label] || (z[c] == z[label] && c < label);
        }
        r->loss_sum += log(sum);
        r->top1 += better < 1;
        r->top5 += better < 5;
    }
}

/*
 * How far the layer's inputs are from where its derivative jumps; ten times that for maxima, whose
 * inputs have seen fewer roundings.
 */
static double margin_of(const struct layer *l, struct shape in, const double *x, size_t n)
{
    double margin = INFINITY;

    for (size_t i = 0; l->kind == LAYER_RELU && i < n * in.c * in.h * in.w; i++) {
        margin = fmin(margin, fabs(x[i]));
    }
    for (size_t p = 0; l->kind == LAYER_MAX_POOL && p < n * in.c; p++, x += in.h * in.w) {
        for (size_t i = 0; i < in.h * in.w; i++) {
            for (size_t k = 0; k < i; k++) { /* equal ones were made so, by a ReLU */
                size_t dh = i / in.w - k / in.w,
                       dw = i % in.w > k % in.w ? i % in.w - k % in.w : k % in.w - i % in.w;
                if (dh < l->u.pool.kernel && dw < l->u.pool.kernel && x[i] != x[k]) {
                    margin = fmin(margin, 10.0 * fabs(x[i] - x[k]));
                }
            }
        }
    }
    return margin;
}

static void layer_forward(const struct net *net, const struct layer *l, double *const *values,
                          const double *const *p, const float *state, size_t n, bool training,
                          double *y)
{
    const double *x = values[l->inputs[0]];
    struct shape in = net_layer(net, l->inputs[0])->out;
    size_t size = n * l->out.c * l->out.h * l->out.w;

    switch (l->kind) {
    case LAYER_CONV2D:
        conv(l, in, x, p[0], l->u.conv.bias ? p[1] : NULL, n, y);
        break;
    case LAYER_BATCH_NORM:
        norm(l, x, p[0], p[1], state, n, training, y);
        break;
    case LAYER_MAX_POOL:
    case LAYER_AVG_POOL:
    case LAYER_GLOBAL_POOL:
        pool(l, in, x, n, y);
        break;
    case LAYER_DENSE:
        dense(x, in.c * in.h * in.w, p[0], l->u.dense.bias ? p[1] : NULL, n, l->u.dense.units, y);
        break;
    case LAYER_LRN:
        lrn(l, x, n, y);
        break;
    case LAYER_PAD_CHANNELS:
        pad_channels(l, in, x, n, y);
        break;
    case LAYER_CONCAT:
        concat(net, l, values, n, y);
        break;
    default:
        for (size_t i = 0; i < size; i++) {
            y[i] = l->kind == LAYER_ADD    ? x[i] + values[l->inputs[1]][i]
                   : l->kind == LAYER_RELU ? fmax(x[i], 0.0)
                                           : x[i];
        }
    }
}

static struct reference forward(const struct net *net, const double *params, const float *state,
                                const float *x, const int32_t *labels, size_t n, bool training,
                                double *margin)
{
    int n_layers = net_n_layers(net);
    double **values = mem_alloc((size_t)n_layers, sizeof *values);
    const double **starts = mem_alloc((size_t)net_n_params(net) + 1, sizeof *starts);
    struct reference r = {0};

    for (int i = 0; i < net_n_params(net); i++) {
        starts[i] = params;
        params += net_param(net, i)->n;
    }
    for (int i = 0; i < n_layers; i++) {
        const struct layer *l = net_layer(net, i);
        size_t size = n * l->out.c * l->out.h * l->out.w;
        values[i] = mem_alloc(size, sizeof **values);
        if (l->kind == LAYER_INPUT) {
            for (size_t k = 0; k < size; k++) {
                values[i][k] = (double)x[k];
            }
        } else if (l->kind == LAYER_SOFTMAX_LOSS) {
            loss(values[l->inputs[0]], (size_t)net_classes(net), labels, n, &r);
        } else {
            if (margin != NULL) {
                *margin = fmin(*margin, margin_of(l, net_layer(net, l->inputs[0])->out,
                                                  values[l->inputs[0]], n));
            }
            layer_forward(net, l, values, starts + (l->n_params > 0 ? l->params[0] : 0), state, n,
                          training, values[i]);
            state += l->kind == LAYER_BATCH_NORM ? 2 * l->out.c : 0;
        }
    }
    for (int i = 0; i < n_layers; i++) {
        mem_free(values[i]);
    }
    mem_free(values);
    mem_free(starts);
    return r;
}

struct reference reference_forward(const struct net *net, const double *params, const float *state,
                                   const float *x, const int32_t *labels, size_t n, bool training)
{
    return forward(net, params, state, x, labels, n, training, NULL);
}

/* --- graphs to test --- */

float bench_random(uint64_t stream, size_t i)
{
    struct rng r = rng_make(7, RNG_TEST, stream);

    return 2.0f * rng_uniform(&r, i) - 1.0f;
}

/* Data on which rounding decides about no ReLU and no maximum, for any of the batch sizes. */
static void fill_data(struct bench *b, const struct bench_args *args)
{
    struct shape in = net_layer(b->net, 0)->out;
    const double enough = 1e-5;
    double margin = 0.0;

    for (size_t i = 0; i < b->n; i++) {
        b->labels[i] = (int32_t)((i * 7 + 3) % (size_t)net_classes(b->net));
    }
    for (uint64_t stream = 1; margin < enough; stream++) {
        cr_assert_lt(stream, 40, "%s: no data far enough from kinks", net_name(b->net));
        for (size_t i = 0; i < b->n * in.c * in.h * in.w; i++) {
            b->x[i] = 1.5f * bench_random(stream << 32, i);
        }
        margin = INFINITY;
        for (size_t i = 0; i < args->n_batches; i++) {
            (void)forward(b->net, b->exact, graph_state(b->graph), b->x, b->labels,
                          args->batches[i], true, &margin);
        }
    }
}

static void fill_params(struct bench *b)
{
    size_t at_param = 0;

    for (int p = 0; p < net_n_params(b->net); p++) {
        const struct param *q = net_param(b->net, p);
        for (size_t i = 0; i < q->n; i++, at_param++) {
            float r = bench_random((uint64_t)p + 100, i);
            b->canonical[at_param] = q->role == PARAM_WEIGHT  ? net_init_value(b->net, p, 5, i)
                                     : q->role == PARAM_GAMMA ? 1.0f + 0.3f * r
                                                              : 0.3f * r;
            b->exact[at_param] = (double)b->canonical[at_param];
        }
    }
}

struct bench bench_create(struct net *net, const struct bench_args *args)
{
    struct bench b = {.net = net, .n = args->batches[0]};
    struct graph_args g = {.net = net,
                           .ops = nn_ops_find("cpu"),
                           .tuning = args->tuning,
                           .batches = args->batches,
                           .n_batches = args->n_batches,
                           .training = true,
                           .compute = args->compute,
                           .n_threads = args->n_threads < 1 ? 1 : args->n_threads,
                           .seed = 3};
    struct shape in = net_layer(net, 0)->out;
    size_t n_params = net_param_elements(net);
    bool incomplete = false;

    if (args->forced_variant > 0) {
        cr_assert_eq(graph_build(&g, args->forced_variant - 1, &incomplete, &b.graph), ST_OK);
    } else {
        cr_assert_eq(graph_create(&g, &b.graph), ST_OK);
    }
    b.params = mem_alloc(graph_arena_n(b.graph), sizeof(float));
    b.grads = mem_alloc(graph_arena_n(b.graph), sizeof(float));
    b.canonical = mem_alloc(n_params, sizeof(float));
    b.exact = mem_alloc(n_params, sizeof(double));
    b.x = mem_alloc(b.n * in.c * in.h * in.w, sizeof(float));
    b.labels = mem_alloc(b.n, sizeof(int32_t));
    fill_params(&b);
    fill_data(&b, args);
    cr_assert_eq(graph_import(b.graph, b.canonical, b.params), ST_OK);
    graph_bind(b.graph, b.params, b.grads);
    graph_params_changed(b.graph);
    return b;
}

void bench_destroy(struct bench *b)
{
    graph_destroy(b->graph);
    net_destroy(b->net);
    mem_free(b->params);
    mem_free(b->grads);
    mem_free(b->canonical);
    mem_free(b->exact);
    mem_free(b->x);
    mem_free(b->labels);
}

struct graph_result bench_check_loss(struct bench *b, size_t n, bool training, double tolerance)
{
    struct reference want =
        reference_forward(b->net, b->exact, graph_state(b->graph), b->x, b->labels, n, training);
    struct graph_result got;

    cr_assert_eq(graph_forward(b->graph, b->x, b->labels, n, training, 0, NULL, &got), ST_OK);
    cr_assert(fabs(got.loss_sum - want.loss_sum) <= tolerance * (1e-3 + fabs(want.loss_sum)),
              "%s, n = %zu: loss %.9g, not %.9g", net_name(b->net), n, got.loss_sum, want.loss_sum);
    cr_assert_eq(got.n, n);
    return got;
}

static double difference(struct bench *b, size_t n, size_t i)
{
    const double eps = 1e-7, value = b->exact[i];
    double up, down;

    b->exact[i] = value + eps;
    up = reference_forward(b->net, b->exact, graph_state(b->graph), b->x, b->labels, n, true)
             .loss_sum;
    b->exact[i] = value - eps;
    down = reference_forward(b->net, b->exact, graph_state(b->graph), b->x, b->labels, n, true)
               .loss_sum;
    b->exact[i] = value;
    return (up - down) / (2.0 * eps);
}

static void check_param(struct bench *b, const float *grads, size_t start, int p, size_t n,
                        float scale, size_t samples, double tolerance, double largest)
{
    const struct param *q = net_param(b->net, p);
    size_t step = q->n > samples ? q->n / samples : 1;
    double scale_of_errors = 1e-3 * largest;

    for (size_t i = 0; i < q->n; i++) {
        scale_of_errors = fmax(scale_of_errors, fabs((double)grads[start + i]));
    }
    for (size_t i = 0; i < q->n; i += step) {
        double want = (double)scale * difference(b, n, start + i);
        double got = (double)grads[start + i];
        cr_assert(fabs(got - want) <= tolerance * scale_of_errors,
                  "%s, n = %zu, layer %s, role %d, element %zu: gradient %.7g, not %.7g",
                  net_name(b->net), n, net_layer(b->net, q->layer)->name, (int)q->role, i, got,
                  want);
    }
}

void bench_check_gradients(struct bench *b, size_t n, float scale, size_t samples, double tolerance)
{
    size_t total = net_param_elements(b->net), start = 0;
    float *grads = mem_alloc(total, sizeof *grads);
    double largest = 0.0;
    struct graph_result r;

    for (size_t i = 0; i < graph_arena_n(b->graph); i++) {
        b->grads[i] = NAN; /* every gradient must be overwritten */
    }
    cr_assert_eq(graph_forward(b->graph, b->x, b->labels, n, true, 0, NULL, &r), ST_OK);
    cr_assert_eq(graph_backward(b->graph, scale, NULL), ST_OK);
    cr_assert_eq(graph_export(b->graph, b->grads, grads), ST_OK);
    for (size_t i = 0; i < total; i++) {
        cr_assert(isfinite(grads[i]), "%s: gradient %zu is not finite", net_name(b->net), i);
        largest = fmax(largest, fabs((double)grads[i]));
    }
    for (int p = 0; p < net_n_params(b->net); p++) {
        check_param(b, grads, start, p, n, scale, samples, tolerance, largest);
        start += net_param(b->net, p)->n;
    }
    mem_free(grads);
}
