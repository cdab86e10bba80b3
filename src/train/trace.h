#ifndef TRAIN_TRACE_H
#define TRAIN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * A timeline of some steps in the JSON array form of Chrome's trace events, for chrome://tracing
 * and Perfetto: process = rank, threads = compute, comm, data. Every event is a line. The array is
 * closed by trace_close; until then the file lacks the last bracket, which viewers do without, so
 * that the trace of a run that was killed loads too. If it was killed while it wrote, the last line
 * may be cut.
 *
 * Each rank adds events to a buffer of its own and writes it out after the step. Only the making
 * allocates.
 */
struct trace;

enum trace_kind {
    TRACE_FORWARD,  /* a layer with parameters, and those after it that have none */
    TRACE_BACKWARD, /* likewise: the layer, and those behind it that have none */
    TRACE_POST,     /* handing over a bucket, and moving what that made ready */
    TRACE_UPDATE,   /* of the weights of a bucket */
    TRACE_BUCKET,   /* from its post to its end */
    TRACE_SHARE,    /* the same of its new weights */
    TRACE_WAIT,     /* for a bucket: exposed communication */
    TRACE_MEET,     /* for the other ranks; without index */
    TRACE_DATA,     /* for a batch; without index */
    TRACE_KINDS,
};

struct trace_args {
    const char *path;
    int n_ranks;
    uint64_t first, n_steps; /* the window */
    size_t max_events;       /* of a rank and step; what is beyond is counted and left out */
    const char *collective;  /* what a bucket's gradients are moved by */
    const char *const *layers;
    size_t n_layers;
    const char *const *buckets;
    size_t n_buckets;
};

/* Errors: ST_INPUT (the file cannot be made), ST_IO, ST_NOMEM. The texts are copied. */
MUST_CHECK enum status trace_create(const struct trace_args *args, struct trace **out);

/* The buckets have other names from now on, and are not more than before. All events have been
 * written. Errors: ST_NOMEM; the names are then the old ones. */
MUST_CHECK enum status trace_rename(struct trace *t, const char *const *buckets, size_t n_buckets);

/* Close the array and the file. Errors: ST_IO, also of earlier writes; logged once. */
MUST_CHECK enum status trace_close(struct trace *t); /* takes NULL */
void trace_destroy(struct trace *t);                 /* takes NULL */

/* Is the step in the window? Without a trace: no. */
bool trace_wants(const struct trace *t, uint64_t step);

/* `index`: of the layer or bucket. Times of clock_now_s(). */
void trace_add(struct trace *t, int rank, enum trace_kind kind, size_t index, double from_s,
               double to_s);

/* Write what `rank` has added, which belongs to that step. Called by the rank's thread. */
void trace_write(struct trace *t, int rank, uint64_t step);

#endif
