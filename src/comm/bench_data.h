#ifndef COMM_BENCH_DATA_H
#define COMM_BENCH_DATA_H

#include <stddef.h>

#include "comm/program.h"

/*
 * Contributions that differ by rank and element, small enough that every type holds every partial
 * sum of up to 40 ranks exactly.
 */

/* Write elements [first, first + n) of `rank`'s contribution to `x`. */
void bench_data_fill(enum dtype d, int rank, void *x, size_t first, size_t n);

/* How many of the elements [first, first + n) of a result differ from what `p` must give. */
size_t bench_data_wrong(const struct program *p, int root, const void *x, size_t first, size_t n);

#endif
