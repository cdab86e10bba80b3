#include "nn/onednn/od_conv_stem.h"

#include "nn/onednn/od_winograd.h"

enum {
    BLOCK = 2 /* tile rows at once: long sums for the gradient, and all of it stays in the cache */
};

/* --- making --- */

static bool is_suitable(const struct op_node *node, const struct value_desc *in,
                        const struct value_desc *out, enum od_pass pass)
{
    const struct layer *l = node->layer;

    return l->u.conv.stride == STEM_STRIDE && l->u.conv.kernel_h <= STEM_MAX_KERNEL &&
           l->u.conv.kernel_w <= STEM_MAX_KERNEL && l->u.conv.pad < STEM_MAX_KERNEL &&
           l->u.conv.groups == 1 && !l->u.conv.bias && in->shape.c <= STEM_MAX_CHANNELS &&
           in->layout == LAYOUT_NCHW && out->layout == LAYOUT_BLOCKED && in->dtype == GRAPH_BF16 &&
           out->dtype == GRAPH_BF16 && pass != OD_BACKWARD_DATA;
}

bool conv_stem_init(struct conv_stem *s, const struct od *lib, const struct op_node *node,
                    const struct value_desc *in, const struct value_desc *out, size_t n,
                    enum od_pass pass)
{
    const struct layer *l = node->layer;
    const struct stem_kernels *kern = stem_find();

    if (kern == NULL || !is_suitable(node, in, out, pass)) {
        return false;
    }
    *s = (struct conv_stem){.kern = kern,
                            .winograd = winograd_find(),
                            .in = *in,
                            .out = *out,
                            .pass = pass,
                            .n = n,
                            .relu = node->relu && pass == OD_FORWARD,
                            .tile_rows = winograd_div_up(out->shape.h, WINOGRAD_TILE),
                            .n_slices = winograd_min((size_t)lib->n_threads, n)};
    s->shape = (struct stem){.v = stem_axis_of(l->u.conv.kernel_h),
                             .h = stem_axis_of(l->u.conv.kernel_w),
                             .channels = in->shape.c,
                             .height = in->shape.h,
                             .width = in->shape.w,
                             .pad = l->u.conv.pad,
                             .tiles = winograd_div_up(out->shape.w, 2 * WINOGRAD_TILE) * 2};
    s->block = winograd_min(BLOCK, s->tile_rows);
    stem_number_rows(&s->shape);
    return true;
}

/* --- what lies where in scratch memory --- */

static size_t n_rows(const struct conv_stem *s)
{
    return s->shape.first[WINOGRAD_POSITIONS];
}

static size_t n_tiles(const struct conv_stem *s)
{
    return s->block * s->shape.tiles;
}

/* Bytes of whole lines. */
static size_t bytes_of(size_t elements, size_t elem_bytes)
{
    return winograd_div_up(elements * elem_bytes, WINOGRAD_LINE) * WINOGRAD_LINE;
}

/* u: pairs [n_rows / 2][channels] of all threads */
static size_t u_bytes(const struct conv_stem *s)
{
    return s->pass == OD_FORWARD
               ? bytes_of(n_rows(s) / 2 * winograd_channels(&s->out), sizeof(uint32_t))
               : 0;
}

/* m: floats [tiles][32] of positions, apart; d: pairs [tiles / 2][channels], apart */
static size_t m_apart(const struct conv_stem *s)
{
    return winograd_apart(n_tiles(s) * WINOGRAD_LANES, sizeof(float));
}

static size_t d_apart(const struct conv_stem *s)
{
    return winograd_apart(n_tiles(s) / 2 * winograd_channels(&s->out), sizeof(uint32_t));
}

/* Of one thread: lines, v, and forward pairs [n_rows / 2][tiles] and m, else d and sums[n_rows][C].
 */
struct slice {
    uint16_t *lines, *v;
    uint32_t *pairs, *d;
    float *m, *sums;
};

static size_t lay_out(const struct conv_stem *s, char *base, struct slice *out)
{
    size_t lines = bytes_of(stem_lines(&s->shape), sizeof(uint16_t));
    size_t v = bytes_of(n_rows(s) * n_tiles(s), sizeof(uint16_t));
    size_t pairs = s->pass == OD_FORWARD ? v : 0;
    size_t m = WINOGRAD_POSITIONS *
               (s->pass == OD_FORWARD ? m_apart(s) * sizeof(float) : d_apart(s) * sizeof(uint32_t));

    if (base != NULL) {
        out->lines = (uint16_t *)(void *)base;
        out->v = (uint16_t *)(void *)(base + lines);
        out->pairs = (uint32_t *)(void *)(base + lines + v);
        out->m = (float *)(void *)(base + lines + v + pairs);
        out->d = (uint32_t *)(void *)out->m;
        out->sums = (float *)(void *)(base + lines + v + pairs + m);
    }
    return lines + v + pairs + m +
           (s->pass == OD_FORWARD
                ? 0
                : bytes_of(n_rows(s) * winograd_channels(&s->out), sizeof(float)));
}

size_t conv_stem_scratch(const struct conv_stem *s)
{
    return u_bytes(s) + s->n_slices * lay_out(s, NULL, NULL);
}

/* --- running --- */

struct call {
    const struct conv_stem *s;
    const uint16_t *x;
    uint16_t *y;
    const float *weights;
    char *scratch;
};

static uint32_t *u_of(const struct call *c)
{
    return (uint32_t *)(void *)c->scratch;
}

static struct slice slice_of(const struct call *c, size_t i)
{
    struct slice out;
    size_t bytes = lay_out(c->s, NULL, NULL);

    (void)lay_out(c->s, c->scratch + u_bytes(c->s) + i * bytes, &out);
    return out;
}

static void transform_weights(void *ctx, size_t chunk)
{
    const struct call *c = ctx;
    const struct stem *s = &c->s->shape;
    size_t taps = s->v.kernel * s->h.kernel * s->channels;

    c->s->kern->weights(s, c->weights + chunk * taps * KERNEL_LANES, winograd_channels(&c->s->out),
                        u_of(c) + chunk * KERNEL_LANES);
}

/* v of tile rows [first, end) of a sample; tiles of one after those of the other. */
static void transform_windows(const struct call *c, const struct slice *w, size_t sample,
                              size_t first, size_t end)
{
    const struct conv_stem *s = c->s;
    const uint16_t *x = c->x + sample * value_elements(&s->in);

    for (size_t row = first; row < end; row++) {
        s->kern->windows(&s->shape, x, row, w->lines, n_tiles(s),
                         w->v + (row - first) * s->shape.tiles);
    }
}

static struct winograd_row row_of(const struct conv_stem *s, size_t i)
{
    return (struct winograd_row){
        .plane = od_plane(&s->out, 0), .i = i, .tiles = s->shape.tiles, .from = 0};
}

/* The outputs of tile rows [first, end) in the channels from `lane` on. */
static void make_values(const struct call *c, const struct slice *w, size_t lane, size_t sample,
                        size_t first, size_t end)
{
    const struct conv_stem *s = c->s;
    size_t all = winograd_channels(&s->out);
    struct winograd_at at = {m_apart(s), WINOGRAD_LANES};
    struct winograd_product q = {.rows = (end - first) * s->shape.tiles,
                                 .lanes = winograd_min(all - lane, WINOGRAD_LANES),
                                 .a_row = 1,
                                 .a_step = n_tiles(s),
                                 .b_step = all,
                                 .c_row = WINOGRAD_LANES};

    for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
        size_t pair = s->shape.first[p] / 2;
        q.pairs = s->shape.first[p + 1] / 2 - pair;
        q.a = w->pairs + pair * n_tiles(s);
        q.b = u_of(c) + pair * all + lane;
        q.c = w->m + p * at.apart;
        s->winograd->product(&q);
    }
    for (size_t row = first; row < end; row++) {
        struct winograd_row r = row_of(s, row);
        const float *m = w->m + (row - first) * s->shape.tiles * WINOGRAD_LANES;
        for (size_t half = 0; half < q.lanes; half += KERNEL_LANES) {
            s->winograd->tiles(&r, m + half, at, s->relu,
                               c->y +
                                   od_plane_offset(&s->out, sample, (lane + half) / KERNEL_LANES));
        }
    }
}

static void forward_block(const struct call *c, const struct slice *w, size_t sample, size_t first,
                          size_t end)
{
    transform_windows(c, w, sample, first, end);
    c->s->kern->pair_rows(n_rows(c->s) / 2, n_tiles(c->s), w->v, w->pairs);
    for (size_t lane = 0; lane < winograd_channels(&c->s->out); lane += WINOGRAD_LANES) {
        make_values(c, w, lane, sample, first, end);
    }
}

/* Add the products of tile rows [first, end) to the sums. */
static void gradient_block(const struct call *c, const struct slice *w, size_t sample, size_t first,
                           size_t end)
{
    const struct conv_stem *s = c->s;
    size_t all = winograd_channels(&s->out);
    struct winograd_at at = {d_apart(s), all};
    struct winograd_product q = {.pairs = (end - first) * s->shape.tiles / 2,
                                 .a_row = n_tiles(s) / 2,
                                 .a_step = 1,
                                 .b_step = all,
                                 .c_row = all,
                                 .add = true};

    transform_windows(c, w, sample, first, end);
    for (size_t row = first; row < end; row++) {
        struct winograd_row r = row_of(s, row);
        uint32_t *d = w->d + (row - first) * s->shape.tiles / 2 * all;
        for (size_t chunk = 0; chunk < od_chunks(&s->out); chunk++) {
            s->winograd->tile_pairs(&r, c->y + od_plane_offset(&s->out, sample, chunk), at,
                                    d + chunk * KERNEL_LANES);
        }
    }
    for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
        q.rows = s->shape.first[p + 1] - s->shape.first[p];
        for (size_t lane = 0; lane < all; lane += WINOGRAD_LANES) {
            q.lanes = winograd_min(all - lane, WINOGRAD_LANES);
            q.a = w->v + s->shape.first[p] * n_tiles(s);
            q.b = w->d + p * at.apart + lane;
            q.c = w->sums + s->shape.first[p] * all + lane;
            s->winograd->product(&q);
        }
    }
}

/* The samples of one thread. */
static void run_slice(void *ctx, size_t i)
{
    const struct call *c = ctx;
    const struct conv_stem *s = c->s;
    struct slice w = slice_of(c, i);

    if (s->pass != OD_FORWARD) {
        memset(w.sums, 0, n_rows(s) * winograd_channels(&s->out) * sizeof(float));
    }
    for (size_t n = s->n * i / s->n_slices; n < s->n * (i + 1) / s->n_slices; n++) {
        for (size_t first = 0; first < s->tile_rows; first += s->block) {
            size_t end = winograd_min(first + s->block, s->tile_rows);
            (s->pass == OD_FORWARD ? forward_block : gradient_block)(c, &w, n, first, end);
        }
    }
}

/* The sums of all threads, in order, and the gradient of them. */
static void finish_gradient(const struct call *c, float *dw)
{
    const struct conv_stem *s = c->s;
    struct slice total = slice_of(c, 0);
    size_t all = winograd_channels(&s->out), taps = s->shape.v.kernel * s->shape.h.kernel;

    for (size_t i = 1; i < s->n_slices; i++) {
        struct slice other = slice_of(c, i);
        for (size_t k = 0; k < n_rows(s) * all; k++) {
            total.sums[k] += other.sums[k];
        }
    }
    for (size_t chunk = 0; chunk < od_chunks(&s->out); chunk++) {
        s->kern->weight_gradient(&s->shape, total.sums + chunk * KERNEL_LANES, all,
                                 dw + chunk * taps * s->shape.channels * KERNEL_LANES);
    }
}

void conv_stem_run(const struct conv_stem *s, const struct od *lib, const void *src,
                   const void *dst, const float *weights, void *scratch)
{
    struct call c = {
        .s = s, .x = src, .y = (uint16_t *)dst, .weights = weights, .scratch = scratch};

    if (s->pass == OD_FORWARD) {
        od_parallel(lib, od_chunks(&s->out), transform_weights, &c);
    }
    od_parallel(lib, s->n_slices, run_slice, &c);
    if (s->pass != OD_FORWARD) {
        finish_gradient(&c, (float *)weights);
    }
}
