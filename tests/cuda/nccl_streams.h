#ifndef TESTS_CUDA_NCCL_STREAMS_H
#define TESTS_CUDA_NCCL_STREAMS_H

#include "device/device.h"

#define NCCL_DOUBLE TEST_BINARY_DIR "/lib/tests/nccl_double.so"

/*
 * NCCL's double on the streams of devices that are doubles themselves: a collective begins when the
 * streams of all ranks have come to it, and all go on when it is over. Sums are made in the order
 * of the ranks, halves in single precision and rounded once. Up to DEVICE_MAX_REFS ranks.
 */
struct nccl_streams {
    struct device_ops ops; /* to be used instead of the devices' own: they tell the set */
    void *set;
    void *come[DEVICE_MAX_REFS], *over; /* events */
};

/* From now on the double works on the streams of `ops`; `set` may be NULL until they are opened. */
void nccl_streams_begin(struct nccl_streams *s, const struct device_ops *ops, void *set);
void nccl_streams_end(struct nccl_streams *s); /* nothing is under way */

/* A function of the double. */
void *nccl_double_symbol(const char *name);

#endif
