#ifndef TESTS_COMM_RANK_RACE_H
#define TESTS_COMM_RANK_RACE_H

#include "comm/comm.h"

enum {
    RACE_RANKS = 4,
    RACE_BUCKETS = 3
};

/*
 * Ranks that post and wait in orders of their own for `steps` steps; in step `abort_at`, unless it
 * is negative, one of them aborts. `args` is without topology, ranks, arenas and buckets, whose
 * `sizes` are given. With places the times of every bucket are read, too. Returns the number of
 * failures: wrong sums, missing times, ranks that end in another way.
 */
size_t rank_race(struct comm_args args, const size_t sizes[RACE_BUCKETS], int steps, int abort_at);

#endif
