#ifndef TRAIN_MEETING_H
#define TRAIN_MEETING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/*
 * A barrier in two halves: what a thread wrote before its meeting_arrive is visible to every thread
 * after its meeting_wait of the same round. Between the two it may work on.
 *
 * A thread that waits in vain breaks the meeting: from then on nobody waits any more.
 */
struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    atomic_uint arrived, round;
    atomic_bool broken;
    atomic_uint *seen; /* [n] the round after the one in which each thread arrived last */
    unsigned n;
    int spins; /* before a waiting thread sleeps */
};

/* `spin`: there is a core for each thread, so that waiting is worth a short burst of polling. */
MUST_CHECK enum status meeting_init(struct meeting *g, int n_threads, bool spin);
void meeting_fini(struct meeting *g);

/* Say that thread `index` has come here. The result names the round for meeting_wait. */
unsigned meeting_arrive(struct meeting *g, int index);

/*
 * Wait until all threads have arrived in `round`. Errors, not logged: ST_TIMEOUT after `timeout_s`,
 * for the one thread that broke the meeting; ST_PEER when it is broken already.
 */
MUST_CHECK enum status meeting_wait(struct meeting *g, unsigned round, double timeout_s);

/* Both halves. */
MUST_CHECK enum status meeting_pass(struct meeting *g, int index, double timeout_s);

bool meeting_is_broken(const struct meeting *g);

/* The threads that have not come to `round`, as "1, 3", which is also returned. */
const char *meeting_missing(const struct meeting *g, unsigned round, char *out, size_t n_bytes);

#endif
