#ifndef COMM_CUDA_CUDA_JOB_H
#define COMM_CUDA_CUDA_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/cuda/engine_cuda.h"
#include "comm/cuda/itinerary.h"
#include "comm/cuda/marks.h"

/* A stream of the engine. Jobs of equal urgency share the streams of equal hops, except for the
 * first. */
struct cuda_job_stream {
    struct itinerary_stream key;
    int urgency;
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
    int urgency; /* of its streams; 0: plain ones */
    struct itinerary *itinerary;
    uintptr_t *bases; /* [n_refs] */
    void **tmp;       /* [n_nodes] */
    void **streams;   /* [n_streams] the first is its own, the others the engine's */
    void **stages;    /* [n_streams] memory for what a device cannot reach */
    void **events;    /* [n_events] */
    void *graph;      /* NULL: commands are issued one by one */
};

/* Errors: ST_NOMEM, ST_UNSUPPORTED, the device's. */
MUST_CHECK enum status cuda_job_init(struct cuda_job *j, const struct engine_cuda_options *opt,
                                     const struct engine_job *args, int urgency,
                                     struct cuda_job_streams *streams);
void cuda_job_fini(struct cuda_job *j); /* takes zeroed and half-built jobs */

/* Put one run on the streams: it starts after the places where the ranks posted it, and leaves the
 * other marks of rank 0. */
MUST_CHECK enum status cuda_job_run(const struct cuda_job *j, const struct marks_use *marks);

#endif
