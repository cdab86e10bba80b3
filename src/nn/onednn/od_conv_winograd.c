#include "nn/onednn/od_winograd.h"

static bool is_suitable(const struct op_node *node, const struct value_desc *in,
                        const struct value_desc *out)
{
    const struct layer *l = node->layer;

    return l->u.conv.kernel_h == 3 && l->u.conv.kernel_w == 3 && l->u.conv.stride == 1 &&
           l->u.conv.pad <= 2 && l->u.conv.groups == 1 && !l->u.conv.bias &&
           in->layout == LAYOUT_BLOCKED && out->layout == LAYOUT_BLOCKED &&
           in->dtype == GRAPH_BF16 && out->dtype == GRAPH_BF16;
}

bool conv_winograd_init(struct conv_winograd *w, const struct od *lib, const struct op_node *node,
                        const struct value_desc *in, const struct value_desc *out, size_t n,
                        enum od_pass pass)
{
    bool back = pass == OD_BACKWARD_DATA;
    size_t pad = node->layer->u.conv.pad;
    const struct winograd_kernels *kern = winograd_find();

    if (kern == NULL || !is_suitable(node, in, out)) {
        return false;
    }
    *w = (struct conv_winograd){.kern = kern,
                                .from = back ? *out : *in,
                                .to = back ? *in : *out,
                                .pass = pass,
                                .n = n,
                                .pad = back ? 2 - pad : pad,
                                .relu = node->relu && pass == OD_FORWARD,
                                .n_slices = (size_t)lib->n_threads};
    w->tile_rows = winograd_div_up(w->to.shape.h, WINOGRAD_TILE);
    w->tiles = winograd_div_up(w->to.shape.w, WINOGRAD_TILE);
    if (pass == OD_BACKWARD_WEIGHTS) {
        winograd_gradient_choose(w);
    } else {
        winograd_values_choose(w);
    }
    return true;
}

size_t conv_winograd_scratch(const struct conv_winograd *w)
{
    return w->pass == OD_BACKWARD_WEIGHTS ? winograd_gradient_scratch(w)
                                          : winograd_values_scratch(w);
}

void conv_winograd_run(const struct conv_winograd *w, const struct od *lib, const void *src,
                       const void *dst, const float *weights, void *scratch)
{
    switch (w->pass) {
    case OD_FORWARD:
        winograd_values_run(w, lib, src, weights, scratch, (uint16_t *)dst);
        return;
    case OD_BACKWARD_DATA:
        winograd_values_run(w, lib, dst, weights, scratch, (uint16_t *)src);
        return;
    case OD_BACKWARD_WEIGHTS:
        winograd_gradient_run(w, lib, src, dst, scratch, (float *)weights);
        return;
    case OD_PASSES:
        break;
    }
}
