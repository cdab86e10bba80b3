#ifndef DEVICE_KERNELS_KERNEL_VOTE_H
#define DEVICE_KERNELS_KERNEL_VOTE_H

#include "device/device.h"
#include "device/kernels/kernel.h"

/* There are a few votes only: one thread reads them. */
KERNEL void kernel_vote(struct kernel_place p, const struct device_vote *v)
{
    bool against = v->keep && *v->out != 0;

    if (p.block != 0 || p.thread != 0) {
        return;
    }
    if (v->loss != NULL) { /* the difference of an infinite number and itself is none */
        double d = *v->loss - *v->loss;
        against = against || d != d;
    }
    for (size_t i = 0; i < v->n; i++) {
        against = against || v->votes[i] != 0;
    }
    *v->out = against;
}

#endif
