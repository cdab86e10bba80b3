#include "nn/onednn/od_winograd.h"

/*
 * The gradient of weights: for each position m[C, C'] = v[tiles, C]^T d[tiles, C'], a part of the
 * channels after the other. Where the transformed operands of all tiles are too large, they are
 * made a block at a time, and the products of all parts are kept from one block to the next.
 */
enum {
    BLOCK_BYTES = 640 << 10, /* of v and d of a block */
    PART_IN = 128,           /* channels of a part */
    PART_OUT = 64
};

struct call {
    const struct conv_winograd *w;
    const uint16_t *x, *dy;
    float *dw;
    uint32_t *v, *d;
    float *parts;
    size_t first, end; /* tile rows of the block */
};

/* v, d: pairs [tiles of a block / 2][channels], lines apart for the same reason as positions. */
static size_t step(const struct value_desc *of)
{
    return winograd_apart(winograd_channels(of), sizeof(uint32_t));
}

static size_t apart(const struct conv_winograd *w, const struct value_desc *of)
{
    return winograd_apart(w->block * w->tiles / 2 * step(of), sizeof(uint32_t));
}

/* m: floats [PART_IN][PART_OUT] */
static size_t m_apart(void)
{
    return winograd_apart((size_t)PART_IN * PART_OUT, sizeof(float));
}

static size_t n_parts(const struct conv_winograd *w)
{
    return winograd_div_up(winograd_channels(&w->from), PART_IN) *
           winograd_div_up(winograd_channels(&w->to), PART_OUT);
}

void winograd_gradient_choose(struct conv_winograd *w)
{
    size_t rows = winograd_rows(w), row;

    w->tiles = (w->tiles + 1) / 2 * 2; /* for pairs; gradients past the end are zero */
    row = w->tiles * WINOGRAD_POSITIONS * sizeof(uint16_t) *
          (winograd_channels(&w->from) + winograd_channels(&w->to));
    w->whole = row * rows <= WINOGRAD_WHOLE_BYTES;
    w->block = w->whole ? rows : row > BLOCK_BYTES ? 1 : winograd_min(BLOCK_BYTES / row, rows);
}

size_t winograd_gradient_scratch(const struct conv_winograd *w)
{
    size_t kept = w->whole ? w->n_slices : n_parts(w);

    return WINOGRAD_POSITIONS * ((apart(w, &w->from) + apart(w, &w->to)) * sizeof(uint32_t) +
                                 kept * m_apart() * sizeof(float));
}

static void transform_row(void *ctx, size_t i)
{
    const struct call *c = ctx;
    const struct conv_winograd *w = c->w;
    size_t row = c->first + i, pair = i * w->tiles / 2;
    struct winograd_row windows = winograd_row(w, &w->from, row, -(ptrdiff_t)w->pad);
    struct winograd_row tiles = winograd_row(w, &w->to, row, 0);
    struct winograd_at at_v = {apart(w, &w->from), step(&w->from)};
    struct winograd_at at_d = {apart(w, &w->to), step(&w->to)};

    for (size_t chunk = 0; chunk < od_chunks(&w->from); chunk++) {
        w->kern->window_pairs(&windows, c->x + winograd_plane(w, &w->from, row, chunk), at_v,
                              c->v + pair * at_v.step + chunk * KERNEL_LANES);
    }
    for (size_t chunk = 0; chunk < od_chunks(&w->to); chunk++) {
        w->kern->tile_pairs(&tiles, c->dy + winograd_plane(w, &w->to, row, chunk), at_d,
                            c->d + pair * at_d.step + chunk * KERNEL_LANES);
    }
}

/* Gradients from channels [i, i + rows) to [o, o + lanes), of the finished products. */
static void contract(const struct call *c, size_t i, size_t rows, size_t o, size_t lanes,
                     const float *m)
{
    struct winograd_at at = {m_apart(), PART_OUT};

    for (size_t a = 0; a < rows; a += KERNEL_LANES) {
        for (size_t b = 0; b < lanes; b += KERNEL_LANES) {
            size_t block = (o + b) / KERNEL_LANES * od_chunks(&c->w->from) + (i + a) / KERNEL_LANES;
            c->w->kern->weight_gradient(m + a * PART_OUT + b, at, c->dw + block * WINOGRAD_BLOCK);
        }
    }
}

static void make_part(const struct call *c, size_t part, float *m)
{
    const struct conv_winograd *w = c->w;
    size_t from = winograd_channels(&w->from), to = winograd_channels(&w->to);
    size_t columns = winograd_div_up(from, PART_IN);
    size_t i = part % columns * PART_IN, o = part / columns * PART_OUT;
    size_t lanes = winograd_min(to - o, PART_OUT);
    struct winograd_product q = {.rows = winograd_min(from - i, PART_IN),
                                 .pairs = (c->end - c->first) * w->tiles / 2,
                                 .a_row = 1,
                                 .a_step = step(&w->from),
                                 .b_step = step(&w->to),
                                 .c_row = PART_OUT,
                                 .add = c->first > 0};

    for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
        for (size_t l = 0; l < lanes; l += WINOGRAD_LANES) {
            q.lanes = winograd_min(lanes - l, WINOGRAD_LANES);
            q.a = c->v + p * apart(w, &w->from) + i;
            q.b = c->d + p * apart(w, &w->to) + o + l;
            q.c = m + p * m_apart() + l;
            w->kern->product(&q);
        }
    }
    if (c->end == winograd_rows(w)) {
        contract(c, i, q.rows, o, lanes, m);
    }
}

static void make_parts(void *ctx, size_t slice)
{
    const struct call *c = ctx;
    size_t n = n_parts(c->w), elements = WINOGRAD_POSITIONS * m_apart();

    for (size_t p = n * slice / c->w->n_slices; p < n * (slice + 1) / c->w->n_slices; p++) {
        make_part(c, p, c->parts + (c->w->whole ? slice : p) * elements);
    }
}

void winograd_gradient_run(const struct conv_winograd *w, const struct od *lib, const uint16_t *x,
                           const uint16_t *dy, void *scratch, float *dw)
{
    struct call c = {.w = w, .x = x, .dy = dy, .dw = dw, .v = scratch};

    c.d = c.v + WINOGRAD_POSITIONS * apart(w, &w->from);
    c.parts = (float *)(void *)(c.d + WINOGRAD_POSITIONS * apart(w, &w->to));
    for (c.first = 0; c.first < winograd_rows(w); c.first = c.end) {
        c.end = winograd_min(c.first + w->block, winograd_rows(w));
        od_parallel(lib, c.end - c.first, transform_row, &c);
        od_parallel(lib, w->n_slices, make_parts, &c);
    }
}
