#ifndef COMM_CUDA_DEVICE_JOB_H
#define COMM_CUDA_DEVICE_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/cuda/cuda_job.h"
#include "comm/cuda/device_clock.h"
#include "comm/cuda/engine_cuda.h"
#include "comm/cuda/marks.h"

/* A job of the engine, by its own streams or by NCCL, and its uses. */
struct device_job {
    const struct engine_cuda_options *opt;
    const char *what, *label;
    struct cuda_job own;
    struct nccl_run *runs; /* [marks.n_uses] NCCL */
    const void **in;       /* [n_ranks] NCCL */
    void **out;
    struct marks marks;
    double *posted_s; /* [n_ranks, marks.n_uses] */

    /* Uses, counted; kept by the engine. */
    size_t *n_posts; /* [n_ranks] */
    size_t *n_waits; /* [n_ranks] */
    size_t n_runs;   /* issued */
    int n_arrived;   /* of the next run */
};

/* Errors: ST_NOMEM, ST_UNSUPPORTED, the device's; it may then only be released. */
MUST_CHECK enum status device_job_init(struct device_job *j, const struct engine_cuda_options *opt,
                                       const struct engine_job *args, int urgency,
                                       struct cuda_job_streams *streams);
void device_job_fini(struct device_job *j); /* nothing of it is under way */

/* `rank`'s next post is here on its stream. Waits for the use before that had the same marks, where
 * uses count one by one. */
MUST_CHECK enum status device_job_mark_post(const struct device_job *j, int rank, void *stream);

/* Issue the next run: all ranks have posted it. */
MUST_CHECK enum status device_job_run(const struct device_job *j);

/* `stream` goes on when the use that `rank` posted last is over. */
MUST_CHECK enum status device_job_wait(const struct device_job *j, int rank, void *stream);

/* Its event for that. */
void *device_job_done(const struct device_job *j, int rank);

/* When use number `use` of `rank` was; *known: it is over, and its marks are still there. */
MUST_CHECK enum status device_job_times(const struct device_job *j, struct device_clock *clock,
                                        int rank, size_t use, struct device_times *out,
                                        bool *known);

#endif
