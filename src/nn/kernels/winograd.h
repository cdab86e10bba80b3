#ifndef NN_WINOGRAD_H
#define NN_WINOGRAD_H

#include "nn/kernels/kernels.h"

/*
 * The pieces of Winograd's F(2x2, 3x3) on bf16 values: a 3x3 convolution with stride 1 turns into
 * sixteen matrix products, one for each position of a 4x4 window that yields a *tile* of 2x2
 * outputs. It takes 2.25 times fewer products than the plain sum. Source: Lavin and Gray, arXiv
 * 1509.09308, section 4.1.
 *
 * The transforms add in fp32 and round their results to bf16; the products add in fp32. Tile j of
 * tile row i covers the outputs from (2i, 2j) on. What lies outside of a plane counts as zero. All
 * functions work on 16 channels (lanes) at a time and in the calling thread.
 *
 * Products of bf16 add up two neighbours at once. Operands that are not contiguous in the dimension
 * that is summed over therefore interleave two of its elements: such *pairs* are 32 bits, the first
 * in the low half.
 *
 * Operands are `struct winograd_at`: position p, row r and lane l lie at p·apart + r·step + l.
 */
enum {
    WINOGRAD_POSITIONS = 16,
    WINOGRAD_TILE = 2,
    WINOGRAD_LANES = 32 /* columns of one product; or 16 */
};

struct winograd_at {
    size_t apart, step; /* elements: bf16, pairs or floats */
};

struct winograd_row {
    struct plane plane;
    size_t i;       /* tile row */
    size_t tiles;   /* in the row; even where pairs are written */
    ptrdiff_t from; /* row and column of the plane where tile (0, 0) starts */
};

struct winograd_product {
    size_t rows, pairs, lanes; /* of c, of the sum, 16 or 32 */
    const void *a;             /* pairs, or twice as many bf16 */
    const uint32_t *b;         /* pairs */
    size_t a_row, a_step,
        b_step; /* pair (r, k) of a: r·a_row + k·a_step; (k, l) of b: k·b_step + l */
    float *c;   /* (r, l): r·c_row + l */
    size_t c_row;
    bool add; /* to c */
};

struct winograd_kernels {
    /* v(p, tile, l) of the windows of x */
    void (*windows)(const struct winograd_row *r, const uint16_t *x, struct winograd_at at,
                    uint16_t *v);
    /* the same in pairs of tiles: v(p, tile / 2, l) */
    void (*window_pairs)(const struct winograd_row *r, const uint16_t *x, struct winograd_at at,
                         uint32_t *v);
    /* d(p, tile / 2, l) of the gradients of tiles */
    void (*tile_pairs)(const struct winograd_row *r, const uint16_t *dy, struct winograd_at at,
                       uint32_t *d);
    /* y = tiles of the products m(p, tile, l), cut off where the plane ends; at last max(0, y) */
    void (*tiles)(const struct winograd_row *r, const float *m, struct winograd_at at, bool relu,
                  uint16_t *y);

    /* Weights w[3][3][16 i][16 o]. For the forward pass u(p, i / 2, o) ... */
    void (*weights)(const float *w, struct winograd_at at, uint32_t *u);
    /* ... and for the gradient of the input, which is a convolution with the turned kernel,
     * u(p, o / 2, i). */
    void (*turned_weights)(const float *w, struct winograd_at at, uint32_t *u);
    /* dw[3][3][16 i][16 o] of the products m(p, i, o) */
    void (*weight_gradient)(const float *m, struct winograd_at at, float *dw);

    void (*product)(const struct winograd_product *q);
};

/* NULL where the processor has no bf16 products. */
const struct winograd_kernels *winograd_find(void);

#endif
