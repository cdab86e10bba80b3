#ifndef DEVICE_KERNELS_KERNEL_FOLD_H
#define DEVICE_KERNELS_KERNEL_FOLD_H

#include <math.h>
#include <stdbool.h>

#include "device/device.h"
#include "device/kernels/kernel.h"

/* Elements travel as 32-bit patterns: an int32, or the float that a 16-bit one stands for. */

KERNEL_HOST size_t kernel_fold_elem_bytes(enum device_dtype d)
{
    return d == DEVICE_F32 || d == DEVICE_I32 ? 4 : 2;
}

KERNEL uint32_t kernel_fold_widen(enum device_dtype d, uint16_t x)
{
    return halves_bits(d == DEVICE_BF16 ? halves_f32_of_bf16(x) : halves_f32_of_f16(x));
}

KERNEL uint16_t kernel_fold_narrow(enum device_dtype d, uint32_t x)
{
    return d == DEVICE_BF16 ? halves_bf16_of_f32(halves_float(x))
                            : halves_f16_of_f32(halves_float(x));
}

KERNEL uint32_t kernel_fold_two(enum device_dtype d, enum device_redop r, uint32_t a, uint32_t b)
{
    float x = halves_float(a), y = halves_float(b);

    if (d == DEVICE_I32) {
        bool first = r == DEVICE_MAX ? (int32_t)a > (int32_t)b : (int32_t)a < (int32_t)b;
        return r == DEVICE_SUM || r == DEVICE_MEAN ? a + b : first ? a : b;
    }
    return halves_bits(r == DEVICE_MAX ? fmaxf(x, y) : r == DEVICE_MIN ? fminf(x, y) : x + y);
}

KERNEL uint32_t kernel_fold_divide(enum device_dtype d, uint32_t a, int divisor)
{
    if (divisor == 0) {
        return a;
    }
    return d == DEVICE_I32 ? (uint32_t)((int32_t)a / divisor)
                           : halves_bits(halves_float(a) / (float)divisor);
}

KERNEL uint32_t kernel_fold_load(enum device_dtype d, const void *p, size_t i)
{
    return kernel_fold_elem_bytes(d) == 4 ? ((const uint32_t *)p)[i]
                                          : kernel_fold_widen(d, ((const uint16_t *)p)[i]);
}

/* One element. */
KERNEL void kernel_fold_one(const struct device_fold *f, enum device_dtype d, enum device_redop r,
                            size_t i)
{
    uint32_t a = kernel_fold_load(d, f->src[0], i);

    for (int k = 1; k < f->n_src; k++) {
        a = kernel_fold_two(d, r, a, kernel_fold_load(d, f->src[k], i));
    }
    a = kernel_fold_divide(d, a, f->divisor);
    for (int m = 0; m < f->n_dst; m++) {
        if (kernel_fold_elem_bytes(d) == 4) {
            ((uint32_t *)f->dst[m])[i] = a;
        } else {
            ((uint16_t *)f->dst[m])[i] = kernel_fold_narrow(d, a);
        }
    }
}

/* The elements of a vector: 4 of 32 bits, or 8 of 16. */
KERNEL void kernel_fold_open(enum device_dtype d, const void *p, size_t i, uint32_t out[8])
{
    size_t bytes = i * kernel_fold_elem_bytes(d);
    struct kernel_vec v = *(const struct kernel_vec *)(const void *)((const char *)p + bytes);

    for (int k = 0; k < 4; k++) {
        if (kernel_fold_elem_bytes(d) == 4) {
            out[k] = v.w[k];
        } else {
            out[2 * k] = kernel_fold_widen(d, (uint16_t)v.w[k]);
            out[2 * k + 1] = kernel_fold_widen(d, (uint16_t)(v.w[k] >> 16));
        }
    }
}

KERNEL void kernel_fold_close(enum device_dtype d, const uint32_t in[8], void *p, size_t i)
{
    size_t bytes = i * kernel_fold_elem_bytes(d);
    struct kernel_vec v;

    for (int k = 0; k < 4; k++) {
        v.w[k] = kernel_fold_elem_bytes(d) == 4
                     ? in[k]
                     : kernel_fold_narrow(d, in[2 * k]) |
                           (uint32_t)kernel_fold_narrow(d, in[2 * k + 1]) << 16;
    }
    *(struct kernel_vec *)(void *)((char *)p + bytes) = v;
}

KERNEL void kernel_fold_vec(const struct device_fold *f, enum device_dtype d, enum device_redop r,
                            size_t i)
{
    const int lanes = kernel_fold_elem_bytes(d) == 4 ? 4 : 8;
    uint32_t a[8], b[8];

    kernel_fold_open(d, f->src[0], i, a);
    for (int k = 1; k < f->n_src; k++) {
        kernel_fold_open(d, f->src[k], i, b);
        for (int l = 0; l < lanes; l++) {
            a[l] = kernel_fold_two(d, r, a[l], b[l]);
        }
    }
    for (int l = 0; l < lanes; l++) {
        a[l] = kernel_fold_divide(d, a[l], f->divisor);
    }
    for (int m = 0; m < f->n_dst; m++) {
        kernel_fold_close(d, a, f->dst[m], i);
    }
}

/* Vectors only where all buffers lie alike towards 16 bytes. */
KERNEL_HOST struct kernel_cut kernel_fold_cut(const struct device_fold *f, enum device_dtype d)
{
    uintptr_t at = (uintptr_t)f->src[0] % KERNEL_VEC;
    struct kernel_cut none = {0, 0, f->n};
    bool alike = at % kernel_fold_elem_bytes(d) == 0;

    for (int k = 1; k < f->n_src; k++) {
        alike = alike && (uintptr_t)f->src[k] % KERNEL_VEC == at;
    }
    for (int m = 0; m < f->n_dst; m++) {
        alike = alike && (uintptr_t)f->dst[m] % KERNEL_VEC == at;
    }
    return alike ? kernel_cut_make(f->n, at, kernel_fold_elem_bytes(d)) : none;
}

/* The part of the thread at `p`; d and r are those of `f`, constants where speed matters. */
KERNEL void kernel_fold(struct kernel_place p, const struct device_fold *f, enum device_dtype d,
                        enum device_redop r)
{
    const struct kernel_cut cut = kernel_fold_cut(f, d);
    const size_t elem = kernel_fold_elem_bytes(d);

    for (size_t i = kernel_first(p); i < cut.n_vec; i += kernel_stride(p)) {
        kernel_fold_vec(f, d, r, kernel_cut_vec(&cut, i, elem));
    }
    for (size_t i = kernel_first(p); i < cut.n_single; i += kernel_stride(p)) {
        kernel_fold_one(f, d, r, kernel_cut_single(&cut, i, elem));
    }
}

#endif
