#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H

/* What the files of a step share. */

#include "train/state.h"

struct step {
    struct rank *r;
    uint64_t number; /* from 0 */
    struct step_record *mine, *all;
    struct sgd_step sgd;
    unsigned round; /* of the first meeting */
    bool met;       /* the first meeting is over */
    bool skip;      /* no update */
};

/* Keep the rank's first error and tell the communicator; ST_OK is nothing. */
void step_fail(struct step *s, enum status st);

/* The first meeting: this rank has said what it found; wait until all have. */
void step_arrive(struct step *s);
void step_meet(struct step *s);

/* All micro-batches, forward and backward (step_compute.c). */
void step_compute(struct step *s);
void step_post_all(struct step *s);

/* Wait for the sums and update the weights (step_update.c). */
void step_update(struct step *s);

/* After the step: what every rank concludes from the same records (step_conclude.c). */
MUST_CHECK enum status step_conclude(const struct step *s);

#endif
