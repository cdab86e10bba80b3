#include "nn/onednn/od_choose.h"

#include <stdio.h>

#include "nn/tuning_table.h"

static const char *const layout_names[] = {
    [LAYOUT_NCHW] = "nchw", [LAYOUT_NHWC] = "nhwc", [LAYOUT_BLOCKED] = "blocked"};
static const char *const call_names[] = {[CALL_FORWARD] = "forward",
                                         [CALL_BACKWARD] = "backward",
                                         [CALL_BACKWARD_WEIGHTS] = "backward-weights"};
static const char *const algorithm_names[] = {
    [OD_DIRECT] = "direct", [OD_WINOGRAD] = "winograd", [OD_GEMM] = "gemm"};

/* Whether the node makes this call at all. */
static bool makes_call(const struct op_node *node, enum op_call call)
{
    if (node->kind == LAYER_BATCH_NORM) {
        return call == CALL_FORWARD || (call == CALL_BACKWARD && node->wants_dw);
    }
    return node->kind == LAYER_CONV2D &&
           (call == CALL_FORWARD || (call == CALL_BACKWARD && node->wants_dx[0]) ||
            (call == CALL_BACKWARD_WEIGHTS && node->wants_dw));
}

static bool make_key(const struct op_env *env, const struct op_node *node,
                     const struct value_desc *in, const struct value_desc *out, enum op_call call,
                     int algorithm, char *key, size_t key_bytes)
{
    const struct layer *l = node->layer;
    char what[64] = "norm";

    if (!makes_call(node, call)) {
        return false;
    }
    if (node->kind == LAYER_CONV2D) {
        snprintf(what, sizeof what, "conv k%zux%zu s%zu p%zu g%zu%s", l->u.conv.kernel_h,
                 l->u.conv.kernel_w, l->u.conv.stride, l->u.conv.pad, l->u.conv.groups,
                 l->u.conv.bias ? " bias" : "");
    }
    snprintf(key, key_bytes,
             "%s | %s | threads %d batch %zu %s | %zux%zux%zu %s > %zux%zux%zu %s %s%s%s | %s %s",
             tuning_machine(env->tuning), od_ops.version(), env->n_threads, env->batches[0],
             out->dtype == GRAPH_BF16 ? "bf16" : "fp32", in->shape.c, in->shape.h, in->shape.w,
             layout_names[in->layout], out->shape.c, out->shape.h, out->shape.w,
             layout_names[out->layout], what, node->add ? " add" : "", node->relu ? " relu" : "",
             call_names[call], algorithm_names[algorithm]);
    return true;
}

bool od_key(const struct op_env *env, const struct op_node *node, const struct value_desc *values,
            enum op_call call, int algorithm, char *key, size_t key_bytes)
{
    return make_key(env, node, &values[node->inputs[0]], &values[node->output], call, algorithm,
                    key, key_bytes);
}

/* --- algorithms --- */

static enum op_call call_of(enum od_pass pass)
{
    return pass == OD_FORWARD         ? CALL_FORWARD
           : pass == OD_BACKWARD_DATA ? CALL_BACKWARD
                                      : CALL_BACKWARD_WEIGHTS;
}

static bool has_winograd(const struct conv_request *q)
{
    const struct layer *l = q->node->layer;
    struct conv_request w = *q;
    struct conv_winograd own;
    struct conv_stem stem;
    dnnl_primitive_desc_t pd;

    if (q->out.dtype == GRAPH_BF16) {
        return conv_pass_is_winograd(q, &own, &stem);
    }
    if (l->u.conv.kernel_h != 3 || l->u.conv.kernel_w != 3 || l->u.conv.stride != 1 ||
        q->in.layout != LAYOUT_BLOCKED) {
        return false;
    }
    w.algorithm = OD_WINOGRAD;
    if (conv_pass_describe(&w, NULL, false, &pd) != dnnl_success) {
        return false;
    }
    dnnl_primitive_desc_destroy(pd);
    return true;
}

static bool has_algorithm(const struct conv_request *q, enum od_algorithm algorithm)
{
    struct conv_gemm gemm;

    switch (algorithm) {
    case OD_WINOGRAD:
        return has_winograd(q);
    case OD_GEMM:
        return conv_gemm_init(&gemm, q->node, &q->in, &q->out, q->n);
    case OD_DIRECT:
    case OD_ALGORITHMS:
        break;
    }
    return algorithm == OD_DIRECT;
}

static bool find_time(const struct op_env *env, const struct conv_request *q, int algorithm,
                      int64_t *ns)
{
    char key[TUNING_KEY_BYTES];

    return make_key(env, q->node, &q->in, &q->out, call_of(q->pass), algorithm, key, sizeof key) &&
           tuning_find(env->tuning, key, ns);
}

/* Without times: Winograd's transforms pay where there are many channels and enough tiles. */
static bool winograd_is_likely(const struct conv_request *q)
{
    size_t channels = q->in.shape.c < q->out.shape.c ? q->in.shape.c : q->out.shape.c;
    size_t tiles = q->n * ((q->out.shape.h + 3) / 4) * ((q->out.shape.w + 3) / 4);

    return channels >= 32 && tiles >= 32;
}

/* The fastest algorithm and its time. False if the time of one is missing. */
static bool fastest(const struct op_env *env, const struct conv_request *q,
                    enum od_algorithm *algorithm, int64_t *ns)
{
    int64_t time;

    *ns = INT64_MAX;
    for (enum od_algorithm a = OD_DIRECT; a < OD_ALGORITHMS; a++) {
        if (!has_algorithm(q, a)) {
            continue;
        }
        if (!find_time(env, q, (int)a, &time)) {
            return false;
        }
        if (time < *ns) {
            *algorithm = a;
            *ns = time;
        }
    }
    return true;
}

enum od_algorithm od_choose_algorithm(const struct op_env *env, const struct conv_request *q)
{
    static const enum od_algorithm of_variant[OD_VARIANTS] = {
        [OD_VARIANT_WINOGRAD] = OD_WINOGRAD, [OD_VARIANT_GEMM] = OD_GEMM};
    bool winograd = has_winograd(q), gemm = has_algorithm(q, OD_GEMM);
    enum od_algorithm algorithm;
    int64_t ns;

    if (env->variant != VARIANT_BEST) {
        algorithm = of_variant[env->variant];
        return has_algorithm(q, algorithm) ? algorithm : OD_DIRECT;
    }
    if (!winograd && !gemm) {
        return OD_DIRECT;
    }
    if (fastest(env, q, &algorithm, &ns)) {
        return algorithm;
    }
    *env->incomplete = true;
    return winograd && winograd_is_likely(q) ? OD_WINOGRAD : OD_DIRECT;
}

/* --- layouts --- */

static bool add_conv_cost(const struct op_env *env, const struct od *lib,
                          const struct op_node *node, const struct value_desc *in,
                          const struct value_desc *out, int64_t *ns)
{
    struct conv_request q = {
        .lib = lib, .node = node, .in = *in, .out = *out, .n = env->batches[0]};

    for (q.pass = OD_FORWARD; q.pass < OD_PASSES; q.pass++) {
        enum od_algorithm algorithm;
        int64_t time;
        if (makes_call(node, call_of(q.pass))) {
            if (!fastest(env, &q, &algorithm, &time)) {
                return false;
            }
            *ns += time;
        }
    }
    return true;
}

bool od_add_cost(const struct op_env *env, const struct od *lib, const struct op_node *node,
                 const struct value_desc *in, const struct value_desc *out, int64_t *ns)
{
    char key[TUNING_KEY_BYTES];

    if (node->kind == LAYER_CONV2D) {
        return add_conv_cost(env, lib, node, in, out, ns);
    }
    for (int c = 0; c < OP_CALLS; c++) {
        int64_t time;
        if (make_key(env, node, in, out, (enum op_call)c, 0, key, sizeof key)) {
            if (!tuning_find(env->tuning, key, &time)) {
                return false;
            }
            *ns += time;
        }
    }
    return true;
}
