#ifndef TESTS_COMM_CHAOS_H
#define TESTS_COMM_CHAOS_H

#include "comm/program.h"

/*
 * A test engine: runs whatever is ready in a random order drawn from `seed`. Ranks post at random
 * times in between. Returns how many operations ran.
 */
size_t chaos_run(const struct program *p, const uintptr_t *bases, uint64_t seed);

#endif
