#ifndef TESTS_CUDA_DEVICE_CHECK_H
#define TESTS_CUDA_DEVICE_CHECK_H

/* What the files of device_check share. */

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

enum {
    MAX_RANKS = 8,
    MAX_N = 1 << 20
};

struct check {
    const struct device_ops *d;
    void *set, *stream;
    char *host, *want;       /* of MAX_N floats, and some */
    struct device_ops alone; /* the same, but no rank reaches the memory of another */
    size_t n_wrong;
};

/* End the program unless `st` is ST_OK. */
void check_expect(enum status st, const char *what);

/* The line of a check; was nothing wrong? */
bool check_report(const char *name, const struct check *c, size_t n_cases);

void *check_memory(const struct check *c, int rank, size_t bytes); /* of the rank's device */
void check_move(const struct check *c, void *dst, const void *src, size_t bytes);

/* Kernels against the same kernels as C (device_check_kernels.c). */
bool check_folds(struct check *c);
bool check_sgd(struct check *c);
bool check_numbers(struct check *c);

/* Allreduces of all backends, and when they were (device_check_runs.c). */
bool check_collectives(const char *name, struct check *c, bool small);
bool check_times(struct check *c);
void measure_allreduce(const struct check *c, const char *name, size_t bytes);

#endif
