#ifndef DEVICE_KERNELS_KERNEL_SGD_H
#define DEVICE_KERNELS_KERNEL_SGD_H

#include "device/device.h"
#include "device/kernels/kernel.h"

/*
 * One launch updates all ranges of a bucket. Each range is cut into tiles, numbered through all
 * ranges; a block takes one tile after the other and looks up which range it belongs to.
 */
enum {
    KERNEL_SGD_TILE = 4096 /* elements */
};

KERNEL_HOST size_t kernel_sgd_tiles(size_t n)
{
    return n / KERNEL_SGD_TILE + (n % KERNEL_SGD_TILE != 0);
}

/* The range that tile `t` belongs to: the last one that begins at `t` or before. Empty ranges begin
 * where the next one does and are never the last. */
KERNEL_HOST size_t kernel_sgd_find(const struct device_range *ranges, size_t n_ranges, size_t t)
{
    size_t low = 0, high = n_ranges; /* ranges[low] begins at t or before, ranges[high] behind */

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].first_tile <= t) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

KERNEL void kernel_sgd_one(const struct device_sgd *s, float decay, float *w, float *v, float g)
{
    float d = s->unscale * g + decay * *w;

    if (s->v != NULL) {
        float velocity = s->momentum * *v + d;
        *v = velocity;
        d = s->nesterov ? d + s->momentum * velocity : velocity;
    }
    *w -= s->lr * d;
}

struct KERNEL_ALIGNED(16) kernel_sgd_four {
    float f[4];
};

KERNEL void kernel_sgd_vec(const struct device_sgd *s, float decay, size_t i)
{
    struct kernel_sgd_four *at_w = (struct kernel_sgd_four *)(void *)(s->w + i);
    struct kernel_sgd_four *at_v = (struct kernel_sgd_four *)(void *)(s->v + i);
    struct kernel_sgd_four w = *at_w, v = {{0, 0, 0, 0}};
    struct kernel_sgd_four g = *(const struct kernel_sgd_four *)(const void *)(s->g + i);

    if (s->v != NULL) {
        v = *at_v;
    }
    for (int k = 0; k < 4; k++) {
        kernel_sgd_one(s, decay, &w.f[k], &v.f[k], g.f[k]);
    }
    if (s->v != NULL) {
        *at_v = v;
    }
    *at_w = w;
}

/* The thread's part of elements [i, end) of the arenas. */
KERNEL void kernel_sgd_piece(struct kernel_place p, const struct device_sgd *s, float decay,
                             size_t i, size_t end)
{
    size_t n_vec = i % 4 == 0 ? (end - i) / 4 : 0, singles = i + 4 * n_vec;

    for (size_t k = p.thread; k < n_vec; k += p.n_threads) {
        kernel_sgd_vec(s, decay, i + 4 * k);
    }
    for (size_t k = singles + p.thread; k < end; k += p.n_threads) {
        kernel_sgd_one(s, decay, s->w + k, s->v == NULL ? NULL : s->v + k, s->g[k]);
    }
}

KERNEL void kernel_sgd(struct kernel_place p, const struct device_sgd *s)
{
    if (s->skip != NULL && *s->skip != 0) {
        return;
    }
    for (size_t t = p.block; t < s->n_tiles; t += p.n_blocks) {
        const struct device_range r = s->ranges[kernel_sgd_find(s->ranges, s->n_ranges, t)];
        size_t skip = (t - r.first_tile) * KERNEL_SGD_TILE, left = r.n - skip;
        size_t n = left < KERNEL_SGD_TILE ? left : KERNEL_SGD_TILE;
        kernel_sgd_piece(p, s, r.weight_decay, r.offset + skip, r.offset + skip + n);
    }
}

#endif
