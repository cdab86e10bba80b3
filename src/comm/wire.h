#ifndef COMM_WIRE_H
#define COMM_WIRE_H

#include "comm/comm.h"
#include "comm/dtype.h"

/*
 * [comm] wire: what buckets are made of while they are summed. In bf16 a bucket is rounded into
 * memory of its own when it is posted, summed there, each operation in fp32 and rounded again, and
 * widened when it has been waited for. Weights that are broadcast stay as they are.
 */
struct wire {
    const struct device_place *places;
    const struct comm_bucket *buckets;
    float *const *arenas;
    uint16_t **halves; /* [n_ranks] as the arenas; NULL: fp32 */
    int n_ranks;
    int root; /* the only rank that is to have the sums, or -1 */
};

enum dtype wire_dtype(const struct comm_args *a);

/* Errors: ST_NOMEM. `w` may then only be released. */
MUST_CHECK enum status wire_init(struct wire *w, const struct comm_args *a);
void wire_fini(struct wire *w); /* takes zeroed ones; nothing is under way */

/* Where bucket `b` of `rank` is summed. */
void *wire_bucket(const struct wire *w, int rank, size_t b);

/* Before a post, and after a wait; on a device on the rank's stream. */
MUST_CHECK enum status wire_narrow(const struct wire *w, int rank, size_t b);
MUST_CHECK enum status wire_widen(const struct wire *w, int rank, size_t b);

#endif
