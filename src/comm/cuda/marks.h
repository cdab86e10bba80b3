#ifndef COMM_CUDA_MARKS_H
#define COMM_CUDA_MARKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "device/device.h"

/* The places on streams at which one use of a job is handed over, begins, ends and is waited for.
 */
struct marks_use {
    void **posted; /* [n_ranks] on the ranks' streams, when they have written their buffers */
    void **begun;  /* [n_ranks] NULL unless timed */
    void **done;   /* [n_ranks] */
    void **waited; /* [n_ranks] on the ranks' streams, which wait there; NULL unless timed */
};

/* The marks of a job, whose uses take turns with them. */
struct marks {
    const struct device_ops *device;
    void *set;
    int n_ranks;
    bool timed; /* they keep the times at which they are reached */
    bool each;  /* a job begins and ends for each rank by itself; else for all at once, on rank 0 */
    struct marks_use *uses; /* [n_uses] */
    size_t n_uses;
};

/* `m` has all but `uses` set. Errors: ST_NOMEM, the device's; it may then only be released. */
MUST_CHECK enum status marks_init(struct marks *m);
void marks_fini(struct marks *m); /* takes zeroed ones */

/* Those of use number `k`, from 0. */
struct marks_use *marks_of(const struct marks *m, size_t k);

#endif
