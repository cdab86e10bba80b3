#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

/* What the files of this module share; nobody else includes it. */

#include <locale.h>
#include <sched.h>
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
#include "train/agree.h"
#include "train/arena.h"
#include "train/crew.h"
#include "train/meeting.h"
#include "train/inject.h"
#include "train/metrics.h"
#include "train/precision.h"
#include "train/progress.h"
#include "train/rundir.h"
#include "train/survey.h"
#include "train/trace.h"
#include "train/trainer.h"

enum on_nan {
    ON_NAN_STOP,
    ON_NAN_SKIP,
    ON_NAN_IGNORE
};

/* How long the buckets took, of which computing hid some and the rank waited for some. */
struct bucket_times {
    double in_flight_s, hidden_s, exposed_s;
};

struct span {
    double from_s, to_s;
};

/*
 * The buckets of one step from their posts to their updates. With order = priority or sync =
 * reduce-broadcast that reaches into the next step: a bucket is waited for when the next forward
 * pass needs it.
 */
struct due {
    bool *open;    /* [n_buckets] posted and neither waited for nor given up */
    bool *reduced; /* [n_buckets] reduce-broadcast: the reduction is over on this rank */
    size_t n_open;
    bool update; /* false: the step is skipped */
    bool voted;  /* the votes of the step have been counted */
    uint64_t step;
    struct sgd_step sgd;
    struct comm_times *times; /* [n_times]; reduce-broadcast: the broadcasts follow */
    size_t n_times;
    struct span *waits; /* of this rank since the first post: not hidden */
    size_t n_waits, max_waits;
    double since_s; /* what was on its way before belongs to a step that is not counted */
    size_t *order;  /* [n_times] */
    size_t n_closed, n_counted;  /* devices: steps whose buckets the host is through with, and of
                                    which it has learned the times */
    struct bucket_times *staged; /* [n_buckets] of those that have come in during this step */
};

/* A replica and what its thread needs; touched by that thread only, except where said. */
struct rank {
    struct trainer *t;
    int index;
    const struct device_place *place; /* NULL: the host */
    struct graph *graph;
    struct loader *loader, *test_loader;
    float *weights, *momentum; /* arenas: its own, or those of rank 0 where they are shared */
    float *sums;               /* arena: what is summed over the ranks */
    float *grads;              /* arena: what backward writes; sums unless gradients accumulate */
    float *kept;               /* host: its gradients before they are summed, to verify sums */
    float *seen;               /* host: the sums, to verify them; sums if they are the host's */
    struct arena_ranges ranges;
    struct loss_scale scale;
    float *poisoned; /* a batch with an injected NaN in it */
    struct due due;
    struct bucket_times *buckets; /* [n_buckets] sums over the steps after the warm-up */
    struct step_times *times;     /* of the step's record; between steps: rest */
    struct step_times rest;
    bool traced;                 /* this step is */
    int *left;                   /* [n_buckets] parameters whose gradients are not written yet */
    bool first_micro;            /* of those with samples in this step: it overwrites the sums */
    bool last_micro;             /* its hooks post buckets */
    float *saved_state;          /* batch-norm statistics before the step; on_nan = skip only */
    enum status status;          /* the first error of this rank */
    struct step_record *owed[2]; /* where results of passes go that are not in yet; oldest first */
    size_t n_owed;
    bool unreported;              /* the losses of the step before are not in all records yet */
    bool gone;                    /* it takes part in nothing any more, by an injected fault */
    enum status pending;          /* rank 0: a report failed; the next step tells the others */
    double mark_s;                /* when the previous step, or the evaluation after it, ended */
    double carried_s;             /* what it waited after that for the other ranks */
    struct tally epoch, interval; /* rank 0 only */
};

struct trainer {
    const struct config *cfg;
    bool dry_run;
    int n_ranks, n_threads; /* threads of each device */
    bool pinned;
    cpu_set_t cores;       /* that this process may use */
    bool on_device;        /* arenas and all computing are on devices, not on the host */
    bool shared;           /* one weight and one momentum arena for all ranks */
    bool fused;            /* the reduction updates them where the sums arise */
    const char *not_fused; /* why not */
    bool rooted;           /* sync = reduce-broadcast: rank 0 updates for all */
    bool late;             /* on_device: losses are read, and reported, a step late */
    bool across;           /* buckets may come in during the next forward pass */
    struct trace *trace;   /* NULL: none */
    int *layer_of;         /* [graph_n_params] of the names in the trace */
    enum on_nan on_nan;
    struct inject inject;

    struct dataset *train, *test;
    struct net *net;
    struct tuning *tuning;
    const struct device_ops *device;
    void *set;                   /* on_device: of the device */
    struct device_place *places; /* [n_ranks] on_device */
    uint32_t *votes;             /* [2][n_ranks] late: of the ranks against an update */
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
    float **arenas;              /* [n_ranks] the ranks' sums, for the communicator */
    const float **kept;          /* [n_ranks] */
    struct config_comm comm_cfg; /* the config's, with what the survey found */
    struct survey *survey;       /* NULL: nothing to find */
    struct comm *comm;           /* sums: allreduce, or reduce to rank 0 */
    struct comm *sharing;        /* of new weights, from rank 0; NULL where all ranks update */
    float **weights;             /* [n_ranks] */
    struct rundir *rundir;
    struct progress progress;

    /* Fused: what the update of this step needs, by rank 0 before its first post. */
    struct {
        struct sgd_step sgd;
        const struct step_record *all; /* NULL: it counts in any case */
        float *weights, *momentum;
    } update;

    /* Written by every rank in its own slot, read by all after a meeting. */
    struct step_record *records[2];  /* [n_ranks] by parity of the step */
    struct eval_record *evals;       /* [n_ranks] */
    struct agree_record *agreements; /* [n_ranks] */

    atomic_int signal;    /* not 0: stop after the step */
    struct totals totals; /* rank 0's thread, and the caller after the run */
    struct trainer_summary summary;
    enum status result, end; /* of the training; of the reports after it */
    bool stuck;              /* a rank's thread has not come back */
};

struct eval_record {
    enum status status;
    struct graph_result result;
};

/* --- making (build.c) */

/* All that `t` needs for its run, or for a dry one. The run directory comes last, so that bad input
 * leaves none behind. Errors: any; then `t` is half built. */
MUST_CHECK enum status build_all(struct trainer *t);

/* --- plan of the work (work.c) */

/* The schedule of the training images. Errors: ST_INPUT when they do not fill one step. */
MUST_CHECK enum status work_begin(struct trainer *t);

/* Steps, the schedule of the test images, and all batch sizes. Errors: ST_NOMEM. */
MUST_CHECK enum status work_plan(struct trainer *t);

/* --- the update inside the reduction (fuse.c) */

/* Decide on sharing and fusing by the config. Errors: ST_INPUT with the reason where [optim] fuse =
 * on cannot be had. */
MUST_CHECK enum status fuse_decide(struct trainer *t);

/* The sink of the communicator. */
void fuse_take(void *trainer, size_t first, size_t n, const float *const *parts, int n_parts);

/* --- replicas (replica.c) */

/* Build all replicas, arenas, buckets and the communicator. */
MUST_CHECK enum status replica_build_all(struct trainer *t);
void replica_release_all(struct trainer *t);

/* Cut the buckets anew by t->comm_cfg and make the communicator for them; all sums must be in and
 * all ranks wait. Errors: as building; then there are no buckets. */
MUST_CHECK enum status replica_recut(struct trainer *t);

/* --- buckets that are due (due.c) */

MUST_CHECK enum status due_init(struct rank *r);
void due_fini(struct rank *r);

/* All buckets are posted: they are due, to be updated with `sgd` unless the step is skipped. */
void due_begin(struct rank *r, uint64_t step, const struct sgd_step *sgd);

/* Wait for bucket `b`, if it is due; update its weights if `update`. Errors go to the rank. */
void due_take(struct rank *r, size_t b, bool update);

/* The same for all that are left, whatever the step itself ended with. */
void due_take_all(struct rank *r, bool update);

/* Reduce-broadcast: rank 0 waits for the sums, which is over where due_reduce has been called, and
 * updates and shares out the weights; the others let go of theirs. */
void due_reduce(struct rank *r);
void due_share(struct rank *r);

/* Update this rank's part of bucket `b`. */
void due_update(struct rank *r, size_t b, const struct sgd_step *sgd);

/* The rank has waited for something since `from_s`: add it to the exposed time. */
void due_waited(struct rank *r, double from_s);

/* Count the times of what the rank's device has come past since the last call. */
void due_count(struct rank *r);

/* The step counted: add what was staged in it to the sums if `timed`; begin anew. */
void due_commit(struct rank *r, bool timed);

/* No sum will come any more; false if something has gone wrong before, which has been told. */
bool rank_abort(struct rank *r);

/* Keep the rank's first error and tell the communicator; ST_OK is nothing. */
void rank_fail(struct rank *r, enum status st);

/* --- the run */

/* One BSP step of `r`; step number `step` from 0, its place in the epoch is the loader's. Returns
 * false when all ranks stop after it. */
bool step_run(struct rank *r, uint64_t step);

/* Evaluate on the ranks' shares of the test images, after making their states equal; every rank
 * calls it. Returns false when all ranks stop. */
bool evaluate_run(struct rank *r);

/* Give every rank the mean of the ranks' batch-norm statistics; every rank calls it. Returns false
 * when not all ranks came. */
bool evaluate_sync_state(struct rank *r);

/* Wait for all ranks at a meeting; false when that broke it or it is broken, with the rank's status
 * set and, where nobody has told it yet, the missing ranks logged: `where` says which meeting. */
bool loop_meet(struct rank *r, const char *where);
bool loop_wait(struct rank *r, unsigned round, const char *where);

/* The job of a rank's thread: all epochs. */
void loop_run(void *trainer, int rank);

/* --- reports */

/* The record of a finished step is in; rank 0 only. Errors: ST_IO. */
MUST_CHECK enum status report_step(struct rank *r, uint64_t step, const struct step_record *all);
MUST_CHECK enum status report_epoch(struct rank *r, uint64_t epoch, uint64_t step, bool evaluated);
MUST_CHECK enum status report_end(struct trainer *t, enum status result);

/* buckets.csv: how long each bucket took, and how much of that was hidden. Errors: ST_IO, ST_NOMEM.
 */
MUST_CHECK enum status report_buckets(const struct trainer *t);

/* Means over the ranks, sums over the steps after the warm-up. */
struct bucket_times report_bucket_times(const struct trainer *t, size_t b);

/* --- trace (tracing.c) */

/* Make the trace that [log] asks for. Errors: ST_INPUT, ST_IO, ST_NOMEM. */
MUST_CHECK enum status tracing_init(struct trainer *t);

/* The buckets are others from now on, and not more. Errors: ST_NOMEM. */
MUST_CHECK enum status tracing_recut(struct trainer *t);
void tracing_fini(struct trainer *t);

/* Model, devices and batch arithmetic, a line each. */
void describe_table(const struct trainer *t, FILE *out);
MUST_CHECK enum status summary_write(const struct trainer *t, enum status result);

#endif
