#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

/* What the files of this module share; nobody else includes it. */

#include <locale.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/comm.h"
#include "config/config.h"
#include "data/data.h"
#include "device/device.h"
#include "nn/graph.h"
#include "nn/net.h"
#include "optim/optim.h"
#include "topo/topo.h"
#include "train/crew.h"
#include "train/meeting.h"
#include "train/inject.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/rundir.h"
#include "train/trainer.h"

enum on_nan {
    ON_NAN_STOP,
    ON_NAN_SKIP,
    ON_NAN_IGNORE
};

/* A replica and what its thread needs; touched by that thread only, except where said. */
struct rank {
    struct trainer *t;
    int index;
    struct graph *graph;
    struct loader *loader, *test_loader;
    float *weights, *momentum; /* arenas: its own, or those of rank 0 where they are shared */
    float *sums;               /* arena: what is summed over the ranks */
    float *grads;              /* arena: what backward writes; sums unless gradients accumulate */
    float *poisoned;           /* a batch with an injected NaN in it */
    int *left;                 /* [n_buckets] parameters whose gradients are not written yet */
    bool first_micro;          /* of those with samples in this step: it overwrites the sums */
    bool last_micro;           /* its hooks post buckets */
    float *saved_state;        /* batch-norm statistics before the step; on_nan = skip only */
    enum status status;        /* the first error of this rank */
    enum status pending;       /* rank 0: a report failed; the next step tells the others */
    double mark_s;             /* when the previous step, or the evaluation after it, ended */
    double carried_s;          /* what it waited after that for the other ranks */
    struct tally epoch, interval; /* rank 0 only */
};

struct trainer {
    const struct config *cfg;
    bool dry_run;
    int n_ranks, n_threads; /* threads of each device */
    bool pinned;
    bool shared; /* one weight and one momentum arena for all ranks */
    enum on_nan on_nan;
    struct inject inject;

    struct dataset *train, *test;
    struct net *net;
    struct tuning *tuning;
    const struct device_ops *device;
    const struct nn_ops *ops;
    struct schedule schedule, test_schedule;
    size_t *batches; /* the batch sizes that occur, descending */
    size_t n_batches;
    uint64_t steps_per_epoch, total_steps;
    uint64_t warmup_steps; /* not counted in images per second */

    struct crew *crew;
    struct meeting meeting;
    struct rank *ranks;
    size_t n; /* elements of an arena */
    struct comm_bucket *buckets;
    size_t n_buckets;
    char **labels;  /* [n_buckets] */
    int *bucket_of; /* [graph_n_params] */
    struct sgd_range *ranges;
    size_t n_ranges;
    struct topo *topo;
    float **arenas; /* [n_ranks] the ranks' sums, for the communicator */
    struct comm *comm;
    struct rundir *rundir;
    struct progress progress;

    /* Written by every rank in its own slot, read by all after a meeting. */
    struct step_record *records[2]; /* [n_ranks] by parity of the step */
    struct eval_record *evals;      /* [n_ranks] */

    atomic_int signal;    /* not 0: stop after the step */
    struct totals totals; /* rank 0's thread, and the caller after the run */
    struct trainer_summary summary;
    enum status result, end; /* of the training; of the reports after it */
};

struct eval_record {
    enum status status;
    struct graph_result result;
};

/* --- plan of the work (work.c) */

/* The schedule of the training images. Errors: ST_INPUT when they do not fill one step. */
MUST_CHECK enum status work_begin(struct trainer *t);

/* Steps, the schedule of the test images, and all batch sizes. Errors: ST_NOMEM. */
MUST_CHECK enum status work_plan(struct trainer *t);

/* --- replicas (replica.c) */

/* Build all replicas, arenas, buckets and the communicator. */
MUST_CHECK enum status replica_build_all(struct trainer *t);
void replica_release_all(struct trainer *t);

/* --- the run */

/* One BSP step of `r`; step number `step` from 0, its place in the epoch is the loader's. Returns
 * false when all ranks stop after it. */
bool step_run(struct rank *r, uint64_t step);

/* Evaluate on the ranks' shares of the test images, after making their states equal; every rank
 * calls it. Returns false when all ranks stop. */
bool evaluate_run(struct rank *r);

/* Give every rank the mean of the ranks' batch-norm statistics; every rank calls it. */
void evaluate_sync_state(struct rank *r);

/* The job of a rank's thread: all epochs. */
void loop_run(void *trainer, int rank);

/* --- reports */

/* The record of a finished step is in; rank 0 only. Errors: ST_IO. */
MUST_CHECK enum status report_step(struct rank *r, uint64_t step, const struct step_record *all);
MUST_CHECK enum status report_epoch(struct rank *r, uint64_t epoch, uint64_t step, bool evaluated);
MUST_CHECK enum status report_end(struct trainer *t, enum status result);

/* Model, devices and batch arithmetic, a line each. */
void describe_table(const struct trainer *t, FILE *out);
MUST_CHECK enum status summary_write(const struct trainer *t, enum status result);

#endif
