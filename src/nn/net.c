#include "nn/net_private.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

/* --- life --- */

/* Whether c*h*w is at least 1 and countable in a size_t of bytes. */
static bool shape_fits(struct shape s)
{
    size_t n;

    return s.c > 0 && s.h > 0 && s.w > 0 && !__builtin_mul_overflow(s.c, s.h, &n) &&
           !__builtin_mul_overflow(n, s.w, &n) && !__builtin_mul_overflow(n, sizeof(float), &n);
}

size_t net_shape_n(struct shape s)
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

int net_refuse(struct net *n, const char *name, const char *fmt, ...)
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

bool net_draft(struct net *n, struct layer *l, enum layer_kind kind, const char *name, const int *x,
               int n_x)
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
            net_refuse(n, name, "a name has 1 to %zu bytes, not %zu", sizeof l->name - 1, length);
            return false;
        }
        memcpy(l->name, name, length);
    } else {
        snprintf(l->name, sizeof l->name, "%s%d", prefixes[kind], n->n_layers);
    }
    for (int i = 0; i < n_x; i++) {
        if (x[i] < 0 || x[i] >= n->n_layers) {
            net_refuse(n, l->name, "its input is value %d, which does not exist", x[i]);
            return false;
        }
        l->inputs[i] = x[i];
    }
    if (n->classes > 0 || name_taken(n, l->name)) {
        net_refuse(n, l->name,
                   n->classes > 0 ? "the network is finished" : "the name is given twice");
        return false;
    }
    l->out = n->layers[x[0]].out;
    return true;
}

int net_take(struct net *n, const struct layer *l)
{
    if (!shape_fits(l->out)) {
        return net_refuse(n, l->name, "an output of %zux%zux%zu is empty or too large", l->out.c,
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

int net_take_param(struct net *n, int x, struct param p)
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
            return net_refuse(n, l->name, "its parameters are too large to be counted");
        }
    }
    if (reserve(&n->params, n->n_params, sizeof *n->params) != ST_OK) {
        return give_up(n, ST_NOMEM);
    }
    l->params[l->n_params++] = n->n_params;
    n->params[n->n_params++] = p;
    return x;
}

enum status net_finish(struct net *n, int x, int classes)
{
    struct layer l;

    if (!net_draft(n, &l, LAYER_SOFTMAX_LOSS, "loss", &x, 1)) {
        return n->status;
    }
    if (classes < 1 || net_shape_n(l.out) != (size_t)classes) {
        net_refuse(n, n->layers[x].name, "%zu outputs for %d classes", net_shape_n(l.out), classes);
        return n->status;
    }
    l.out = (struct shape){1, 1, 1};
    if (net_take(n, &l) < 0) {
        return n->status;
    }
    for (int i = 0; i < n->n_layers - 1; i++) {
        if (!n->used[i]) {
            net_refuse(n, n->layers[i].name, "its value is never used");
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
    net_refuse(n, l->name, "it has no parameter of role %d to start", (int)role);
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
