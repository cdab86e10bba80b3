#ifndef DEVICE_KERNELS_KERNEL_STORE_H
#define DEVICE_KERNELS_KERNEL_STORE_H

#include "device/device.h"
#include "device/kernels/kernel.h"

KERNEL void kernel_store(struct kernel_place p, const struct device_store *s)
{
    for (size_t i = kernel_first(p); i < s->n; i += kernel_stride(p)) {
        ((unsigned char *)s->dst)[i] = s->bytes[i];
    }
}

#endif
