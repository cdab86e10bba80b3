/* What is computed from a finished description: counts of parameters and operations, and a table.
 */
#include <inttypes.h>
#include <string.h>

#include "nn/net.h"

/* The products of a layer for one sample; all else is bound by memory and not counted. */
static uint64_t layer_flops(const struct net *n, const struct layer *l)
{
    uint64_t pixels = (uint64_t)l->out.h * l->out.w;

    if (l->kind != LAYER_CONV2D && l->kind != LAYER_DENSE) {
        return 0;
    }
    return 2 * pixels * net_param(n, l->params[0])->n;
}

static size_t layer_param_elements(const struct net *n, const struct layer *l)
{
    size_t sum = 0;

    for (int i = 0; i < l->n_params; i++) {
        sum += net_param(n, l->params[i])->n;
    }
    return sum;
}

size_t net_param_elements(const struct net *n)
{
    size_t sum = 0;

    for (int i = 0; i < net_n_params(n); i++) {
        sum += net_param(n, i)->n;
    }
    return sum;
}

double net_forward_flops(const struct net *n)
{
    double sum = 0.0;

    for (int i = 0; i < net_n_layers(n); i++) {
        sum += (double)layer_flops(n, net_layer(n, i));
    }
    return sum;
}

/* A few words on what the layer does, such as "3x3 /2 +1" for kernel, stride and padding. */
static const char *layer_detail(const struct layer *l, char *out, size_t out_bytes)
{
    out[0] = '\0';
    if (l->kind == LAYER_CONV2D) {
        int used = snprintf(out, out_bytes, "%zux%zu /%zu +%zu", l->u.conv.kernel_h,
                            l->u.conv.kernel_w, l->u.conv.stride, l->u.conv.pad);
        if (l->u.conv.groups > 1 && used > 0 && (size_t)used < out_bytes) {
            snprintf(out + used, out_bytes - (size_t)used, " g%zu", l->u.conv.groups);
        }
    } else if (l->kind == LAYER_MAX_POOL || l->kind == LAYER_AVG_POOL) {
        snprintf(out, out_bytes, "%zux%zu /%zu +%zu", l->u.pool.kernel, l->u.pool.kernel,
                 l->u.pool.stride, l->u.pool.pad);
    }
    return out;
}

void net_print(const struct net *n, FILE *out)
{
    static const char *const kinds[LAYER_KINDS] = {
        [LAYER_INPUT] = "input",      [LAYER_CONV2D] = "conv2d",     [LAYER_BATCH_NORM] = "norm",
        [LAYER_RELU] = "relu",        [LAYER_MAX_POOL] = "max_pool", [LAYER_AVG_POOL] = "avg_pool",
        [LAYER_GLOBAL_POOL] = "pool", [LAYER_DENSE] = "dense",       [LAYER_ADD] = "add",
        [LAYER_CONCAT] = "concat",    [LAYER_LRN] = "lrn",           [LAYER_DROPOUT] = "dropout",
        [LAYER_PAD_CHANNELS] = "pad", [LAYER_SOFTMAX_LOSS] = "loss"};
    int width = 5;
    uint64_t flops = 0;

    for (int i = 0; i < net_n_layers(n); i++) {
        int length = (int)strlen(net_layer(n, i)->name);
        width = length > width ? length : width;
    }
    fprintf(out, "network %s, %d classes\n", net_name(n), net_classes(n));
    fprintf(out, "%-*s  %-8s  %-12s  %-14s  %10s  %12s\n", width, "layer", "kind", "window",
            "output", "parameters", "FLOP");
    for (int i = 0; i < net_n_layers(n); i++) {
        const struct layer *l = net_layer(n, i);
        char detail[64], shape[64];

        snprintf(shape, sizeof shape, "%zux%zux%zu", l->out.c, l->out.h, l->out.w);
        fprintf(out, "%-*s  %-8s  %-12s  %-14s  %10zu  %12" PRIu64 "\n", width, l->name,
                kinds[l->kind], layer_detail(l, detail, sizeof detail), shape,
                layer_param_elements(n, l), layer_flops(n, l));
        flops += layer_flops(n, l);
    }
    fprintf(out, "%-*s  %-8s  %-12s  %-14s  %10zu  %12" PRIu64 "\n", width, "total", "", "", "",
            net_param_elements(n), flops);
}
