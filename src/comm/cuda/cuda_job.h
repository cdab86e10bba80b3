#ifndef COMM_CUDA_CUDA_JOB_H
#define COMM_CUDA_CUDA_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/cuda/engine_cuda.h"
#include "comm/cuda/itinerary.h"

/* A stream of the engine. Jobs share the streams of equal hops, except for the first. */
struct cuda_job_stream {
    struct itinerary_stream key;
    void *handle;
};

struct cuda_job_streams {
    struct cuda_job_stream *all;
    size_t n;
};

/* A program bound to buffers and streams. */
struct cuda_job {
    const struct engine_cuda_options *opt;
    const struct program *p;
    const char *what, *label;
    struct itinerary *itinerary;
    uintptr_t *bases; /* [n_refs] */
    void **tmp;       /* [n_nodes] */
    void **streams;   /* [n_streams] the first is its own, the others the engine's */
    void **stages;    /* [n_streams] memory for what a device cannot reach */
    void **events;    /* [n_events] */
    void **posted;    /* [n_ranks] events */
    void *done;       /* event: the latest run is over */
    void *graph;      /* NULL: commands are issued one by one */

    /* Runs, counted; kept by the engine. */
    double *posted_s; /* [n_ranks] */
    size_t *n_posts;  /* [n_ranks] */
    size_t *n_waits;  /* [n_ranks] */
    size_t n_runs;    /* issued */
    int n_arrived;    /* of the next run */
};

/* Errors: ST_NOMEM, ST_UNSUPPORTED, the device's. */
MUST_CHECK enum status cuda_job_init(struct cuda_job *j, const struct engine_cuda_options *opt,
                                     const struct engine_job *args,
                                     struct cuda_job_streams *streams);
void cuda_job_fini(struct cuda_job *j); /* takes zeroed and half-built jobs */

/* Put one run on the streams; it starts after the places of `posted`, and records `done`. */
MUST_CHECK enum status cuda_job_run(struct cuda_job *j);

#endif
