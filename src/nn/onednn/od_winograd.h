#ifndef NN_OD_WINOGRAD_H
#define NN_OD_WINOGRAD_H

#include "nn/onednn/od_conv_winograd.h"

/* Inside conv_winograd: what its passes share. */

enum {
    WINOGRAD_LINE = 64,                               /* bytes of a cache line */
    WINOGRAD_BLOCK = 9 * KERNEL_LANES * KERNEL_LANES, /* weights of 16 x 16 channels */
    /* Up to this size, what a pass sums over may be transformed at once. */
    WINOGRAD_WHOLE_BYTES = 8 << 20
};

static inline size_t winograd_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t winograd_div_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Channels with padding. */
static inline size_t winograd_channels(const struct value_desc *v)
{
    return od_chunks(v) * KERNEL_LANES;
}

/* Tile rows of the batch. */
static inline size_t winograd_rows(const struct conv_winograd *w)
{
    return w->n * w->tile_rows;
}

/* Positions lie one line more than needed apart: a power of two would hit few sets of a cache. */
static inline size_t winograd_apart(size_t elements, size_t elem_bytes)
{
    size_t line = WINOGRAD_LINE / elem_bytes;

    return (winograd_div_up(elements, line) + 1) * line;
}

/* Tile row `row` of the batch; `from`: where tile (0, 0) starts in `v`. */
static inline struct winograd_row
winograd_row(const struct conv_winograd *w, const struct value_desc *v, size_t row, ptrdiff_t from)
{
    return (struct winograd_row){
        .plane = od_plane(v, 0), .i = row % w->tile_rows, .tiles = w->tiles, .from = from};
}

/* Its plane. */
static inline size_t winograd_plane(const struct conv_winograd *w, const struct value_desc *v,
                                    size_t row, size_t chunk)
{
    return od_plane_offset(v, row / w->tile_rows, chunk);
}

/* od_winograd_values.c: y of x and w, or dx of dy and w. `choose` sets block and whole. */
void winograd_values_choose(struct conv_winograd *w);
size_t winograd_values_scratch(const struct conv_winograd *w);
void winograd_values_run(const struct conv_winograd *w, const struct od *lib, const uint16_t *from,
                         const float *weights, void *scratch, uint16_t *to);

/* od_winograd_gradient.c: dw of x and dy. */
void winograd_gradient_choose(struct conv_winograd *w);
size_t winograd_gradient_scratch(const struct conv_winograd *w);
void winograd_gradient_run(const struct conv_winograd *w, const struct od *lib, const uint16_t *x,
                           const uint16_t *dy, void *scratch, float *dw);

#endif
