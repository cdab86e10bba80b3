#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "models/models.h"
#include "nn/graph_internal.h"
#include "nn/onednn/od_conv_pass.h"

/*
 * The whole training step of a model against its roof: the same convolutions, norms and matrix
 * products alone, each with the fastest algorithm and layout, timed in sequence on one core.
 *
 *     roof MODEL CHANNELS SIZE CLASSES BATCH [fp32|bf16] [CACHE]
 *
 * For each setting (blocked direct, blocked Winograd, channels-last) all forward calls are run in
 * order and then all backward calls in reverse, every call on memory of its own; the median of each
 * call counts, and of the settings the best. Norms are oneDNN's, with ReLU fused in; what the whole
 * step does besides (poolings, additions, loss, reorders of weights) has no part in the roof.
 * Times are those that the thread computed, so that other load disturbs little.
 */

enum {
    SETTINGS = 3,
    STEPS = 7,
    CALLS = 3, /* forward, backward data, backward weights */
    ROUNDS = 2
};

struct norm_prims {
    dnnl_primitive_t forward, backward;
    dnnl_memory_t data, mean, var, scale, workspace, dscale;
};

/* One layer in one setting. */
struct item {
    const struct layer *layer;
    struct op_node node;
    struct value_desc in, out;
    struct conv_pass conv[OD_PASSES];
    struct norm_prims norm;
    float *x, *y, *dx, *dy, *w, *dw, *b;
    char *scratch;
    int64_t ns[CALLS][STEPS * ROUNDS];
};

struct roof {
    const struct net *net;
    struct od *lib;
    size_t batch;
    enum graph_dtype dtype;
    struct item *items;
    int n;
};

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "roof: %s failed\n", what);
        exit(EXIT_FAILURE);
    }
}

static void *take(size_t bytes)
{
    float *p = mem_alloc((bytes + 3) / 4, sizeof *p);

    check(p != NULL, "memory");
    for (size_t i = 0; i < bytes / 4; i++) {
        p[i] = (float)(i * 2654435761u % 1024) / 1024.0f - 0.5f;
    }
    return p;
}

/* --- convolutions --- */

static bool make_conv(struct roof *r, struct item *it, enum od_pass pass, bool winograd)
{
    struct conv_request q = {.lib = r->lib,
                             .node = &it->node,
                             .in = it->in,
                             .out = it->out,
                             .n = r->batch,
                             .pass = pass,
                             .algorithm = winograd ? OD_WINOGRAD : OD_DIRECT};
    struct od_md weights = {0};
    struct conv_winograd own = {0};
    struct conv_stem stem;
    dnnl_primitive_desc_t pd;
    dnnl_dims_t dims;
    size_t bytes;

    if (winograd && r->dtype == GRAPH_BF16) {
        if (!conv_pass_is_winograd(&q, &own, &stem)) {
            return false;
        }
        check(od_md_tag(&weights, conv_weight_dims(&it->node, dims), dims, dnnl_f32,
                        own.n > 0 ? dnnl_OIhw16i16o : dnnl_Ohwi16o) == dnnl_success,
              "weights");
    } else {
        if (conv_pass_describe(&q, NULL, false, &pd) != dnnl_success) {
            return false;
        }
        check(conv_pass_weights(pass, pd, &weights) == dnnl_success, "weights");
        dnnl_primitive_desc_destroy(pd);
    }
    check(conv_pass_create(&q, &weights, &it->conv[pass]) == dnnl_success, "convolution");
    bytes = od_md_size(&weights);
    if (pass == OD_BACKWARD_WEIGHTS) {
        it->dw = take(bytes);
    } else if (it->w == NULL) {
        it->w = take(4 * bytes); /* other passes may pad more */
    }
    od_md_fini(&weights);
    return true;
}

/* --- norms: oneDNN 2.x --- */

#if DNNL_VERSION_MAJOR < 3

static void make_norm(struct roof *r, struct item *it)
{
    dnnl_data_type_t type = r->dtype == GRAPH_BF16 ? dnnl_bf16 : dnnl_f32;
    dnnl_batch_normalization_desc_t d;
    dnnl_primitive_desc_t fwd = NULL, bwd = NULL;
    dnnl_dims_t c = {(dnnl_dim_t)it->out.shape.c}, two = {2, (dnnl_dim_t)it->out.shape.c};
    unsigned flags = dnnl_use_scaleshift | dnnl_fuse_norm_relu;
    struct od_md data = {0}, vec = {0}, mat = {0}, ws = {0};
    struct norm_prims *p = &it->norm;
    dnnl_engine_t e = r->lib->engine;

    check(od_md_value(&data, &it->out, r->batch, type) == dnnl_success &&
              od_md_tag(&vec, 1, c, dnnl_f32, dnnl_a) == dnnl_success &&
              od_md_tag(&mat, 2, two, dnnl_f32, dnnl_ab) == dnnl_success,
          "descriptors");
    check(dnnl_batch_normalization_forward_desc_init(&d, dnnl_forward_training, &data.desc, 1e-5f,
                                                     flags) == dnnl_success &&
              dnnl_primitive_desc_create(&fwd, &d, NULL, e, NULL) == dnnl_success,
          "norm forward");
    check(dnnl_batch_normalization_backward_desc_init(&d, dnnl_backward, &data.desc, &data.desc,
                                                      1e-5f, flags) == dnnl_success &&
              dnnl_primitive_desc_create(&bwd, &d, NULL, e, fwd) == dnnl_success,
          "norm backward");
    check(od_md_query(&ws, fwd, dnnl_query_workspace_md) == dnnl_success &&
              dnnl_primitive_create(&p->forward, fwd) == dnnl_success &&
              dnnl_primitive_create(&p->backward, bwd) == dnnl_success,
          "norm");
    check(dnnl_memory_create(&p->data, &data.desc, e, it->x) == dnnl_success &&
              dnnl_memory_create(&p->mean, &vec.desc, e, take(od_md_size(&vec))) == dnnl_success &&
              dnnl_memory_create(&p->var, &vec.desc, e, take(od_md_size(&vec))) == dnnl_success &&
              dnnl_memory_create(&p->scale, &mat.desc, e, take(od_md_size(&mat))) == dnnl_success &&
              dnnl_memory_create(&p->dscale, &mat.desc, e, take(od_md_size(&mat))) ==
                  dnnl_success &&
              dnnl_memory_create(&p->workspace, &ws.desc, e, take(od_md_size(&ws))) == dnnl_success,
          "norm memory");
    dnnl_primitive_desc_destroy(fwd);
    dnnl_primitive_desc_destroy(bwd);
}

static void run_norm(struct roof *r, struct item *it, bool forward)
{
    struct norm_prims *p = &it->norm;
    dnnl_exec_arg_t fwd[] = {{DNNL_ARG_SRC, p->data},          {DNNL_ARG_DST, p->data},
                             {DNNL_ARG_MEAN, p->mean},         {DNNL_ARG_VARIANCE, p->var},
                             {DNNL_ARG_SCALE_SHIFT, p->scale}, {DNNL_ARG_WORKSPACE, p->workspace}};
    dnnl_exec_arg_t bwd[] = {{DNNL_ARG_SRC, p->data},
                             {DNNL_ARG_DIFF_DST, p->data},
                             {DNNL_ARG_DIFF_SRC, p->data},
                             {DNNL_ARG_MEAN, p->mean},
                             {DNNL_ARG_VARIANCE, p->var},
                             {DNNL_ARG_SCALE_SHIFT, p->scale},
                             {DNNL_ARG_DIFF_SCALE_SHIFT, p->dscale},
                             {DNNL_ARG_WORKSPACE, p->workspace}};

    if (p->forward == NULL) {
        return;
    }
    check(dnnl_primitive_execute(forward ? p->forward : p->backward, r->lib->stream,
                                 forward ? 6 : 8, forward ? fwd : bwd) == dnnl_success,
          "norm to run");
}

#else

/* The interface of norms is another there; without them the roof is a little higher. */
static void make_norm(struct roof *r, struct item *it)
{
    (void)r;
    (void)it;
}

static void run_norm(struct roof *r, struct item *it, bool forward)
{
    (void)r;
    (void)it;
    (void)forward;
}

#endif

/* --- the sequence --- */

static void run_dense(const struct roof *r, const struct item *it, int call)
{
    dnnl_dim_t n = (dnnl_dim_t)r->batch, u = (dnnl_dim_t)it->out.shape.c;
    dnnl_dim_t k = (dnnl_dim_t)(it->in.shape.c * it->in.shape.h * it->in.shape.w);

    if (call == 0) {
        (void)dnnl_sgemm('N', 'T', n, u, k, 1.0f, it->x, k, it->w, k, 0.0f, it->y, u);
    } else if (call == 1) {
        (void)dnnl_sgemm('N', 'N', n, k, u, 1.0f, it->dy, u, it->w, k, 0.0f, it->dx, k);
    } else {
        (void)dnnl_sgemm('T', 'N', u, k, n, 1.0f, it->dy, u, it->x, k, 0.0f, it->dw, k);
    }
}

static void run_call(struct roof *r, struct item *it, int call, int step)
{
    int64_t start = clock_thread_ns();
    struct conv_data d = {call == 1 ? it->dx : it->x, call == 0 ? it->y : it->dy,
                          call == 2 ? it->dw : it->w, it->b, it->scratch};

    if (it->layer->kind == LAYER_CONV2D && it->conv[call].n > 0) {
        check(conv_pass_run(&it->conv[call], (enum od_pass)call, r->lib, &d) == dnnl_success,
              "convolution to run");
    } else if (it->layer->kind == LAYER_DENSE) {
        run_dense(r, it, call);
    } else if (it->layer->kind == LAYER_BATCH_NORM && call < 2) {
        run_norm(r, it, call == 0);
    }
    it->ns[call][step] = clock_thread_ns() - start;
}

static void run_steps(struct roof *r, int first)
{
    for (int s = -1; s < STEPS; s++) { /* the first one warms up */
        int at = first + (s < 0 ? 0 : s);
        for (int i = 0; i < r->n; i++) {
            run_call(r, &r->items[i], 0, at);
        }
        for (int i = r->n - 1; i >= 0; i--) {
            run_call(r, &r->items[i], 2, at);
            run_call(r, &r->items[i], 1, at);
        }
    }
}

static void make_buffers(struct roof *r, struct item *it, bool data_gradient)
{
    size_t scratch = 0;

    it->x = take(value_bytes(&it->in, r->batch));
    if (it->layer->kind == LAYER_BATCH_NORM) {
        make_norm(r, it);
        return;
    }
    it->y = take(value_bytes(&it->out, r->batch));
    it->dy = take(value_bytes(&it->out, r->batch));
    it->b = take(it->out.shape.c * sizeof(float) + 64);
    if (data_gradient) {
        it->dx = take(value_bytes(&it->in, r->batch));
    }
    for (int p = 0; p < OD_PASSES; p++) {
        size_t bytes = conv_pass_scratch(&it->conv[p]);
        scratch = bytes > scratch ? bytes : scratch;
    }
    it->scratch = take(scratch + 64);
}

static void make_item(struct roof *r, struct item *it, int layer, int setting)
{
    const struct layer *l = net_layer(r->net, layer);
    enum value_layout layout = setting == 2 || !r->lib->blocked ? LAYOUT_NHWC : LAYOUT_BLOCKED;
    bool first = l->inputs[0] == 0;

    it->layer = l;
    it->node = (struct op_node){.kind = l->kind,
                                .net = r->net,
                                .layer = l,
                                .inputs = {l->inputs[0]},
                                .n_inputs = 1,
                                .output = layer,
                                .wants_dx = {!first},
                                .wants_dw = true};
    it->in = (struct value_desc){net_layer(r->net, l->inputs[0])->out, layout, r->dtype};
    it->out = (struct value_desc){l->out, layout, r->dtype};
    if (l->kind == LAYER_DENSE) {
        it->in.layout = it->out.layout = LAYOUT_NHWC;
        it->in.dtype = it->out.dtype = GRAPH_FP32;
        it->w = take(net_param(r->net, l->params[0])->n * sizeof(float));
        it->dw = take(net_param(r->net, l->params[0])->n * sizeof(float));
    }
    if (l->kind == LAYER_CONV2D) {
        if (first && layout == LAYOUT_BLOCKED && l->u.conv.groups == 1 && it->in.shape.c <= 4) {
            it->in.layout = LAYOUT_NCHW;
        }
        for (enum od_pass p = OD_FORWARD; p < OD_PASSES; p++) {
            if (p != OD_BACKWARD_DATA || !first) {
                (void)(make_conv(r, it, p, setting == 1) ||
                       (setting == 1 && make_conv(r, it, p, false)));
            }
        }
    }
    make_buffers(r, it, !first);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static double median(int64_t *ns, int n)
{
    qsort(ns, (size_t)n, sizeof *ns, by_value);
    return (double)ns[n / 2];
}

static bool in_roof(enum layer_kind kind)
{
    return kind == LAYER_CONV2D || kind == LAYER_BATCH_NORM || kind == LAYER_DENSE;
}

static void make_roof(struct roof *r, int setting)
{
    r->items = mem_alloc((size_t)net_n_layers(r->net), sizeof *r->items);
    check(r->items != NULL, "memory");
    r->n = 0;
    for (int i = 0; i < net_n_layers(r->net); i++) {
        if (in_roof(net_layer(r->net, i)->kind)) {
            make_item(r, &r->items[r->n++], i, setting);
        }
    }
}

/* The seconds of a step with the best setting for every call. */
static double best_sum(struct roof roofs[SETTINGS])
{
    double sum = 0.0;

    for (int i = 0; i < roofs[0].n; i++) {
        for (int c = 0; c < CALLS; c++) {
            double best = 1e18;
            for (int s = 0; s < SETTINGS; s++) {
                struct item *it = &roofs[s].items[i];
                bool runs = it->layer->kind != LAYER_CONV2D || it->conv[c].n > 0;
                double t = runs ? median(it->ns[c], STEPS * ROUNDS) : 1e18;
                best = t < best ? t : best;
            }
            sum += best < 1e18 ? best : 0.0;
        }
    }
    return sum * 1e-9;
}

struct whole {
    struct graph *graph;
    float *params, *grads, *x;
    int32_t *labels;
    int64_t ns[STEPS * ROUNDS];
};

static void make_whole(struct whole *w, const struct graph_args *args)
{
    struct shape in = net_layer(args->net, 0)->out;

    check(graph_create(args, &w->graph) == ST_OK, "graph");
    w->params = mem_alloc(graph_arena_n(w->graph), sizeof(float));
    w->grads = mem_alloc(graph_arena_n(w->graph), sizeof(float));
    w->x = take(args->batches[0] * in.c * in.h * in.w * sizeof(float));
    w->labels = mem_alloc(args->batches[0], sizeof(int32_t));
    check(w->params != NULL && w->grads != NULL && w->labels != NULL, "memory");
    graph_init_params(w->graph, 1, w->params);
    graph_bind(w->graph, w->params, w->grads);
}

static void run_whole(struct whole *w, size_t batch, int first)
{
    struct graph_result result;

    for (int s = -1; s < STEPS; s++) {
        int64_t start = clock_thread_ns();
        check(graph_forward(w->graph, w->x, w->labels, batch, true, 0, NULL, &result) == ST_OK &&
                  graph_backward(w->graph, 1.0f, NULL) == ST_OK,
              "step");
        w->ns[first + (s < 0 ? 0 : s)] = clock_thread_ns() - start;
    }
}

int main(int argc, char **argv)
{
    struct config_model model = {.shortcut = (char[]){"projection"}};
    struct roof roofs[SETTINGS];
    struct whole whole = {0};
    struct graph_args args = {
        .ops = nn_ops_find("cpu"), .n_batches = 1, .training = true, .n_threads = 1};
    struct tuning *tuning;
    struct op_env env;
    struct net *net;
    struct shape in;
    size_t batch;
    double roof_s, whole_s;
    void *lib;
    cpu_set_t set;

    if (argc < 6) {
        fprintf(stderr, "usage: %s MODEL CHANNELS SIZE CLASSES BATCH [fp32|bf16] [CACHE]\n",
                argv[0]);
        return EXIT_FAILURE;
    }
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
    model.name = argv[1];
    in = (struct shape){strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
                        strtoul(argv[3], NULL, 10)};
    batch = strtoul(argv[5], NULL, 10);
    check(model_create(&model, in, (int)strtol(argv[4], NULL, 10), &net) == ST_OK, "model");
    check(tuning_create(argc > 7 ? argv[7] : NULL, &tuning) == ST_OK, "tuning");
    args.net = net;
    args.tuning = tuning;
    args.batches = &batch;
    args.compute = argc > 6 && strcmp(argv[6], "bf16") == 0 ? GRAPH_BF16 : GRAPH_FP32;
    env =
        (struct op_env){.batches = &batch, .n_batches = 1, .compute = args.compute, .n_threads = 1};
    check(args.ops->open(&env, &lib) == ST_OK, "library");
    args.ops->attach(lib);
    for (int s = 0; s < SETTINGS; s++) {
        roofs[s] = (struct roof){.net = net, .lib = lib, .batch = batch, .dtype = args.compute};
        make_roof(&roofs[s], s);
    }
    make_whole(&whole, &args);
    for (int r = 0; r < ROUNDS; r++) {
        for (int s = 0; s < SETTINGS; s++) {
            run_steps(&roofs[s], r * STEPS);
        }
        run_whole(&whole, batch, r * STEPS);
    }
    roof_s = best_sum(roofs);
    whole_s = median(whole.ns, STEPS * ROUNDS) * 1e-9;
    printf("%s %s, batch %zu, %s: roof %.1f images/s, whole step %.1f images/s, ratio %.3f\n",
           argv[1], args.compute == GRAPH_BF16 ? "bf16" : "fp32", batch, nn_ops_version(args.ops),
           (double)batch / roof_s, (double)batch / whole_s, roof_s / whole_s);
    return EXIT_SUCCESS;
}
