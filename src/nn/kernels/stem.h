#ifndef NN_STEM_H
#define NN_STEM_H

#include "nn/kernels/winograd.h"

/*
 * The pieces of a convolution with stride 2 on few channels, as the first of a network is, by
 * Winograd's algorithm on bf16. Along an axis, the even and the odd inputs are two convolutions
 * with stride 1, whose kernels are cut into runs of up to three taps. Two outputs of a run of r
 * taps cost r + 1 products; each belongs to one of the four positions of F(2, 3) (winograd.h) in
 * which it enters the outputs. So a sum over the *pieces* of all runs and over the channels takes
 * the place of the sum over channels, separately for each of the sixteen positions, and the rest is
 * the same. For 7x7 kernels it takes 1.9 times fewer products than the plain sum.
 *
 * Inputs are x[C, H, W] in bf16. Rows k of v hold one piece of each axis and one channel: v(k,
 * tile).
 */
enum {
    STEM_MAX_KERNEL = 7,
    STEM_MAX_PIECES = 10,
    STEM_MAX_CHANNELS = 4,
    STEM_ROW_STEP = 4, /* the rows of a position are a multiple of this; the last ones may be 0 */
    STEM_MAX_ROWS = STEM_MAX_PIECES * STEM_MAX_PIECES * STEM_MAX_CHANNELS +
                    (STEM_ROW_STEP - 1) * WINOGRAD_POSITIONS,
    STEM_STRIDE = 2,
    STEM_STEP = STEM_STRIDE * WINOGRAD_TILE /* inputs from tile to tile */
};

/* A product of (x[first] + sign · x[second]), counted from where its tile starts, and of sum(tap ·
 * w). */
struct stem_piece {
    size_t group; /* 0 to 3: position along the axis */
    size_t first, second;
    float sign; /* 0: x[first] alone, and second is first */
    float tap[STEM_MAX_KERNEL];
};

struct stem_axis {
    size_t kernel, n;
    struct stem_piece piece[STEM_MAX_PIECES];
    size_t n_group[4]; /* pieces of each group */
};

struct stem {
    struct stem_axis v, h;
    size_t channels, height, width, pad;  /* of the input */
    size_t tiles;                         /* in a tile row; even */
    size_t first[WINOGRAD_POSITIONS + 1]; /* row k of each position */
};

struct stem_kernels {
    /* v(k, tile) of tile row `i`; rows are `apart` elements apart. `lines`: stem_lines() elements.
     */
    void (*windows)(const struct stem *s, const uint16_t *x, size_t i, uint16_t *lines,
                    size_t apart, uint16_t *v);
    /* pairs(k / 2, tile) = v(k, tile), v(k + 1, tile) for n tiles and n_pairs pairs of rows */
    void (*pair_rows)(size_t n_pairs, size_t n, const uint16_t *v, uint32_t *pairs);
    /* u(k / 2, l), `step` apart, of w[kernel, kernel, C, 16 o] */
    void (*weights)(const struct stem *s, const float *w, size_t step, uint32_t *u);
    /* dw[kernel, kernel, C, 16 o] of the products m(k, l), `step` apart */
    void (*weight_gradient)(const struct stem *s, const float *m, size_t step, float *dw);
};

/* The pieces of a kernel of 1 to STEM_MAX_KERNEL taps. */
struct stem_axis stem_axis_of(size_t kernel);

/* Set `first` from the rest. */
void stem_number_rows(struct stem *s);

/* NULL where the processor has no bf16 products. */
const struct stem_kernels *stem_find(void);

/* Elements from line to line of what `windows` works with, and of all of it. */
static inline size_t stem_line(const struct stem *s)
{
    return (s->tiles + KERNEL_LANES - 1) / KERNEL_LANES * KERNEL_LANES + KERNEL_LANES;
}

static inline size_t stem_lines(const struct stem *s)
{
    return ((s->v.kernel + 2) * s->channels + 2) * STEM_STEP * stem_line(s);
}

#endif
