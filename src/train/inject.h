#ifndef TRAIN_INJECT_H
#define TRAIN_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Faults that a test plants in a run: a comma-separated list of `kind@rank:step`, steps counted
 * from 1, in [debug] inject.
 *
 *   nan     the rank's first input value of the step is not a number
 *   weight  the rank's first weight becomes not a number before the step
 *   fail    the rank gives up in the middle of the step
 *   stall   the rank does nothing for longer than [comm] timeout_s
 */
enum inject_kind {
    INJECT_NAN,
    INJECT_WEIGHT,
    INJECT_FAIL,
    INJECT_STALL,
    INJECT_KINDS,
};

enum {
    INJECT_MAX = 16
};

struct inject {
    struct {
        enum inject_kind kind;
        int rank;
        uint64_t step; /* from 0 */
    } faults[INJECT_MAX];
    size_t n;
};

/* Errors: ST_INPUT with the list's faulty part. */
MUST_CHECK enum status inject_parse(const char *text, int n_ranks, struct inject *out);

bool inject_due(const struct inject *i, enum inject_kind kind, int rank, uint64_t step);

#endif
