#ifndef TRAIN_INJECT_H
#define TRAIN_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Faults that a user or a test plants in a run: a comma-separated list of
 * `kind:rank@step[:duration]` in [debug] inject. Steps are counted from 1, `*` is every step;
 * durations are `30s` or `5ms`.
 *
 *   nan      the rank's first input value of the step is not a number
 *   weight   the rank's first weight becomes not a number before the step
 *   fail     the rank reports an error in the middle of the step
 *   kill     the rank is gone in the middle of the step, without a word
 *   stall    the rank does nothing for that long; without a duration it never comes back
 *   slow     the same, with a duration: for delays that the others are to bear
 *   corrupt  a gradient of the rank changes on its way to the others
 *   skip     the rank leaves out the step's first bucket
 */
enum inject_kind {
    INJECT_NAN,
    INJECT_WEIGHT,
    INJECT_FAIL,
    INJECT_KILL,
    INJECT_STALL,
    INJECT_SLOW,
    INJECT_CORRUPT,
    INJECT_SKIP,
    INJECT_KINDS,
};

enum {
    INJECT_MAX = 16
};

struct inject_fault {
    enum inject_kind kind;
    int rank;
    bool every;        /* step */
    uint64_t step;     /* from 0 */
    double duration_s; /* infinite: for ever */
};

struct inject {
    struct inject_fault faults[INJECT_MAX];
    size_t n;
};

/* Errors: ST_INPUT with the list's faulty part. */
MUST_CHECK enum status inject_parse(const char *text, int n_ranks, struct inject *out);

/* Is there such a fault in the list, for any rank and step? */
bool inject_has(const struct inject *i, enum inject_kind kind);

/* Is a fault of that kind due? */
bool inject_due(const struct inject *i, enum inject_kind kind, int rank, uint64_t step);

/* Seconds that `rank` is to do nothing in that step: stalls and delays together. */
double inject_pause_s(const struct inject *i, int rank, uint64_t step);

#endif
