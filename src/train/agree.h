#ifndef TRAIN_AGREE_H
#define TRAIN_AGREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct rank;

/* What all ranks must have in common before they train together. */
enum agree_item {
    AGREE_CONFIG,  /* the keys that may change the result */
    AGREE_MODEL,   /* layers and the layout of their parameters */
    AGREE_WEIGHTS, /* the values they start with */
    AGREE_BUCKETS, /* how gradients are cut for the sums */
    AGREE_PLAN,    /* how these are made */
    AGREE_ITEMS,
};

struct agree_record {
    uint64_t digests[AGREE_ITEMS];
};

/* What `r` has. Errors: ST_NOMEM, its device's. */
MUST_CHECK enum status agree_fill(struct rank *r, struct agree_record *out);

/*
 * Compare the records of `n` ranks on behalf of `rank`, which logs in what it differs from rank 0.
 * Errors: ST_INPUT, on every rank, if any differs.
 */
MUST_CHECK enum status agree_check(const struct agree_record *all, int n, int rank);

/* Both, with all ranks; false and a status in the rank if they do not agree or do not come. */
bool agree_run(struct rank *r);

#endif
