#ifndef TRAIN_MEETING_H
#define TRAIN_MEETING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"

/*
 * A barrier in two halves: what a thread wrote before its meeting_arrive is visible to every thread
 * after its meeting_wait of the same round. Between the two it may work on.
 */
struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    atomic_uint arrived, round;
    unsigned n;
    int spins; /* before a waiting thread sleeps */
};

/* `spin`: there is a core for each thread, so that waiting is worth a short burst of polling. */
MUST_CHECK enum status meeting_init(struct meeting *g, int n_threads, bool spin);
void meeting_fini(struct meeting *g);

/* Say that this thread has come here. The result names the round for meeting_wait. */
unsigned meeting_arrive(struct meeting *g);

/* Wait until all threads have arrived in `round`. */
void meeting_wait(struct meeting *g, unsigned round);

/* Both halves. */
void meeting_pass(struct meeting *g);

#endif
