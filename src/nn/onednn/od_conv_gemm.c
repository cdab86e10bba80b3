#include "nn/onednn/od_conv_gemm.h"

enum {
    COL_BYTES = 512 << 10, /* about what stays in a core's own cache */
    MAX_COL_BYTES = 2 << 20
};

static size_t pixels(const struct conv_gemm *g)
{
    return g->out.shape.h * g->out.shape.w;
}

bool conv_gemm_init(struct conv_gemm *g, const struct op_node *node, const struct value_desc *in,
                    const struct value_desc *out, size_t n)
{
    const struct layer *l = node->layer;
    size_t bytes;

    *g = (struct conv_gemm){.in = *in,
                            .out = *out,
                            .kernel_h = l->u.conv.kernel_h,
                            .kernel_w = l->u.conv.kernel_w,
                            .stride = l->u.conv.stride,
                            .pad = l->u.conv.pad,
                            .k = l->u.conv.kernel_h * l->u.conv.kernel_w * in->shape.c,
                            .bias = l->u.conv.bias,
                            .relu = node->relu};
    bytes = pixels(g) * g->k * sizeof(float);
    g->samples = bytes < COL_BYTES ? COL_BYTES / bytes : 1;
    g->samples = g->samples > n ? n : g->samples;
    return l->u.conv.groups == 1 && in->layout == LAYOUT_NHWC && out->layout == LAYOUT_NHWC &&
           in->dtype == GRAPH_FP32 && out->dtype == GRAPH_FP32 && bytes <= MAX_COL_BYTES;
}

size_t conv_gemm_scratch(const struct conv_gemm *g)
{
    return g->samples * pixels(g) * g->k * sizeof(float);
}

/* --- between values and rows of windows --- */

struct col_call {
    const struct conv_gemm *g;
    const float *x;
    float *dx, *col;
};

/* The part [from, to) of a window's row that lies inside the input. */
static void inside(size_t left, size_t kernel, size_t pad, size_t size, size_t *from, size_t *to)
{
    *from = left < pad ? pad - left : 0;
    *to = left + kernel > size + pad ? (size + pad > left ? size + pad - left : 0) : kernel;
    *to = *to < *from ? *from : *to;
}

static void lay_out_row(const struct conv_gemm *g, const float *x, size_t i, size_t j, float *row)
{
    size_t c = g->in.shape.c, from, to, line = g->kernel_w * c;

    inside(j * g->stride, g->kernel_w, g->pad, g->in.shape.w, &from, &to);
    for (size_t a = 0; a < g->kernel_h; a++, row += line) {
        size_t h = i * g->stride + a - g->pad;
        if (h >= g->in.shape.h || to == from) {
            memset(row, 0, line * sizeof *row);
            continue;
        }
        memset(row, 0, from * c * sizeof *row);
        memcpy(row + from * c, x + (h * g->in.shape.w + j * g->stride + from - g->pad) * c,
               (to - from) * c * sizeof *row);
        memset(row + to * c, 0, (g->kernel_w - to) * c * sizeof *row);
    }
}

static void lay_out_sample(void *ctx, size_t s)
{
    const struct col_call *call = ctx;
    const struct conv_gemm *g = call->g;
    float *row = call->col + s * pixels(g) * g->k;

    for (size_t i = 0; i < g->out.shape.h; i++) {
        for (size_t j = 0; j < g->out.shape.w; j++, row += g->k) {
            lay_out_row(g, call->x + s * value_elements(&g->in), i, j, row);
        }
    }
}

static void add_row(const struct conv_gemm *g, const float *row, size_t i, size_t j, float *dx)
{
    size_t c = g->in.shape.c, from, to;

    inside(j * g->stride, g->kernel_w, g->pad, g->in.shape.w, &from, &to);
    for (size_t a = 0; a < g->kernel_h; a++, row += g->kernel_w * c) {
        size_t h = i * g->stride + a - g->pad;
        if (h < g->in.shape.h && to > from) {
            float *out = dx + (h * g->in.shape.w + j * g->stride + from - g->pad) * c;
            for (size_t e = 0; e < (to - from) * c; e++) {
                out[e] += row[from * c + e];
            }
        }
    }
}

static void add_up_sample(void *ctx, size_t s)
{
    const struct col_call *call = ctx;
    const struct conv_gemm *g = call->g;
    const float *row = call->col + s * pixels(g) * g->k;
    float *dx = call->dx + s * value_elements(&g->in);

    memset(dx, 0, value_bytes(&g->in, 1));
    for (size_t i = 0; i < g->out.shape.h; i++) {
        for (size_t j = 0; j < g->out.shape.w; j++, row += g->k) {
            add_row(g, row, i, j, dx);
        }
    }
}

/* --- products --- */

static dnnl_dim_t dim(size_t n)
{
    return (dnnl_dim_t)n;
}

/* Samples of the piece that starts at `at`. */
static size_t piece(const struct conv_gemm *g, size_t at, size_t n)
{
    return n - at < g->samples ? n - at : g->samples;
}

dnnl_status_t conv_gemm_forward(const struct conv_gemm *g, const struct od *lib, size_t n,
                                const float *x, const float *w, const float *b, float *y,
                                float *col)
{
    size_t o = g->out.shape.c, rows;

    for (size_t at = 0; at < n; at += g->samples) {
        struct col_call call = {g, x + at * value_elements(&g->in), NULL, col};
        float *to = y + at * value_elements(&g->out);
        dnnl_status_t st;
        od_parallel(lib, piece(g, at, n), lay_out_sample, &call);
        rows = piece(g, at, n) * pixels(g);
        st = dnnl_sgemm('N', 'T', dim(rows), dim(o), dim(g->k), 1.0f, col, dim(g->k), w, dim(g->k),
                        0.0f, to, dim(o));
        if (st != dnnl_success) {
            return st;
        }
        if (g->bias || g->relu) {
            lib->kern[GRAPH_FP32]->bias_rows(rows, o, g->bias ? b : NULL, g->relu, to);
        }
    }
    return dnnl_success;
}

dnnl_status_t conv_gemm_backward_data(const struct conv_gemm *g, const struct od *lib, size_t n,
                                      const float *dy, const float *w, float *dx, float *col)
{
    size_t o = g->out.shape.c;

    for (size_t at = 0; at < n; at += g->samples) {
        struct col_call call = {g, NULL, dx + at * value_elements(&g->in), col};
        dnnl_status_t st = dnnl_sgemm('N', 'N', dim(piece(g, at, n) * pixels(g)), dim(g->k), dim(o),
                                      1.0f, dy + at * value_elements(&g->out), dim(o), w, dim(g->k),
                                      0.0f, col, dim(g->k));
        if (st != dnnl_success) {
            return st;
        }
        od_parallel(lib, piece(g, at, n), add_up_sample, &call);
    }
    return dnnl_success;
}

dnnl_status_t conv_gemm_backward_weights(const struct conv_gemm *g, const struct od *lib, size_t n,
                                         const float *x, const float *dy, float *dw, float *db,
                                         float *col)
{
    size_t o = g->out.shape.c;

    if (g->bias) {
        lib->kern[GRAPH_FP32]->sum_rows(n * pixels(g), o, dy, db);
    }
    for (size_t at = 0; at < n; at += g->samples) {
        struct col_call call = {g, x + at * value_elements(&g->in), NULL, col};
        dnnl_status_t st;
        od_parallel(lib, piece(g, at, n), lay_out_sample, &call);
        st = dnnl_sgemm('T', 'N', dim(o), dim(g->k), dim(piece(g, at, n) * pixels(g)), 1.0f,
                        dy + at * value_elements(&g->out), dim(o), col, dim(g->k),
                        at == 0 ? 0.0f : 1.0f, dw, dim(g->k));
        if (st != dnnl_success) {
            return st;
        }
    }
    return dnnl_success;
}
