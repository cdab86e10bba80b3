#include "nn/onednn/od_choose.h"

#include "base/log.h"
#include "base/mem.h"

#define TEXT_OF(x) TEXT_OF_(x)
#define TEXT_OF_(x) #x
#define OD_VERSION                                                                                 \
    "oneDNN " TEXT_OF(DNNL_VERSION_MAJOR) "." TEXT_OF(DNNL_VERSION_MINOR) "." TEXT_OF(             \
        DNNL_VERSION_PATCH)

static const char *od_version(void)
{
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();

    if (kernels_find(true) != NULL &&
        (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16) {
        return OD_VERSION ", avx512_core_bf16";
    }
    if ((isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core) {
        return OD_VERSION ", avx512_core";
    }
    return (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2 ? OD_VERSION ", avx2" : OD_VERSION;
}

static bool has_isa(dnnl_cpu_isa_t isa)
{
    return (dnnl_get_effective_cpu_isa() & isa) == isa;
}

static void od_close(void *lib)
{
    struct od *o = lib;

    if (o->stream != NULL) {
        dnnl_stream_destroy(o->stream);
    }
    if (o->engine != NULL) {
        dnnl_engine_destroy(o->engine);
    }
    mem_free(o);
}

static void od_attach(void *lib)
{
    od_set_threads(((const struct od *)lib)->n_threads);
}

static enum status od_open(const struct op_env *env, void **lib)
{
    struct od *o;

    if (env->compute == GRAPH_FP16) {
        return log_fail(ST_UNSUPPORTED, "processors compute no fp16, use compute = fp32 or bf16");
    }
    if (env->compute == GRAPH_BF16 &&
        (kernels_find(true) == NULL || !has_isa(dnnl_cpu_isa_avx512_core_bf16))) {
        return log_fail(ST_UNSUPPORTED,
                        "this processor computes no bf16 (avx512_bf16 is missing), compute = fp32 "
                        "works everywhere");
    }
    o = mem_alloc(1, sizeof *o);
    if (o == NULL) {
        return ST_NOMEM;
    }
    o->n_threads = env->n_threads;
    o->blocked = has_isa(dnnl_cpu_isa_avx512_core);
    o->kern[GRAPH_FP32] = kernels_find(false);
    o->kern[GRAPH_BF16] = kernels_find(true);
    if (dnnl_engine_create(&o->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&o->stream, o->engine, dnnl_stream_in_order) != dnnl_success) {
        od_close(o);
        return log_fail(ST_INTERNAL, "oneDNN gives no CPU engine, %s", OD_VERSION);
    }
    *lib = o;
    return ST_OK;
}

enum status od_fail(const struct op_node *node, dnnl_status_t st, const char *what)
{
    struct shape in = net_layer(node->net, node->inputs[0])->out, out = node->layer->out;

    if (st == dnnl_out_of_memory) {
        return log_fail(ST_NOMEM, "oneDNN is out of memory, %s of layer %s", what,
                        node->layer->name);
    }
    return log_fail(ST_UNSUPPORTED,
                    "oneDNN has no %s for layer %s from %zux%zux%zu to %zux%zux%zu (status %d)",
                    what, node->layer->name, in.c, in.h, in.w, out.c, out.h, out.w, (int)st);
}

struct plane od_plane(const struct value_desc *v, size_t chunk)
{
    size_t left = v->shape.c - chunk * KERNEL_LANES;
    bool blocked = v->layout == LAYOUT_BLOCKED;
    size_t step = blocked ? KERNEL_LANES : v->shape.c;

    return (struct plane){.row = v->shape.w * step,
                          .step = step,
                          .h = v->shape.h,
                          .w = v->shape.w,
                          .lanes = blocked || left > KERNEL_LANES ? KERNEL_LANES : (int)left};
}

size_t od_plane_offset(const struct value_desc *v, size_t n, size_t chunk)
{
    size_t per_chunk = v->layout == LAYOUT_BLOCKED ? v->shape.h * v->shape.w : 1;

    return n * value_elements(v) + chunk * per_chunk * KERNEL_LANES;
}

const struct nn_ops od_ops = {
    .name = "onednn",
    .version = od_version,
    .open = od_open,
    .close = od_close,
    .arrange = od_arrange,
    .gradient = od_gradient,
    .attach = od_attach,
    .n_variants = OD_VARIANTS,
    .key = od_key,
    .kinds =
        {
            [LAYER_INPUT] = &od_input,
            [LAYER_CONV2D] = &od_conv,
            [LAYER_BATCH_NORM] = &od_norm,
            [LAYER_RELU] = &od_relu,
            [LAYER_MAX_POOL] = &od_max_pool,
            [LAYER_AVG_POOL] = &od_avg_pool,
            [LAYER_GLOBAL_POOL] = &od_global_pool,
            [LAYER_DENSE] = &od_dense,
            [LAYER_ADD] = &od_add,
            [LAYER_CONCAT] = &od_concat,
            [LAYER_LRN] = &od_lrn,
            [LAYER_DROPOUT] = &od_dropout,
            [LAYER_PAD_CHANNELS] = &od_pad_channels,
            [LAYER_SOFTMAX_LOSS] = &od_loss,
        },
};
