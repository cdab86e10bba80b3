#ifndef DEVICE_KERNELS_KERNEL_CONVERT_H
#define DEVICE_KERNELS_KERNEL_CONVERT_H

#include "device/device.h"
#include "device/kernels/kernel_fold.h"

/* A multiprocessor's accesses are joined, so elements go one by one. */
KERNEL void kernel_convert(struct kernel_place p, const struct device_convert *c)
{
    for (size_t i = kernel_first(p); i < c->n; i += kernel_stride(p)) {
        if (c->widen) {
            ((uint32_t *)c->dst)[i] = kernel_fold_widen(c->half, ((const uint16_t *)c->src)[i]);
        } else {
            ((uint16_t *)c->dst)[i] = kernel_fold_narrow(c->half, ((const uint32_t *)c->src)[i]);
        }
    }
}

#endif
