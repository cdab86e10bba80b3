#ifndef NN_KERNELS_H
#define NN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Loops that read and write whole values: norms, poolings, sums. They are written once
 * (kernel_body.h) over vectors of 16 floats and compiled for several instruction sets and element
 * types; all of them do their arithmetic in fp32. They run in the calling thread.
 *
 * A *plane* is 16 channels (the last ones of a value may be fewer: `lanes`) of one sample: pixel
 * (i, j) starts at i·row + j·step elements, in both the blocked and the channels-last layout.
 */

enum {
    KERNEL_LANES = 16
};

struct plane {
    size_t row, step; /* elements */
    size_t h, w;
    int lanes;
};

struct window {
    size_t kernel, stride, pad;
    bool count_padding;
};

/* The normalisation of 16 channels: y = x·scale + shift. */
struct norm_affine {
    float scale[KERNEL_LANES], shift[KERNEL_LANES];
};

/* Its gradient: dx = a·g - b·(x - mean) - c. */
struct norm_gradient {
    float a[KERNEL_LANES], b[KERNEL_LANES], c[KERNEL_LANES], mean[KERNEL_LANES];
};

struct norm_sums {
    double first[KERNEL_LANES], second[KERNEL_LANES];
};

/* Where the mask of a fused ReLU comes from: nowhere, from the sign of x·scale + shift, or of y. */
enum norm_mask {
    MASK_NONE,
    MASK_AFFINE,
    MASK_OUTPUT
};

struct norm_operands {
    const void *x, *y, *dy, *dy2; /* dy2 may be NULL: g = mask · (dy + dy2) */
    void *g;                      /* the masked sum, or NULL; may be dy */
    void *dx;
};

struct kernels {
    const char *isa;
    size_t elem_bytes;

    /* flat arrays */
    void (*add)(size_t n, const void *a, const void *b, void *y, bool relu);
    void (*relu)(size_t n, const void *x, void *y);
    /* g = (y > 0) · (a + b); y NULL: no mask; b NULL: zero */
    void (*gradient)(size_t n, const void *y, const void *a, const void *b, void *g);
    void (*dropout)(size_t n, const void *x, const uint8_t *keep, float scale, void *y);
    void (*widen)(size_t n, const void *x, float *y);
    void (*narrow)(size_t n, const float *x, void *y);

    /* norms, one plane; sums are added to */
    void (*norm_moments)(const struct plane *p, const void *x, const float *origin,
                         struct norm_sums *s);
    void (*norm_apply)(const struct plane *p, const void *x, const void *residual,
                       const struct norm_affine *f, bool relu, void *y);
    void (*norm_sums)(const struct plane *p, const struct norm_operands *o, enum norm_mask mask,
                      const struct norm_affine *f, const float *mean, struct norm_sums *s);
    void (*norm_gradient)(const struct plane *p, const struct norm_operands *o, enum norm_mask mask,
                          const struct norm_affine *f, const struct norm_gradient *n);

    /* poolings, one plane; `which` has the geometry of the output and numbers window positions */
    void (*max_pool)(const struct plane *in, const struct plane *out, const struct window *w,
                     const void *x, void *y, uint8_t *which);
    void (*max_unpool)(const struct plane *in, const struct plane *out, const struct window *w,
                       const void *dy, const uint8_t *which, void *dx);
    void (*avg_pool)(const struct plane *in, const struct plane *out, const struct window *w,
                     const void *x, void *y);
    void (*avg_unpool)(const struct plane *in, const struct plane *out, const struct window *w,
                       const void *dy, void *dx);

    /* rows of floats: y[n,u] = relu(y + b[u]); db[u] = sum over n of dy[n,u] */
    void (*bias_rows)(size_t n, size_t u, const float *b, bool relu, float *y);
    void (*sum_rows)(size_t n, size_t u, const float *dy, float *db);
};

/* The fastest ones that this processor runs; bf16 gives NULL where it has no bf16 conversion. */
const struct kernels *kernels_find(bool bf16);

/* The fp32 ones that this processor runs, from the plainest to the fastest; NULL past the end. */
const struct kernels *kernels_at(size_t i);

#endif
