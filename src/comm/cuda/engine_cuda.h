#ifndef COMM_CUDA_ENGINE_CUDA_H
#define COMM_CUDA_ENGINE_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "comm/engine/engine.h"
#include "comm/nccl/nccl_lanes.h"
#include "comm/program.h"
#include "device/device.h"

/*
 * Runs programs over ranks whose memory is on devices. It moves no bytes itself: the last rank that
 * posts a job puts the whole of it on streams, as one graph where the devices have graphs, and a
 * wait is put on the waiting rank's stream. So the host waits for the other ranks' posts only,
 * never for a device, except in engine_cuda_sync, and when it is several uses of a job ahead.
 *
 * With `lanes` jobs are left to NCCL: of programs only what they are to do counts.
 *
 * Threads: rank r is driven by one thread at a time; different ranks run concurrently.
 */
struct engine_cuda;

struct engine_cuda_options {
    const struct device_ops *device;
    void *set; /* of n_ranks devices; must outlive the engine */
    int n_ranks;
    double timeout_s;
    bool timed;      /* engine_cuda_times works */
    bool graphs;     /* use them where the devices have them and reach each other's memory */
    bool last_first; /* the higher a job's number, the more urgent its streams are */
    struct nccl_lanes *lanes; /* NULL: the programs' own operations; must outlive the engine */
    int root;                 /* lanes: of reduces and broadcasts */
};

/* The programs (made without fusing), buffers and texts must outlive the engine, the array itself
 * need not. Errors: ST_NOMEM, ST_UNSUPPORTED, and the device's. */
MUST_CHECK enum status engine_cuda_create(const struct engine_cuda_options *options,
                                          const struct engine_job *jobs, size_t n_jobs,
                                          struct engine_cuda **out);

/* What is under way is waited for; no rank may be inside a call. Takes NULL. */
void engine_cuda_destroy(struct engine_cuda *e);

/*
 * What is now on `stream`, of the rank's device, writes the rank's buffers of the job; after that
 * the engine may use them. The calling thread goes on working for `rank` (device/device.h, use).
 * Errors: ST_BADARG if it has them already; the device's; and what the engine failed with before.
 */
MUST_CHECK enum status engine_cuda_post(struct engine_cuda *e, int rank, size_t job, void *stream);

/*
 * What is put on `stream` from now on runs when the job is done. Waits in the calling thread until
 * all ranks have posted. Errors: ST_TIMEOUT after timeout_s, with the ranks that have not posted
 * logged; ST_PEER after an abort; the device's. After an error the engine can only be destroyed.
 */
MUST_CHECK enum status engine_cuda_wait(struct engine_cuda *e, int rank, size_t job, void *stream);

/* The same for the calling thread, until the job is done. */
MUST_CHECK enum status engine_cuda_sync(struct engine_cuda *e, int rank, size_t job);

/* Would engine_cuda_wait return at once? */
bool engine_cuda_issued(struct engine_cuda *e, int rank, size_t job);

/*
 * When `rank`'s use number `use` of the job, from 0, was on the devices, by the host's clock. The
 * host is ahead of them: false until they have come past it, which the call does not wait for; and
 * after the host has posted it some times more. Called by the thread that drives `rank`.
 */
struct device_times {
    double posted_s;  /* the rank's stream came to the post */
    double started_s; /* the last rank's did */
    double done_s;    /* the rank has its result */
    double waited_s;  /* the rank's stream came to the wait */
};

bool engine_cuda_times(const struct engine_cuda *e, int rank, size_t job, size_t use,
                       struct device_times *out);

/* Every post and wait fails from now on; logged unless why = ST_PEER. False if they did already. */
bool engine_cuda_abort(struct engine_cuda *e, int rank, enum status why);

#endif
