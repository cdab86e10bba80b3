#include "nn/ops.h"

enum {
    BLOCK = 16
};

size_t value_elements(const struct value_desc *v)
{
    size_t c = v->shape.c;

    if (v->layout == LAYOUT_BLOCKED) {
        c = (c + BLOCK - 1) / BLOCK * BLOCK;
    }
    return c * v->shape.h * v->shape.w;
}

size_t value_bytes(const struct value_desc *v, size_t n)
{
    return n * value_elements(v) * (v->dtype == GRAPH_FP32 ? sizeof(float) : 2);
}

bool value_is_canonical(const struct value_desc *v)
{
    return v->dtype == GRAPH_FP32 &&
           (v->layout == LAYOUT_NCHW ||
            (v->layout == LAYOUT_NHWC && (v->shape.c == 1 || v->shape.h * v->shape.w == 1)));
}

size_t value_index(const struct value_desc *v, size_t i)
{
    size_t pixels = v->shape.h * v->shape.w, c = i / pixels, p = i % pixels;

    switch (v->layout) {
    case LAYOUT_NHWC:
        return p * v->shape.c + c;
    case LAYOUT_BLOCKED:
        return (c / BLOCK * pixels + p) * BLOCK + c % BLOCK;
    case LAYOUT_NCHW:
        break;
    }
    return i;
}
