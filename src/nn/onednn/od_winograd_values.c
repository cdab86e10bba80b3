#include "nn/onednn/od_winograd.h"

/*
 * Values from windows: for each position m[tiles, C'] = v[tiles, C] u[C, C'], a panel of 32
 * channels C' after the other. Transformed weights that fit into a core's own cache are all made
 * first and meet one block of tiles after the other. Larger ones are made a panel at a time and
 * meet the windows of all tiles.
 */
enum {
    BLOCK_BYTES = 640 << 10, /* what v and m of a block of tiles may take of a core's own cache */
    M_BYTES = 256 << 10,     /* m alone */
    WEIGHT_BYTES = 1 << 20   /* larger ones are made a panel at a time */
};

struct call {
    const struct conv_winograd *w;
    const uint16_t *from;
    const float *weights;
    uint16_t *to;
    char *shared, *slices; /* scratch memory of all threads, and of each */
};

/* --- what lies where in scratch memory --- */

/* u: pairs [C / 2][32] */
static size_t u_apart(const struct conv_winograd *w)
{
    return winograd_apart(winograd_channels(&w->from) / 2 * WINOGRAD_LANES, sizeof(uint32_t));
}

/* Elements of a panel. */
static size_t u_panel(const struct conv_winograd *w)
{
    return WINOGRAD_POSITIONS * u_apart(w);
}

static size_t n_panels(const struct conv_winograd *w)
{
    return winograd_div_up(winograd_channels(&w->to), WINOGRAD_LANES);
}

/* v: bf16 [tiles][C] */
static size_t v_apart(const struct conv_winograd *w)
{
    size_t rows = w->whole ? winograd_rows(w) : w->block;

    return winograd_apart(rows * w->tiles * winograd_channels(&w->from), sizeof(uint16_t));
}

/* m: floats [tiles of a block][32] */
static size_t m_apart(const struct conv_winograd *w)
{
    return winograd_apart(w->block * w->tiles * WINOGRAD_LANES, sizeof(float));
}

static size_t u_bytes(const struct conv_winograd *w)
{
    return (w->whole ? 1 : n_panels(w)) * u_panel(w) * sizeof(uint32_t);
}

static size_t v_bytes(const struct conv_winograd *w)
{
    return WINOGRAD_POSITIONS * v_apart(w) * sizeof(uint16_t);
}

/* m comes first, then u or v. */
static size_t slice_bytes(const struct conv_winograd *w)
{
    return WINOGRAD_POSITIONS * m_apart(w) * sizeof(float) + (w->whole ? u_bytes(w) : v_bytes(w));
}

static float *slice_m(const struct call *c, size_t slice)
{
    return (float *)(void *)(c->slices + slice * slice_bytes(c->w));
}

static void *slice_rest(const struct call *c, size_t slice)
{
    return slice_m(c, slice) + WINOGRAD_POSITIONS * m_apart(c->w);
}

void winograd_values_choose(struct conv_winograd *w)
{
    size_t v = WINOGRAD_POSITIONS * winograd_channels(&w->from) * sizeof(uint16_t) * w->tiles;
    size_t m = WINOGRAD_POSITIONS * WINOGRAD_LANES * sizeof(float) * w->tiles; /* of a tile row */
    size_t rows = winograd_rows(w), fit;

    w->whole = n_panels(w) * u_panel(w) * sizeof(uint32_t) > WEIGHT_BYTES &&
               rows * v <= WINOGRAD_WHOLE_BYTES;
    fit = w->whole ? M_BYTES / m : BLOCK_BYTES / (v + m);
    w->block = fit < 1 ? 1 : winograd_min(fit, rows);
}

size_t winograd_values_scratch(const struct conv_winograd *w)
{
    return (w->whole ? v_bytes(w) : u_bytes(w)) + w->n_slices * slice_bytes(w);
}

/* --- pieces of work --- */

/* u of the kernels from all channels to those of one panel. */
static void transform_weights(const struct call *c, size_t panel, uint32_t *u)
{
    const struct conv_winograd *w = c->w;
    struct winograd_at at = {u_apart(w), WINOGRAD_LANES};
    size_t n_from = od_chunks(&w->from), n_to = od_chunks(&w->to);
    bool back = w->pass == OD_BACKWARD_DATA;

    for (size_t half = 0; half < 2 && 2 * panel + half < n_to; half++) {
        size_t to = 2 * panel + half;
        for (size_t from = 0; from < n_from; from++) {
            size_t block = back ? from * n_to + to : to * n_from + from;
            (back ? w->kern->turned_weights : w->kern->weights)(
                c->weights + block * WINOGRAD_BLOCK, at,
                u + from * KERNEL_LANES / 2 * WINOGRAD_LANES + half * KERNEL_LANES);
        }
    }
}

/* v of tile row `row`, whose first tile is at `v`. */
static void transform_windows(const struct call *c, size_t row, uint16_t *v)
{
    const struct conv_winograd *w = c->w;
    struct winograd_row r = winograd_row(w, &w->from, row, -(ptrdiff_t)w->pad);
    struct winograd_at at = {v_apart(w), winograd_channels(&w->from)};

    for (size_t chunk = 0; chunk < od_chunks(&w->from); chunk++) {
        w->kern->windows(&r, c->from + winograd_plane(w, &w->from, row, chunk), at,
                         v + chunk * KERNEL_LANES);
    }
}

/* The values in tile rows [first, end), whose windows start at `v`, and channels of one panel. */
static void make_values(const struct call *c, size_t panel, size_t first, size_t end,
                        const uint32_t *u, const uint16_t *v, float *m)
{
    const struct conv_winograd *w = c->w;
    size_t k = winograd_channels(&w->from), left = winograd_channels(&w->to);
    struct winograd_at at = {m_apart(w), WINOGRAD_LANES};
    struct winograd_product q = {.rows = (end - first) * w->tiles,
                                 .pairs = k / 2,
                                 .a_row = k / 2,
                                 .a_step = 1,
                                 .b_step = WINOGRAD_LANES,
                                 .c_row = WINOGRAD_LANES};

    q.lanes = winograd_min(left - panel * WINOGRAD_LANES, WINOGRAD_LANES);
    for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
        q.a = v + p * v_apart(w);
        q.b = u + p * u_apart(w);
        q.c = m + p * m_apart(w);
        w->kern->product(&q);
    }
    for (size_t row = first; row < end; row++) {
        struct winograd_row r = winograd_row(w, &w->to, row, 0);
        const float *from = m + (row - first) * w->tiles * WINOGRAD_LANES;
        for (size_t half = 0; half < q.lanes / KERNEL_LANES; half++) {
            w->kern->tiles(&r, from + half * KERNEL_LANES, at, w->relu,
                           c->to + winograd_plane(w, &w->to, row, 2 * panel + half));
        }
    }
}

/* --- a block of tiles after the other --- */

static void transform_panel(void *ctx, size_t panel)
{
    const struct call *c = ctx;

    transform_weights(c, panel, (uint32_t *)(void *)c->shared + panel * u_panel(c->w));
}

static void make_blocks(void *ctx, size_t slice)
{
    const struct call *c = ctx;
    const struct conv_winograd *w = c->w;
    const uint32_t *u = (const uint32_t *)(void *)c->shared;
    uint16_t *v = slice_rest(c, slice);
    size_t n = winograd_div_up(winograd_rows(w), w->block);

    for (size_t b = n * slice / w->n_slices; b < n * (slice + 1) / w->n_slices; b++) {
        size_t first = b * w->block, end = winograd_min(first + w->block, winograd_rows(w));
        for (size_t row = first; row < end; row++) {
            transform_windows(c, row, v + (row - first) * w->tiles * winograd_channels(&w->from));
        }
        for (size_t panel = 0; panel < n_panels(w); panel++) {
            make_values(c, panel, first, end, u + panel * u_panel(w), v, slice_m(c, slice));
        }
    }
}

/* --- a panel of weights after the other --- */

static uint16_t *v_of_row(const struct call *c, size_t row)
{
    return (uint16_t *)(void *)c->shared + row * c->w->tiles * winograd_channels(&c->w->from);
}

static void transform_row(void *ctx, size_t row)
{
    transform_windows(ctx, row, v_of_row(ctx, row));
}

static void make_panels(void *ctx, size_t slice)
{
    const struct call *c = ctx;
    const struct conv_winograd *w = c->w;
    uint32_t *u = slice_rest(c, slice);
    size_t n = n_panels(w);

    for (size_t p = n * slice / w->n_slices; p < n * (slice + 1) / w->n_slices; p++) {
        transform_weights(c, p, u);
        for (size_t first = 0, end; first < winograd_rows(w); first = end) {
            end = winograd_min(first + w->block, winograd_rows(w));
            make_values(c, p, first, end, u, v_of_row(c, first), slice_m(c, slice));
        }
    }
}

void winograd_values_run(const struct conv_winograd *w, const struct od *lib, const uint16_t *from,
                         const float *weights, void *scratch, uint16_t *to)
{
    struct call c = {.w = w, .from = from, .weights = weights, .to = to, .shared = scratch};

    c.slices = c.shared + (w->whole ? v_bytes(w) : u_bytes(w));
    if (w->whole) {
        od_parallel(lib, winograd_rows(w), transform_row, &c);
        od_parallel(lib, w->n_slices, make_panels, &c);
    } else {
        od_parallel(lib, n_panels(w), transform_panel, &c);
        od_parallel(lib, w->n_slices, make_blocks, &c);
    }
}
