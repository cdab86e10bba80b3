#include "nn/net.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

struct net {
    char *name;
    struct layer *layers;
    struct param *params;
    bool *used; /* by layer: does another layer read its value? */
    int n_layers, n_params;
    int classes;        /* 0 until net_finish */
    enum status status; /* the first error; nothing is built after it */
};

/* --- life --- */

/* Whether c*h*w is at least 1 and countable in a size_t of bytes. */
static bool shape_fits(struct shape s)
{
    size_t n;

    return s.c > 0 && s.h > 0 && s.w > 0 && !__builtin_mul_overflow(s.c, s.h, &n) &&
           !__builtin_mul_overflow(n, s.w, &n) && !__builtin_mul_overflow(n, sizeof(float), &n);
}

static size_t shape_n(struct shape s)
{
    return s.c * s.h * s.w;
}

/* Make room for element number `n` of an array that doubles at powers of two. */
static enum status reserve(void *array, int n, size_t elem_bytes)
{
    void **slot = array;
    void *p;

    if (n != 0 && (n & (n - 1)) != 0) {
        return ST_OK;
    }
    p = mem_grow(*slot, (size_t)n, n == 0 ? 1 : 2 * (size_t)n, elem_bytes);
    if (p == NULL) {
        return ST_NOMEM;
    }
    *slot = p;
    return ST_OK;
}

/* Keep the first error of `n` and return -1. */
static int give_up(struct net *n, enum status st)
{
    if (n->status == ST_OK) {
        n->status = st;
    }
    return -1;
}

/* Log an error of layer `name` once and keep it. */
PRINTF_LIKE(3, 4) static int refuse(struct net *n, const char *name, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return give_up(n, log_fail(ST_INPUT, "%s, layer %s of network %s", text, name, n->name));
}

enum status net_create(const char *name, struct shape input, struct net **out)
{
    struct net *n;

    if (!shape_fits(input)) {
        return log_fail(ST_INPUT, "the input of network %s has the shape %zux%zux%zu, which is %s",
                        name, input.c, input.h, input.w,
                        input.c == 0 || input.h == 0 || input.w == 0 ? "empty" : "too large");
    }
    n = mem_alloc(1, sizeof *n);
    if (n == NULL) {
        return ST_NOMEM;
    }
    n->name = mem_strdup(name);
    if (n->name == NULL || reserve(&n->layers, 0, sizeof *n->layers) != ST_OK ||
        reserve(&n->used, 0, sizeof *n->used) != ST_OK) {
        net_destroy(n);
        return ST_NOMEM;
    }
    n->layers[0].kind = LAYER_INPUT;
    n->layers[0].out = input;
    strcpy(n->layers[0].name, "input");
    n->n_layers = 1;
    *out = n;
    return ST_OK;
}

void net_destroy(struct net *n)
{
    if (n == NULL) {
        return;
    }
    mem_free(n->name);
    mem_free(n->layers);
    mem_free(n->params);
    mem_free(n->used);
    mem_free(n);
}

/* --- adding layers --- */

static bool name_taken(const struct net *n, const char *name)
{
    for (int i = 0; i < n->n_layers; i++) {
        if (strcmp(n->layers[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * Start a layer that reads the values x[n_x]: check them, name it (`name`, or the kind and its
 * number), and take the input's shape for its output. The draft becomes part of the net by add().
 */
static bool draft(struct net *n, struct layer *l, enum layer_kind kind, const char *name,
                  const int *x, int n_x)
{
    static const char *const prefixes[LAYER_KINDS] = {
        [LAYER_RELU] = "relu",        [LAYER_MAX_POOL] = "max_pool", [LAYER_AVG_POOL] = "avg_pool",
        [LAYER_ADD] = "add",          [LAYER_CONCAT] = "concat",     [LAYER_GLOBAL_POOL] = "pool",
        [LAYER_DROPOUT] = "dropout",  [LAYER_PAD_CHANNELS] = "pad",  [LAYER_LRN] = "lrn",
        [LAYER_SOFTMAX_LOSS] = "loss"};

    *l = (struct layer){.kind = kind, .n_inputs = n_x};
    if (n->status != ST_OK) {
        return false; /* this -1 was logged where it was made */
    }
    if (name != NULL) {
        size_t length = strlen(name);
        if (length == 0 || length >= sizeof l->name) {
            refuse(n, name, "a name has 1 to %zu bytes, not %zu", sizeof l->name - 1, length);
            return false;
        }
        memcpy(l->name, name, length);
    } else {
        snprintf(l->name, sizeof l->name, "%s%d", prefixes[kind], n->n_layers);
    }
    for (int i = 0; i < n_x; i++) {
        if (x[i] < 0 || x[i] >= n->n_layers) {
            refuse(n, l->name, "its input is value %d, which does not exist", x[i]);
            return false;
        }
        l->inputs[i] = x[i];
    }
    if (n->classes > 0 || name_taken(n, l->name)) {
        refuse(n, l->name, n->classes > 0 ? "the network is finished" : "the name is given twice");
        return false;
    }
    l->out = n->layers[x[0]].out;
    return true;
}

/* Take the drafted layer in and return the number of its value. */
static int add(struct net *n, const struct layer *l)
{
    if (!shape_fits(l->out)) {
        return refuse(n, l->name, "an output of %zux%zux%zu is empty or too large", l->out.c,
                      l->out.h, l->out.w);
    }
    if (reserve(&n->layers, n->n_layers, sizeof *n->layers) != ST_OK ||
        reserve(&n->used, n->n_layers, sizeof *n->used) != ST_OK) {
        return give_up(n, ST_NOMEM);
    }
    n->layers[n->n_layers] = *l;
    n->used[n->n_layers] = false;
    for (int i = 0; i < l->n_inputs; i++) {
        n->used[l->inputs[i]] = true;
    }
    return n->n_layers++;
}

/* Give the layer that was made last (value `x`, -1 passes) one more parameter; returns `x` or -1.
 */
static int add_param(struct net *n, int x, struct param p)
{
    struct layer *l;

    if (x < 0) {
        return -1;
    }
    l = &n->layers[x];
    p.layer = x;
    p.n = 1;
    for (int i = 0; i < p.n_dims; i++) {
        if (__builtin_mul_overflow(p.n, p.dims[i], &p.n) || p.n > SIZE_MAX / sizeof(float)) {
            return refuse(n, l->name, "its parameters are too large to be counted");
        }
    }
    if (reserve(&n->params, n->n_params, sizeof *n->params) != ST_OK) {
        return give_up(n, ST_NOMEM);
    }
    l->params[l->n_params++] = n->n_params;
    n->params[n->n_params++] = p;
    return x;
}

static int add_vector(struct net *n, int x, enum param_role role, size_t size, float value)
{
    struct param p = {.role = role, .dims = {size}, .n_dims = 1, .init_value = value};

    return add_param(n, x, p);
}

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

int net_conv2d(struct net *n, int x, const char *name, struct conv_desc d)
{
    size_t stride = d.stride == 0 ? 1 : d.stride, groups = d.groups == 0 ? 1 : d.groups;
    struct layer l;
    struct shape in;
    int v;

    if (!draft(n, &l, LAYER_CONV2D, name, &x, 1)) {
        return -1;
    }
    in = l.out;
    if (!window_is_sane(d.kernel, stride, d.pad) || d.channels == 0) {
        return refuse(n, name, "kernel %zu, stride %zu, pad %zu, %zu channels make no convolution",
                      d.kernel, stride, d.pad, d.channels);
    }
    if (in.c % groups != 0 || d.channels % groups != 0) {
        return refuse(n, name, "%zu groups do not divide %zu input and %zu output channels", groups,
                      in.c, d.channels);
    }
    l.out = (struct shape){d.channels, windows(in.h, d.kernel, stride, d.pad, false),
                           windows(in.w, d.kernel, stride, d.pad, false)};
    if (l.out.h == 0 || l.out.w == 0) {
        return refuse(n, name, "a kernel of %zu with padding %zu does not fit into %zux%zu",
                      d.kernel, d.pad, in.h, in.w);
    }
    l.u.conv.kernel_h = l.u.conv.kernel_w = d.kernel;
    l.u.conv.stride = stride;
    l.u.conv.pad = d.pad;
    l.u.conv.groups = groups;
    l.u.conv.bias = d.bias;
    v = add_param(n, add(n, &l),
                  (struct param){.role = PARAM_WEIGHT,
                                 .dims = {d.channels, in.c / groups, d.kernel, d.kernel},
                                 .n_dims = 4,
                                 .init_std = (float)sqrt(
                                     2.0 / ((double)d.channels * (double)d.kernel * d.kernel))});
    return d.bias ? add_vector(n, v, PARAM_BIAS, d.channels, 0.0f) : v;
}

int net_batch_norm(struct net *n, int x, const char *name)
{
    struct layer l;
    int v;

    if (!draft(n, &l, LAYER_BATCH_NORM, name, &x, 1)) {
        return -1;
    }
    l.u.norm.eps = 1e-5;
    l.u.norm.momentum = 0.9;
    v = add_vector(n, add(n, &l), PARAM_GAMMA, l.out.c, 1.0f);
    return add_vector(n, v, PARAM_BETA, l.out.c, 0.0f);
}

int net_relu(struct net *n, int x)
{
    struct layer l;

    return draft(n, &l, LAYER_RELU, NULL, &x, 1) ? add(n, &l) : -1;
}

static int add_pool(struct net *n, enum layer_kind kind, int x, struct pool_desc d)
{
    size_t stride = d.stride == 0 ? d.kernel : d.stride;
    struct layer l;
    struct shape in;

    if (!draft(n, &l, kind, NULL, &x, 1)) {
        return -1;
    }
    in = l.out;
    if (!window_is_sane(d.kernel, stride, d.pad) || d.pad >= d.kernel) {
        return refuse(n, l.name, "kernel %zu, stride %zu, pad %zu make no pooling", d.kernel,
                      stride, d.pad);
    }
    l.out.h = windows(in.h, d.kernel, stride, d.pad, d.ceil_mode);
    l.out.w = windows(in.w, d.kernel, stride, d.pad, d.ceil_mode);
    if (l.out.h == 0 || l.out.w == 0) {
        return refuse(n, l.name, "a window of %zu with padding %zu does not fit into %zux%zu",
                      d.kernel, d.pad, in.h, in.w);
    }
    l.u.pool.kernel = d.kernel;
    l.u.pool.stride = stride;
    l.u.pool.pad = d.pad;
    l.u.pool.ceil_mode = d.ceil_mode;
    l.u.pool.count_padding = d.count_padding;
    return add(n, &l);
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

    if (!draft(n, &l, LAYER_GLOBAL_POOL, NULL, &x, 1)) {
        return -1;
    }
    l.out.h = l.out.w = 1;
    return add(n, &l);
}

int net_dense(struct net *n, int x, const char *name, size_t units, bool bias)
{
    struct layer l;
    size_t n_in;
    int v;

    if (!draft(n, &l, LAYER_DENSE, name, &x, 1)) {
        return -1;
    }
    n_in = shape_n(l.out);
    l.out = (struct shape){units, 1, 1};
    l.u.dense.units = units;
    l.u.dense.bias = bias;
    v = add_param(n, add(n, &l),
                  (struct param){.role = PARAM_WEIGHT,
                                 .dims = {units, n_in},
                                 .n_dims = 2,
                                 .init_std = (float)sqrt(2.0 / (double)n_in)});
    return bias ? add_vector(n, v, PARAM_BIAS, units, 0.0f) : v;
}

int net_add(struct net *n, int a, int b)
{
    int x[2] = {a, b};
    struct layer l;
    struct shape s, t;

    if (!draft(n, &l, LAYER_ADD, NULL, x, 2)) {
        return -1;
    }
    s = l.out;
    t = n->layers[b].out;
    if (s.c != t.c || s.h != t.h || s.w != t.w) {
        return refuse(n, l.name, "%zux%zux%zu of %s and %zux%zux%zu of %s cannot be added", s.c,
                      s.h, s.w, n->layers[a].name, t.c, t.h, t.w, n->layers[b].name);
    }
    return add(n, &l);
}

int net_concat(struct net *n, const int *x, int n_x)
{
    struct layer l;

    if (n->status == ST_OK && (n_x < 1 || n_x > LAYER_MAX_INPUTS)) {
        return refuse(n, "concat", "%d inputs instead of 1 to %d", n_x, LAYER_MAX_INPUTS);
    }
    if (!draft(n, &l, LAYER_CONCAT, NULL, x, n_x)) {
        return -1;
    }
    for (int i = 1; i < n_x; i++) {
        struct shape s = n->layers[x[i]].out;
        if (s.h != l.out.h || s.w != l.out.w || __builtin_add_overflow(l.out.c, s.c, &l.out.c)) {
            return refuse(n, l.name, "%zux%zu of %s does not match %zux%zu of %s", s.h, s.w,
                          n->layers[x[i]].name, l.out.h, l.out.w, n->layers[x[0]].name);
        }
    }
    return add(n, &l);
}

int net_lrn(struct net *n, int x, size_t size, double alpha, double beta, double k)
{
    struct layer l;

    if (!draft(n, &l, LAYER_LRN, NULL, &x, 1)) {
        return -1;
    }
    if (size % 2 == 0 || !(k > 0.0) || !(alpha >= 0.0) || !isfinite(alpha + beta + k)) {
        return refuse(n, l.name, "size %zu must be odd, k %g > 0 and alpha %g >= 0", size, k,
                      alpha);
    }
    l.u.lrn.size = size;
    l.u.lrn.alpha = alpha;
    l.u.lrn.beta = beta;
    l.u.lrn.k = k;
    return add(n, &l);
}

int net_dropout(struct net *n, int x, double rate)
{
    struct layer l;

    if (rate == 0.0) {
        return x;
    }
    if (!draft(n, &l, LAYER_DROPOUT, NULL, &x, 1)) {
        return -1;
    }
    if (!(rate > 0.0 && rate < 1.0)) {
        return refuse(n, l.name, "the rate %g is not in [0, 1)", rate);
    }
    l.u.dropout.rate = rate;
    return add(n, &l);
}

int net_pad_channels(struct net *n, int x, size_t channels, size_t stride)
{
    struct layer l;

    if (!draft(n, &l, LAYER_PAD_CHANNELS, NULL, &x, 1)) {
        return -1;
    }
    if (channels < l.out.c || stride < 1) {
        return refuse(n, l.name, "%zu channels cannot be padded to %zu with stride %zu", l.out.c,
                      channels, stride);
    }
    l.out = (struct shape){channels, (l.out.h - 1) / stride + 1, (l.out.w - 1) / stride + 1};
    l.u.pad_channels.stride = stride;
    return add(n, &l);
}

enum status net_finish(struct net *n, int x, int classes)
{
    struct layer l;

    if (!draft(n, &l, LAYER_SOFTMAX_LOSS, "loss", &x, 1)) {
        return n->status;
    }
    if (classes < 1 || shape_n(l.out) != (size_t)classes) {
        refuse(n, n->layers[x].name, "%zu outputs for %d classes", shape_n(l.out), classes);
        return n->status;
    }
    l.out = (struct shape){1, 1, 1};
    if (add(n, &l) < 0) {
        return n->status;
    }
    for (int i = 0; i < n->n_layers - 1; i++) {
        if (!n->used[i]) {
            refuse(n, n->layers[i].name, "its value is never used");
            return n->status;
        }
    }
    n->classes = classes;
    return ST_OK;
}

void net_init_last(struct net *n, enum param_role role, float std, float bound, float value)
{
    const struct layer *l = &n->layers[n->n_layers - 1];

    if (n->status != ST_OK) {
        return;
    }
    for (int i = 0; i < l->n_params; i++) {
        struct param *p = &n->params[l->params[i]];
        if (p->role == role) {
            p->init_std = std;
            p->init_bound = bound;
            p->init_value = value;
            return;
        }
    }
    refuse(n, l->name, "it has no parameter of role %d to start", (int)role);
}

/* --- reading --- */

const char *net_name(const struct net *n)
{
    return n->name;
}

int net_n_layers(const struct net *n)
{
    return n->n_layers;
}

const struct layer *net_layer(const struct net *n, int i)
{
    assert(i >= 0 && i < n->n_layers);
    return &n->layers[i];
}

int net_n_params(const struct net *n)
{
    return n->n_params;
}

const struct param *net_param(const struct net *n, int i)
{
    assert(i >= 0 && i < n->n_params);
    return &n->params[i];
}

int net_classes(const struct net *n)
{
    return n->classes;
}

float net_init_value(const struct net *n, int p, uint64_t seed, size_t i)
{
    const struct param *q = net_param(n, p);
    struct rng r = rng_make(seed, RNG_INIT, (uint64_t)p);

    if (q->init_bound > 0.0f) {
        return (2.0f * rng_uniform(&r, i) - 1.0f) * q->init_bound;
    }
    return q->init_std > 0.0f ? rng_normal(&r, i) * q->init_std : q->init_value;
}
