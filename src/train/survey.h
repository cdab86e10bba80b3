#ifndef TRAIN_SURVEY_H
#define TRAIN_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/chunks.h"
#include "comm/merge.h"
#include "comm/tune.h"

/*
 * What the first steps find out by measuring: which layers to send together (buckets = merge) and
 * in which chunks (chunks = tune). After each of these steps all ranks meet, move every bucket once
 * more with nothing else under way, and rank 0 concludes; where something changes, it cuts the
 * buckets and builds the communicator anew for all. These steps count as warm-up.
 */
struct trainer;
struct rank;

enum {
    SURVEY_COLD_STEPS = 2,  /* not measured */
    SURVEY_LAYER_STEPS = 3, /* of which the least time of each layer counts */
};

struct survey_class { /* of sizes of messages */
    size_t bytes;
    struct tune tune;
};

struct survey {
    bool on;      /* there is something left to find; changes only where all ranks wait */
    bool merging; /* first layers are merged, then chunks tuned */
    bool tunes;
    uint64_t n_steps;
    double *
        *layer_s; /* [n_ranks][n_params] least backward time of a layer, at its first parameter */
    double *since_s;   /* [n_ranks] */
    bool *fine;        /* [n_ranks] all buckets have come */
    double *message_s; /* [n_params] least time of each bucket alone; a layer has at most one */
    struct merge_layer *layers;
    bool *ends;
    struct merge_step *work; /* [n_params + 1] */
    size_t n_layers;
    struct survey_class classes[CHUNK_RULES];
    size_t n_classes;
    struct merge_cost cost;
    double *merged; /* [n_params] the config's bucket_layers */
    char chunks[CHUNK_RULES_BYTES];
    float *weights, *momentum; /* arenas to update in vain, where the reduction does that */
    enum status status;        /* of rank 0's conclusions */
};

/* Does the config ask for any? Then prepare it. Errors: ST_INPUT (not on devices), ST_NOMEM. */
MUST_CHECK enum status survey_init(struct trainer *t);
void survey_fini(struct trainer *t);

/* After a step that took place on all ranks; every rank calls it. False when all ranks stop. */
bool survey_after_step(struct rank *r, uint64_t step);

/* Backward begins, or goes on after what is not part of it; parameter i has its gradient. */
void survey_resume(struct rank *r);
void survey_gradient(struct rank *r, int i);

/* Rank 0: what the measurements say (survey_find.c). True if the communicator must be made anew. */
bool survey_conclude(struct trainer *t, bool last);

#endif
