#ifndef DEVICE_KERNELS_KERNEL_FINITE_H
#define DEVICE_KERNELS_KERNEL_FINITE_H

#include "device/device.h"
#include "device/kernels/kernel.h"

/* The bits of a number that is infinite or none: all ones in its exponent. */
KERNEL bool kernel_finite_bits(uint32_t bits)
{
    return (~bits & UINT32_C(0x7f800000)) != 0;
}

KERNEL bool kernel_finite_vec(const struct device_finite *f, size_t i)
{
    struct kernel_vec v = *(const struct kernel_vec *)(const void *)(f->x + i);

    return kernel_finite_bits(v.w[0]) && kernel_finite_bits(v.w[1]) && kernel_finite_bits(v.w[2]) &&
           kernel_finite_bits(v.w[3]);
}

KERNEL_HOST struct kernel_cut kernel_finite_cut(const struct device_finite *f)
{
    return kernel_cut_make(f->n, (uintptr_t)f->x % KERNEL_VEC, sizeof *f->x);
}

/* Whoever finds one writes the same: threads need not agree on who. */
KERNEL void kernel_finite(struct kernel_place p, const struct device_finite *f)
{
    const struct kernel_cut cut = kernel_finite_cut(f);
    bool good = true;

    for (size_t i = kernel_first(p); i < cut.n_vec; i += kernel_stride(p)) {
        good = kernel_finite_vec(f, kernel_cut_vec(&cut, i, sizeof *f->x)) && good;
    }
    for (size_t i = kernel_first(p); i < cut.n_single; i += kernel_stride(p)) {
        size_t at = kernel_cut_single(&cut, i, sizeof *f->x);
        good = kernel_finite_bits(halves_bits(f->x[at])) && good;
    }
    if (!good) {
        *f->flag = 1;
    }
}

#endif
