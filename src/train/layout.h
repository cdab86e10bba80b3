#ifndef TRAIN_LAYOUT_H
#define TRAIN_LAYOUT_H

#include "base/status.h"

struct trainer;

/* Cut the arena of the replicas into buckets for the communicator and ranges for the optimizer.
 * Errors: ST_INPUT ([comm] bucket_layers does not fit), ST_NOMEM. */
MUST_CHECK enum status layout_make(struct trainer *t);
void layout_release(struct trainer *t);

#endif
