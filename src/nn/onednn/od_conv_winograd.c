#include "nn/onednn/od_conv_winograd.h"

enum {
    LINE = 64,
    /* What a block of transformed values and products may take of a core's own cache. */
    BLOCK_BYTES = 640 << 10,
    /* Up to this size, what the gradient of weights sums over is transformed at once. */
    WHOLE_BYTES = 8 << 20,
    /* Channels whose gradients are worked on together. */
    GRADIENT_IN = 128,
    GRADIENT_OUT = 64
};

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t div_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Channels with padding. */
static size_t channels(const struct value_desc *v)
{
    return od_chunks(v) * KERNEL_LANES;
}

static size_t all_rows(const struct conv_winograd *w)
{
    return w->n * w->tile_rows;
}

static size_t n_blocks(const struct conv_winograd *w)
{
    return div_up(all_rows(w), w->block);
}

/* Positions lie one line more than needed apart: a power of two would hit few sets of a cache. */
static size_t apart(size_t elements, size_t elem_bytes)
{
    return div_up(elements * elem_bytes, LINE) * (LINE / elem_bytes) + LINE / elem_bytes;
}

/* --- what lies where in scratch memory --- */

/* u: pairs [C / 2][32], one for every 32 channels that come out. */
static size_t u_apart(const struct conv_winograd *w)
{
    return apart(channels(&w->from) / 2 * WINOGRAD_LANES, sizeof(uint32_t));
}

static size_t u_panel(const struct conv_winograd *w)
{
    return WINOGRAD_POSITIONS * u_apart(w);
}

static size_t n_panels(const struct value_desc *v)
{
    return div_up(channels(v), WINOGRAD_LANES);
}

/* v: bf16 [tiles of a block][C] */
static size_t v_apart(const struct conv_winograd *w)
{
    return apart(w->block * w->tiles * channels(&w->from), sizeof(uint16_t));
}

/* m: floats [tiles of a block][32] */
static size_t m_apart(const struct conv_winograd *w)
{
    return apart(w->block * w->tiles * WINOGRAD_LANES, sizeof(float));
}

static size_t slice_bytes(const struct conv_winograd *w)
{
    return WINOGRAD_POSITIONS * (v_apart(w) * sizeof(uint16_t) + m_apart(w) * sizeof(float));
}

/* pairs [tiles of a block / 2][channels of `v`] */
static size_t pairs_apart(const struct conv_winograd *w, const struct value_desc *v)
{
    return apart(w->block * w->tiles / 2 * channels(v), sizeof(uint32_t));
}

/* Products for the gradient of a part of the weights: floats [GRADIENT_IN][GRADIENT_OUT]. */
static size_t part_apart(void)
{
    return apart((size_t)GRADIENT_IN * GRADIENT_OUT, sizeof(float));
}

static size_t n_parts(const struct conv_winograd *w)
{
    return div_up(channels(&w->from), GRADIENT_IN) * div_up(channels(&w->to), GRADIENT_OUT);
}

/* --- making --- */

/* Bytes of one tile's operands. */
static size_t tile_bytes(const struct conv_winograd *w)
{
    size_t windows = channels(&w->from) * sizeof(uint16_t);

    return WINOGRAD_POSITIONS *
           (windows + (w->pass == OD_BACKWARD_WEIGHTS ? channels(&w->to) * sizeof(uint16_t)
                                                      : WINOGRAD_LANES * sizeof(float)));
}

static void choose_block(struct conv_winograd *w)
{
    size_t row = tile_bytes(w) * w->tiles, rows = all_rows(w);

    w->block = row > BLOCK_BYTES ? 1 : min_of(BLOCK_BYTES / row, rows);
    if (w->pass == OD_BACKWARD_WEIGHTS && row * rows <= WHOLE_BYTES) {
        w->block = rows;
    }
}

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

    if (!is_suitable(node, in, out) || winograd_find() == NULL) {
        return false;
    }
    *w = (struct conv_winograd){.from = back ? *out : *in,
                                .to = back ? *in : *out,
                                .pass = pass,
                                .n = n,
                                .pad = back ? 2 - pad : pad,
                                .relu = node->relu && pass == OD_FORWARD,
                                .n_slices = (size_t)lib->n_threads};
    w->tile_rows = div_up(w->to.shape.h, WINOGRAD_TILE);
    w->tiles = div_up(w->to.shape.w, WINOGRAD_TILE);
    if (pass == OD_BACKWARD_WEIGHTS) {
        w->tiles = (w->tiles + 1) / 2 * 2; /* for pairs; gradients past the end are zero */
    }
    choose_block(w);
    return true;
}

size_t conv_winograd_scratch(const struct conv_winograd *w)
{
    if (w->pass == OD_BACKWARD_WEIGHTS) {
        size_t parts = n_blocks(w) > 1 ? n_parts(w) : w->n_slices;
        return WINOGRAD_POSITIONS *
               ((pairs_apart(w, &w->from) + pairs_apart(w, &w->to)) * sizeof(uint32_t) +
                parts * part_apart() * sizeof(float));
    }
    return n_panels(&w->to) * u_panel(w) * sizeof(uint32_t) + w->n_slices * slice_bytes(w);
}

/* --- running --- */

struct call {
    const struct conv_winograd *w;
    const struct winograd_kernels *kern;
    const uint16_t *from, *to;
    float *weights;
    uint32_t *u, *v, *d;
    float *parts;
    char *slices;
    size_t first, end; /* tile rows of the block */
};

static struct winograd_row row_of(const struct conv_winograd *w, const struct value_desc *v,
                                  size_t row, ptrdiff_t from)
{
    return (struct winograd_row){
        .plane = od_plane(v, 0), .i = row % w->tile_rows, .tiles = w->tiles, .from = from};
}

static const uint16_t *plane_at(const struct conv_winograd *w, const struct value_desc *v,
                                const uint16_t *base, size_t row, size_t chunk)
{
    return base + od_plane_offset(v, row / w->tile_rows, chunk);
}

/* The kernels of one chunk of `from` and one of `to`. */
static void transform_weights(void *ctx, size_t i)
{
    const struct call *c = ctx;
    const struct conv_winograd *w = c->w;
    size_t from = i % od_chunks(&w->from), to = i / od_chunks(&w->from);
    bool back = w->pass == OD_BACKWARD_DATA;
    size_t block = back ? from * od_chunks(&w->to) + to : to * od_chunks(&w->from) + from;
    struct winograd_at at = {u_apart(w), WINOGRAD_LANES};
    uint32_t *u = c->u + to / 2 * u_panel(w) + to % 2 * KERNEL_LANES +
                  from * KERNEL_LANES / 2 * WINOGRAD_LANES;

    (back ? c->kern->turned_weights
          : c->kern->weights)(c->weights + block * 9 * KERNEL_LANES * KERNEL_LANES, at, u);
}

static void transform_windows(const struct call *c, size_t first, size_t end, uint16_t *v)
{
    const struct conv_winograd *w = c->w;
    size_t k = channels(&w->from);
    struct winograd_at at = {v_apart(w), k};

    for (size_t row = first; row < end; row++) {
        struct winograd_row r = row_of(w, &w->from, row, -(ptrdiff_t)w->pad);
        for (size_t chunk = 0; chunk < od_chunks(&w->from); chunk++) {
            c->kern->windows(&r, plane_at(w, &w->from, c->from, row, chunk), at,
                             v + (row - first) * w->tiles * k + chunk * KERNEL_LANES);
        }
    }
}

/* The products of one panel of channels, and the values that come of them. */
static void make_panel(const struct call *c, size_t panel, size_t first, size_t end,
                       const uint16_t *v, float *m)
{
    const struct conv_winograd *w = c->w;
    size_t k = channels(&w->from), left = channels(&w->to) - panel * WINOGRAD_LANES;
    struct winograd_product q = {.rows = (end - first) * w->tiles,
                                 .pairs = k / 2,
                                 .lanes = min_of(left, WINOGRAD_LANES),
                                 .a_row = k / 2,
                                 .a_step = 1,
                                 .b_step = WINOGRAD_LANES,
                                 .c_row = WINOGRAD_LANES};

    for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
        q.a = v + p * v_apart(w);
        q.b = c->u + panel * u_panel(w) + p * u_apart(w);
        q.c = m + p * m_apart(w);
        c->kern->product(&q);
    }
    for (size_t row = first; row < end; row++) {
        struct winograd_row r = row_of(w, &w->to, row, 0);
        struct winograd_at at = {m_apart(w), WINOGRAD_LANES};
        for (size_t half = 0; half < q.lanes / KERNEL_LANES; half++) {
            c->kern->tiles(&r, m + (row - first) * w->tiles * WINOGRAD_LANES + half * KERNEL_LANES,
                           at, w->relu,
                           (uint16_t *)plane_at(w, &w->to, c->to, row, 2 * panel + half));
        }
    }
}

static void make_slice(void *ctx, size_t i)
{
    const struct call *c = ctx;
    const struct conv_winograd *w = c->w;
    uint16_t *v = (uint16_t *)(void *)(c->slices + i * slice_bytes(w));
    float *m = (float *)(void *)(v + WINOGRAD_POSITIONS * v_apart(w));
    size_t blocks = n_blocks(w);

    for (size_t b = blocks * i / w->n_slices; b < blocks * (i + 1) / w->n_slices; b++) {
        size_t first = b * w->block, end = min_of(first + w->block, all_rows(w));
        transform_windows(c, first, end, v);
        for (size_t panel = 0; panel < n_panels(&w->to); panel++) {
            make_panel(c, panel, first, end, v, m);
        }
    }
}

/* --- the gradient of weights --- */

static void transform_pairs(void *ctx, size_t i)
{
    const struct call *c = ctx;
    const struct conv_winograd *w = c->w;
    size_t row = c->first + i, pair = i * w->tiles / 2;
    size_t from = channels(&w->from), to = channels(&w->to);
    struct winograd_row windows = row_of(w, &w->from, row, -(ptrdiff_t)w->pad);
    struct winograd_row tiles = row_of(w, &w->to, row, 0);

    for (size_t chunk = 0; chunk < od_chunks(&w->from); chunk++) {
        c->kern->window_pairs(&windows, plane_at(w, &w->from, c->from, row, chunk),
                              (struct winograd_at){pairs_apart(w, &w->from), from},
                              c->v + pair * from + chunk * KERNEL_LANES);
    }
    for (size_t chunk = 0; chunk < od_chunks(&w->to); chunk++) {
        c->kern->tile_pairs(&tiles, plane_at(w, &w->to, c->to, row, chunk),
                            (struct winograd_at){pairs_apart(w, &w->to), to},
                            c->d + pair * to + chunk * KERNEL_LANES);
    }
}

/* Gradients of the weights from channels [i, i + rows) to [o, o + lanes), of the finished products.
 */
static void contract_part(const struct call *c, size_t i, size_t rows, size_t o, size_t lanes,
                          const float *m)
{
    struct winograd_at at = {part_apart(), GRADIENT_OUT};

    for (size_t a = 0; a < rows; a += KERNEL_LANES) {
        for (size_t b = 0; b < lanes; b += KERNEL_LANES) {
            size_t block = (o + b) / KERNEL_LANES * od_chunks(&c->w->from) + (i + a) / KERNEL_LANES;
            c->kern->weight_gradient(m + a * GRADIENT_OUT + b, at,
                                     c->weights + block * 9 * KERNEL_LANES * KERNEL_LANES);
        }
    }
}

static void make_part(const struct call *c, size_t part, float *m)
{
    const struct conv_winograd *w = c->w;
    size_t from = channels(&w->from), to = channels(&w->to), columns = div_up(from, GRADIENT_IN);
    size_t i = part % columns * GRADIENT_IN, o = part / columns * GRADIENT_OUT;
    size_t rows = min_of(from - i, GRADIENT_IN), lanes = min_of(to - o, GRADIENT_OUT);
    struct winograd_product q = {.rows = rows,
                                 .pairs = (c->end - c->first) * w->tiles / 2,
                                 .a_row = 1,
                                 .a_step = from,
                                 .b_step = to,
                                 .c_row = GRADIENT_OUT,
                                 .add = c->first > 0};

    for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
        for (size_t l = 0; l < lanes; l += WINOGRAD_LANES) {
            q.lanes = min_of(lanes - l, WINOGRAD_LANES);
            q.a = c->v + p * pairs_apart(w, &w->from) + i;
            q.b = c->d + p * pairs_apart(w, &w->to) + o + l;
            q.c = m + p * part_apart() + l;
            c->kern->product(&q);
        }
    }
    if (c->end == all_rows(w)) {
        contract_part(c, i, rows, o, lanes, m);
    }
}

static void make_parts(void *ctx, size_t i)
{
    const struct call *c = ctx;
    size_t n = n_parts(c->w), bytes = WINOGRAD_POSITIONS * part_apart();
    bool kept = n_blocks(c->w) > 1; /* from block to block */

    for (size_t part = n * i / c->w->n_slices; part < n * (i + 1) / c->w->n_slices; part++) {
        make_part(c, part, c->parts + (kept ? part : i) * bytes);
    }
}

static void run_gradient(struct call *c, const struct od *lib, char *scratch)
{
    const struct conv_winograd *w = c->w;

    c->v = (uint32_t *)(void *)scratch;
    c->d = c->v + WINOGRAD_POSITIONS * pairs_apart(w, &w->from);
    c->parts = (float *)(void *)(c->d + WINOGRAD_POSITIONS * pairs_apart(w, &w->to));
    for (c->first = 0; c->first < all_rows(w); c->first = c->end) {
        c->end = min_of(c->first + w->block, all_rows(w));
        od_parallel(lib, c->end - c->first, transform_pairs, c);
        od_parallel(lib, w->n_slices, make_parts, c);
    }
}

void conv_winograd_run(const struct conv_winograd *w, const struct od *lib, const void *src,
                       const void *dst, const float *weights, void *scratch)
{
    bool back = w->pass == OD_BACKWARD_DATA;
    struct call c = {.w = w,
                     .kern = winograd_find(),
                     .from = back ? dst : src,
                     .to = back ? src : dst,
                     .weights = (float *)weights};

    if (w->pass == OD_BACKWARD_WEIGHTS) {
        run_gradient(&c, lib, scratch);
        return;
    }
    c.u = scratch;
    c.slices = (char *)(c.u + n_panels(&w->to) * u_panel(w));
    od_parallel(lib, od_chunks(&w->from) * od_chunks(&w->to), transform_weights, &c);
    od_parallel(lib, w->n_slices, make_slice, &c);
}
