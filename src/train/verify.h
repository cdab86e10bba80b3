#ifndef TRAIN_VERIFY_H
#define TRAIN_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sums that are not what they should be. */
struct verify_finding {
    bool bad;
    bool ranks_differ; /* from rank 0's sum; else from the one of the contributions */
    size_t element;    /* of the arena */
    float got, want;
    double bound;
};

/*
 * Compare sums[n] with the sum of contributions[n_ranks][n], added in the order of the ranks as
 * `central` does. Sums in two orders differ by rounding: each is off by at most
 * (P - 1) u S(1 + ...), where S is the sum of the magnitudes and u = 2^-24, so a difference up to
 * (P - 1) 2^-23 S and 1 in 1000 of it for the terms of higher order is none. Values that are not
 * finite on both sides are equal. Returns true, or false with the first difference in `out`, whose
 * element is counted from the beginning of the slices plus `offset`.
 */
bool verify_sums(const float *const *contributions, int n_ranks, const float *sums, size_t offset,
                 size_t n, struct verify_finding *out);

/* Compare the bits of two ranks' sums; likewise. */
bool verify_same(const float *mine, const float *other, size_t offset, size_t n,
                 struct verify_finding *out);

#endif
