#ifndef COMM_BENCH_DEVICE_H
#define COMM_BENCH_DEVICE_H

#include "comm/bench.h"
#include "device/device.h"

/* Where a collective is measured. Rank r is on device r, or in turn if `oversubscribe`. */
struct bench_devices {
    const struct device_ops *device;
    bool oversubscribe;
    const char *nccl;     /* its library, for backend "nccl"; NULL: where the loader finds it */
    const char *nccl_log; /* where it writes what it chose; NULL: nowhere */
};

/*
 * As bench_run, in the memory of devices, with all calls put on the ranks' streams by one thread
 * and their end waited for; backend "nccl" calls the library. Emulation and workers do not count.
 * Errors: as bench_run; ST_INPUT (too few devices); ST_UNSUPPORTED.
 */
MUST_CHECK enum status bench_device_run(const struct bench_spec *spec,
                                        const struct bench_devices *where,
                                        struct bench_result *out);

#endif
