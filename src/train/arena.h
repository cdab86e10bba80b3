#ifndef TRAIN_ARENA_H
#define TRAIN_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "optim/optim.h"

struct rank;
struct trainer;

/*
 * Arrays of floats where a rank computes: the host's memory, or its device's. What is done to them
 * is done at once on the host; on a device it is put on the rank's stream, and the calling thread
 * waits for it only where that is said. Errors: the device's.
 */

/* Open the devices of [device] type; does nothing on the host. Errors: ST_INPUT, ST_NOMEM. */
MUST_CHECK enum status arena_open(struct trainer *t);
void arena_close(struct trainer *t);      /* after everything on them is released */
void arena_finish_all(struct trainer *t); /* wait for all streams */

/* Zeroed. Errors: ST_NOMEM. */
MUST_CHECK enum status arena_alloc(struct rank *r, size_t n, float **out);
void arena_release(struct rank *r, float *p); /* takes NULL */

/* The same in the host's memory, as fast to copy to and from as can be. */
MUST_CHECK enum status arena_alloc_host(struct rank *r, size_t n, float **out);
void arena_release_host(struct rank *r, float *p); /* takes NULL */

/* From and to the host's memory; waits. */
MUST_CHECK enum status arena_put(struct rank *r, float *to, const float *host, size_t n);
MUST_CHECK enum status arena_get(struct rank *r, float *host, const float *from, size_t n);

/* FNV-1a of the bits; waits. Errors: also ST_NOMEM. */
MUST_CHECK enum status arena_digest(struct rank *r, const float *p, size_t n, uint64_t *out);

/* One of them may be memory of arena_alloc_host, which then lags behind the stream. */
MUST_CHECK enum status arena_copy(struct rank *r, float *to, const float *from, size_t n);
MUST_CHECK enum status arena_add(struct rank *r, float *to, const float *from, size_t n);
MUST_CHECK enum status arena_clear(struct rank *r, float *p, size_t n);

/* Are all elements finite? Waits. */
MUST_CHECK enum status arena_is_finite(struct rank *r, const float *p, size_t n, bool *out);

/* Wait for everything that was put on the stream. */
MUST_CHECK enum status arena_finish(struct rank *r);

/* --- the update of a bucket on a device, in one launch */

struct arena_ranges {
    void *all;       /* device: struct device_range, bucket by bucket */
    size_t *first;   /* [n_buckets + 1] */
    size_t *n_tiles; /* [n_buckets] */
    uint32_t *flag;  /* the host's; of arena_is_finite */
    uint32_t *skip;  /* the device's: no updates any more */
};

/* The ranges of all buckets, for the layout of the trainer; nothing on the host. Errors: ST_NOMEM.
 */
MUST_CHECK enum status arena_ranges_init(struct rank *r);
void arena_ranges_fini(struct rank *r);

/*
 * Votes of the ranks on whether there is an update, where the host does not wait to know that. A
 * rank votes behind each forward pass, by its loss (NULL: it had no samples), and anew in each
 * `step`; it counts the votes of all ranks when a sum is in, with which all votes are. Once there
 * was a vote against, nothing is updated any more.
 */
MUST_CHECK enum status arena_votes_init(struct trainer *t); /* decides on t->late; ST_NOMEM */
void arena_votes_fini(struct trainer *t);
MUST_CHECK enum status arena_vote(struct rank *r, uint64_t step, const double *loss, bool anew);
MUST_CHECK enum status arena_count_votes(struct rank *r, uint64_t step);

MUST_CHECK enum status arena_update(struct rank *r, size_t b, const struct sgd_step *sgd);

#endif
