/* The kinds of layers: what each demands of its inputs, its output shape and its parameters. */
#include <math.h>

#include "nn/net_private.h"

/*
 * How many windows of `kernel` fit along `size` padded elements. With `ceil_mode` a last window
 * that hangs over the end counts if it starts inside the input or the padding before it. 0 if none
 * fits.
 */
static size_t windows(size_t size, size_t kernel, size_t stride, size_t pad, bool ceil_mode)
{
    size_t n;

    if (size + 2 * pad < kernel) {
        return 0;
    }
    n = (size + 2 * pad - kernel + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    return ceil_mode && (n - 1) * stride >= size + pad ? n - 1 : n;
}

/* Sizes of windows beyond this are mistakes, and below it no sum of them overflows. */
static bool window_is_sane(size_t kernel, size_t stride, size_t pad)
{
    const size_t most = (size_t)1 << 30;

    return kernel >= 1 && stride >= 1 && kernel <= most && stride <= most && pad <= most;
}

static int take_vector(struct net *n, int x, enum param_role role, size_t size, float value)
{
    struct param p = {.role = role, .dims = {size}, .n_dims = 1, .init_value = value};

    return net_take_param(n, x, p);
}

int net_conv2d(struct net *n, int x, const char *name, struct conv_desc d)
{
    size_t stride = d.stride == 0 ? 1 : d.stride, groups = d.groups == 0 ? 1 : d.groups;
    struct layer l;
    struct shape in;
    int v;

    if (!net_draft(n, &l, LAYER_CONV2D, name, &x, 1)) {
        return -1;
    }
    in = l.out;
    if (!window_is_sane(d.kernel, stride, d.pad) || d.channels == 0) {
        return net_refuse(n, name,
                          "kernel %zu, stride %zu, pad %zu, %zu channels make no convolution",
                          d.kernel, stride, d.pad, d.channels);
    }
    if (in.c % groups != 0 || d.channels % groups != 0) {
        return net_refuse(n, name, "%zu groups do not divide %zu input and %zu output channels",
                          groups, in.c, d.channels);
    }
    l.out = (struct shape){d.channels, windows(in.h, d.kernel, stride, d.pad, false),
                           windows(in.w, d.kernel, stride, d.pad, false)};
    if (l.out.h == 0 || l.out.w == 0) {
        return net_refuse(n, name, "a kernel of %zu with padding %zu does not fit into %zux%zu",
                          d.kernel, d.pad, in.h, in.w);
    }
    l.u.conv.kernel_h = l.u.conv.kernel_w = d.kernel;
    l.u.conv.stride = stride;
    l.u.conv.pad = d.pad;
    l.u.conv.groups = groups;
    l.u.conv.bias = d.bias;
    v = net_take_param(
        n, net_take(n, &l),
        (struct param){.role = PARAM_WEIGHT,
                       .dims = {d.channels, in.c / groups, d.kernel, d.kernel},
                       .n_dims = 4,
                       .init_std =
                           (float)sqrt(2.0 / ((double)d.channels * (double)d.kernel * d.kernel))});
    return d.bias ? take_vector(n, v, PARAM_BIAS, d.channels, 0.0f) : v;
}

int net_batch_norm(struct net *n, int x, const char *name)
{
    struct layer l;
    int v;

    if (!net_draft(n, &l, LAYER_BATCH_NORM, name, &x, 1)) {
        return -1;
    }
    l.u.norm.eps = 1e-5;
    l.u.norm.momentum = 0.9;
    v = take_vector(n, net_take(n, &l), PARAM_GAMMA, l.out.c, 1.0f);
    return take_vector(n, v, PARAM_BETA, l.out.c, 0.0f);
}

int net_relu(struct net *n, int x)
{
    struct layer l;

    return net_draft(n, &l, LAYER_RELU, NULL, &x, 1) ? net_take(n, &l) : -1;
}

static int add_pool(struct net *n, enum layer_kind kind, int x, struct pool_desc d)
{
    size_t stride = d.stride == 0 ? d.kernel : d.stride;
    struct layer l;
    struct shape in;

    if (!net_draft(n, &l, kind, NULL, &x, 1)) {
        return -1;
    }
    in = l.out;
    if (!window_is_sane(d.kernel, stride, d.pad) || d.pad >= d.kernel) {
        return net_refuse(n, l.name, "kernel %zu, stride %zu, pad %zu make no pooling", d.kernel,
                          stride, d.pad);
    }
    l.out.h = windows(in.h, d.kernel, stride, d.pad, d.ceil_mode);
    l.out.w = windows(in.w, d.kernel, stride, d.pad, d.ceil_mode);
    if (l.out.h == 0 || l.out.w == 0) {
        return net_refuse(n, l.name, "a window of %zu with padding %zu does not fit into %zux%zu",
                          d.kernel, d.pad, in.h, in.w);
    }
    l.u.pool.kernel = d.kernel;
    l.u.pool.stride = stride;
    l.u.pool.pad = d.pad;
    l.u.pool.ceil_mode = d.ceil_mode;
    l.u.pool.count_padding = d.count_padding;
    return net_take(n, &l);
}

int net_max_pool(struct net *n, int x, struct pool_desc d)
{
    return add_pool(n, LAYER_MAX_POOL, x, d);
}

int net_avg_pool(struct net *n, int x, struct pool_desc d)
{
    return add_pool(n, LAYER_AVG_POOL, x, d);
}

int net_global_pool(struct net *n, int x)
{
    struct layer l;

    if (!net_draft(n, &l, LAYER_GLOBAL_POOL, NULL, &x, 1)) {
        return -1;
    }
    l.out.h = l.out.w = 1;
    return net_take(n, &l);
}

int net_dense(struct net *n, int x, const char *name, size_t units, bool bias)
{
    struct layer l;
    size_t n_in;
    int v;

    if (!net_draft(n, &l, LAYER_DENSE, name, &x, 1)) {
        return -1;
    }
    n_in = net_shape_n(l.out);
    l.out = (struct shape){units, 1, 1};
    l.u.dense.units = units;
    l.u.dense.bias = bias;
    v = net_take_param(n, net_take(n, &l),
                       (struct param){.role = PARAM_WEIGHT,
                                      .dims = {units, n_in},
                                      .n_dims = 2,
                                      .init_std = (float)sqrt(2.0 / (double)n_in)});
    return bias ? take_vector(n, v, PARAM_BIAS, units, 0.0f) : v;
}

int net_add(struct net *n, int a, int b)
{
    int x[2] = {a, b};
    struct layer l;
    struct shape s, t;

    if (!net_draft(n, &l, LAYER_ADD, NULL, x, 2)) {
        return -1;
    }
    s = l.out;
    t = n->layers[b].out;
    if (s.c != t.c || s.h != t.h || s.w != t.w) {
        return net_refuse(n, l.name, "%zux%zux%zu of %s and %zux%zux%zu of %s cannot be added", s.c,
                          s.h, s.w, n->layers[a].name, t.c, t.h, t.w, n->layers[b].name);
    }
    return net_take(n, &l);
}

int net_concat(struct net *n, const int *x, int n_x)
{
    struct layer l;

    if (n->status == ST_OK && (n_x < 1 || n_x > LAYER_MAX_INPUTS)) {
        return net_refuse(n, "concat", "%d inputs instead of 1 to %d", n_x, LAYER_MAX_INPUTS);
    }
    if (!net_draft(n, &l, LAYER_CONCAT, NULL, x, n_x)) {
        return -1;
    }
    for (int i = 1; i < n_x; i++) {
        struct shape s = n->layers[x[i]].out;
        if (s.h != l.out.h || s.w != l.out.w || __builtin_add_overflow(l.out.c, s.c, &l.out.c)) {
            return net_refuse(n, l.name, "%zux%zu of %s does not match %zux%zu of %s", s.h, s.w,
                              n->layers[x[i]].name, l.out.h, l.out.w, n->layers[x[0]].name);
        }
    }
    return net_take(n, &l);
}

int net_lrn(struct net *n, int x, size_t size, double alpha, double beta, double k)
{
    struct layer l;

    if (!net_draft(n, &l, LAYER_LRN, NULL, &x, 1)) {
        return -1;
    }
    if (size % 2 == 0 || !(k > 0.0) || !(alpha >= 0.0) || !isfinite(alpha + beta + k)) {
        return net_refuse(n, l.name, "size %zu must be odd, k %g > 0 and alpha %g >= 0", size, k,
                          alpha);
    }
    l.u.lrn.size = size;
    l.u.lrn.alpha = alpha;
    l.u.lrn.beta = beta;
    l.u.lrn.k = k;
    return net_take(n, &l);
}

int net_dropout(struct net *n, int x, double rate)
{
    struct layer l;

    if (rate == 0.0) {
        return x;
    }
    if (!net_draft(n, &l, LAYER_DROPOUT, NULL, &x, 1)) {
        return -1;
    }
    if (!(rate > 0.0 && rate < 1.0)) {
        return net_refuse(n, l.name, "the rate %g is not in [0, 1)", rate);
    }
    l.u.dropout.rate = rate;
    return net_take(n, &l);
}

int net_pad_channels(struct net *n, int x, size_t channels, size_t stride)
{
    struct layer l;

    if (!net_draft(n, &l, LAYER_PAD_CHANNELS, NULL, &x, 1)) {
        return -1;
    }
    if (channels < l.out.c || stride < 1) {
        return net_refuse(n, l.name, "%zu channels cannot be padded to %zu with stride %zu",
                          l.out.c, channels, stride);
    }
    l.out = (struct shape){channels, (l.out.h - 1) / stride + 1, (l.out.w - 1) / stride + 1};
    l.u.pad_channels.stride = stride;
    return net_take(n, &l);
}
