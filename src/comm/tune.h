#ifndef COMM_TUNE_H
#define COMM_TUNE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Find a chunk size by measuring: multiplicative increase, additive decrease (Blink, section 4).
 *
 * From a small chunk on the size doubles while the throughput rises. Where it stays the search
 * ends; where it falls the size goes down in quarters of the last increase until the throughput
 * stays or falls again, but not below the best size before. A state machine: it measures nothing
 * itself, and the same reports give the same sizes.
 */
struct tune_options {
    size_t first_bytes, most_bytes; /* 0 < first_bytes <= most_bytes */
    int n_samples;    /* measurements of each size, of which the best counts; at least 1 */
    double tolerance; /* relative changes up to this are none, e.g. 0.02 */
};

/* To be treated as opaque. */
struct tune {
    struct tune_options options;
    size_t chunk, best_chunk, step; /* step 0: still growing */
    size_t floor;                   /* the best size before the decrease */
    double best, sample;            /* bytes/s */
    int n_taken;
    bool settled;
};

void tune_init(struct tune *t, const struct tune_options *options);

/* The chunk size to use and to measure next; after the search the result. */
size_t tune_chunk_bytes(const struct tune *t);

/* End the search with the best size so far. */
void tune_stop(struct tune *t);

/* Has the search ended? */
bool tune_is_settled(const struct tune *t);

/*
 * What was measured with tune_chunk_bytes(). Reports that are not finite and positive, and those
 * after the end, are ignored.
 */
void tune_report(struct tune *t, double bytes_per_s);

#endif
