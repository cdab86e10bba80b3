#ifndef TRAIN_PROGRESS_H
#define TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A line on a terminal that is drawn over again: how far the epoch is, and the time left. */
struct progress {
    FILE *out;
    bool on;
    bool drawn; /* the line holds a bar now */
    double last_s, first_s;
    uint64_t first_step;
};

struct progress_at {
    uint64_t step, total_steps;       /* done, of the run */
    uint64_t epoch, epochs;           /* from 1 */
    uint64_t epoch_step, epoch_steps; /* done, of the epoch */
    double loss, top1, images_per_s;
};

/* `mode`: auto (a bar if `out` is a terminal), on or off. */
void progress_init(struct progress *p, const char *mode, FILE *out);

/* Draw the bar, some ten times a second at most. */
void progress_show(struct progress *p, const struct progress_at *at);

/* Make the line empty, so that something else can be printed there. */
void progress_clear(struct progress *p);

#endif
