#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H

/* What the files of a step share. */

#include "train/state.h"

enum {
    BUCKET_POSTED = -1
}; /* in rank.left */

struct step {
    struct rank *r;
    uint64_t number; /* from 0 */
    struct step_record *mine, *all;
    struct sgd_step sgd;
    unsigned round; /* of the first meeting */
    bool met;       /* the first meeting is over */
    bool skip;      /* no update */
    int held;       /* fused: a bucket that is complete, and posted with the next layer; or -1 */
    int layer;      /* in the trace: the current one, or -1 */
    double layer_from_s;
};

/* Keep the rank's first error and tell the communicator; ST_OK is nothing. */
void step_fail(struct step *s, enum status st);

/* The first meeting: this rank has said what it found; wait until all have. */
void step_arrive(struct step *s);
void step_meet(struct step *s);

/* All micro-batches, forward and backward (step_compute.c). */
void step_compute(struct step *s);
void step_post_all(struct step *s);

/* What [debug] inject wants of this step, before its batch is used (step_faults.c). */
void step_plant_faults(struct step *s, struct batch *batch);

/* Spoil what is about to be posted; true if it is not to be posted at all. */
bool step_loses_bucket(struct step *s, size_t b);

/* Collect the results of passes until `n_left` are left to come. */
void step_collect(struct rank *r, size_t n_left);

/* Wait for the sums and update the weights (step_update.c). */
void step_update(struct step *s);

/* Are the sums and weights of this step checked (verify.c)? Then: keep the gradients of a bucket
 * that is about to be posted; compare the sums when they are in; the error in the records. */
bool step_is_verified(const struct step *s);
void step_keep_gradients(struct step *s, size_t b);
void step_verify(struct step *s);
MUST_CHECK enum status step_conclude_sums(const struct step *s);

/* The records hold the losses of step `number`: whether training goes on, and the report. */
void step_report(struct rank *r, uint64_t number);

/* After the step: what every rank concludes from the same records (step_conclude.c). */
MUST_CHECK enum status step_conclude(const struct step *s);

#endif
