#ifndef COMM_ENGINE_ENGINE_H
#define COMM_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "comm/fabric.h"
#include "comm/program.h"

/*
 * Runs programs over ranks that are threads of one process and share its memory.
 *
 * A job is a program bound to the ranks' buffers; it is run again and again: every rank posts it,
 * its operations run as soon as their dependencies allow, every rank waits for its own part. Ready
 * operations are run by whoever is there: a rank that posts does its fair share of what it made
 * ready, a rank that waits helps, worker threads do nothing else. A job so small that handing it
 * out would cost more is run whole by the last rank that posts it.
 */
struct engine;

struct engine_job {
    const struct program *program;
    const struct program_buffers *buffers; /* [n_nodes]; the engine provides `tmp` */
    const char *what, *label;              /* for messages: "allreduce", "bucket 3 (conv1)" */
};

struct engine_options {
    int n_ranks;
    int n_workers;                     /* threads besides the ranks' own */
    double timeout_s;                  /* of every wait */
    bool timed;                        /* engine_last_times works; costs a few readings of the
                                          clock for each post */
    const struct fabric_model *fabric; /* links to keep to; NULL: the speed of memory */
    int n_cores;                       /* 0: those that the creating thread may use */
    bool last_first; /* of several jobs with ready operations serve the one with the highest
                        number first; else the lowest */
};

struct engine_times {
    double posted_s, started_s, done_s;
};

/* With a fabric, one thread moves all bytes, and an operation counts as done when its message
 * would have arrived over the links; n_workers is ignored then, and programs are not to be fused.
 * Everything is allocated here. The programs, buffers and texts must outlive the engine, the array
 * itself need not. Errors: ST_NOMEM, ST_INTERNAL (no threads). */
MUST_CHECK enum status engine_create(const struct engine_options *options,
                                     const struct engine_job *jobs, size_t n_jobs,
                                     struct engine **out);

/* No rank may be inside a call. Takes NULL. */
void engine_destroy(struct engine *e);

/*
 * From now on the engine may use `rank`'s buffers of the job. Errors: ST_BADARG if it has them
 * already, and what the engine failed with before (ST_PEER, ST_TIMEOUT).
 */
MUST_CHECK enum status engine_post(struct engine *e, int rank, size_t job);

/*
 * Until everything that touches `rank`'s buffers of the job is done. Errors: ST_TIMEOUT after
 * timeout_s, logged once for the engine with the ranks that have not posted; ST_PEER after an
 * abort. After an error the engine can only be destroyed.
 */
MUST_CHECK enum status engine_wait(struct engine *e, int rank, size_t job);

bool engine_done(const struct engine *e, int rank, size_t job);

/* Every post and wait fails from now on; logged unless why = ST_PEER. False if they did already. */
bool engine_abort(struct engine *e, int rank, enum status why);

/* Of `rank`'s last use of the job, between its wait and its next post; 0 if not timed. */
struct engine_times engine_last_times(const struct engine *e, int rank, size_t job);

#endif
