#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "config/config.h"

/* Owns every handle of a training run: data, replicas, arenas, communicator, run directory. */
struct trainer;

struct trainer_summary {
    uint64_t steps, samples;
    double train_loss; /* of the last epoch */
    double test_loss, top1,
        top5; /* of the last evaluation; accuracies in [0, 1], nan without one */
    size_t test_n, test_top1_n;
    size_t graphs;       /* into which the passes of a device were captured */
    double images_per_s; /* total, over the training steps after warm-up */
};

/*
 * Build everything: open data, build the replicas, plan the communication, make the run directory
 * (unless dry_run). `cfg` must be finished and outlive the trainer. Errors: any; logged.
 */
MUST_CHECK enum status trainer_create(const struct config *cfg, bool dry_run, struct trainer **out);

struct device_ops;
struct nn_ops;

/* The same on devices and with an op library of the caller, whatever [device] type says. */
MUST_CHECK enum status trainer_create_on(const struct config *cfg, bool dry_run,
                                         const struct device_ops *device, const struct nn_ops *ops,
                                         struct trainer **out);
void trainer_destroy(struct trainer *t); /* takes NULL and half-built trainers */

/* What was built: model table, batch arithmetic, plan, memory. */
void trainer_describe(const struct trainer *t, FILE *out);

/*
 * Train and evaluate as configured. `*out` is filled also when the run is cancelled or fails, as
 * far as it got. Errors: ST_NONFINITE, ST_PEER, ST_TIMEOUT, ST_IO, ST_CANCELLED.
 */
MUST_CHECK enum status trainer_run(struct trainer *t, struct trainer_summary *out);

/*
 * A rank's thread did not come back from trainer_run, which has returned ST_TIMEOUT and logged it.
 * trainer_destroy releases nothing then: the process can only end, by _exit.
 */
bool trainer_is_stuck(const struct trainer *t);

/* Ask a running trainer to finish its step and stop; async-signal-safe. */
void trainer_cancel(struct trainer *t, int signal_number);

/*
 * Copy the weights of `rank` in canonical order (net_param_elements values) into `out`; for tests
 * and export.
 */
MUST_CHECK enum status trainer_weights(struct trainer *t, int rank, float *out, size_t n);
size_t trainer_n_weights(const struct trainer *t);

#endif
