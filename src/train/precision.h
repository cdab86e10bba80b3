#ifndef TRAIN_PRECISION_H
#define TRAIN_PRECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "nn/graph.h"

struct config;
struct trainer;

/* [device] compute. */
enum graph_dtype precision_compute(const struct config *cfg);

/* What of formats and their scales cannot be had together, or not on these devices. Errors:
 * ST_INPUT. */
MUST_CHECK enum status precision_check(const struct trainer *t);

/*
 * The factor of the loss, which keeps small gradients in the range of 16-bit formats. Every rank
 * has one of its own; they stay alike, as all see the same sums.
 */
struct loss_scale {
    bool on;       /* else the factor is 1, and sums are not looked at */
    float factor;  /* at least 1 */
    uint64_t good; /* steps since it changed */
    uint64_t growth_steps;
};

struct loss_scale loss_scale_make(const struct config *cfg);

/* A step is over; `overflow`: its sums were not finite. */
void loss_scale_step(struct loss_scale *s, bool overflow);

#endif
