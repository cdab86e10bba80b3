/* Faults of [debug] inject, where a step commits them. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "train/step.h"

static void plant_nan(struct step *s, struct batch *batch)
{
    struct rank *r = s->r;
    size_t shape[3];

    dataset_shape(r->t->train, shape);
    memcpy(r->poisoned, batch->x, batch->n * shape[0] * shape[1] * shape[2] * sizeof(float));
    r->poisoned[0] = NAN;
    batch->x = r->poisoned;
}

/* Nothing wakes it early: so does a thread that hangs. */
static void pause_for(double seconds)
{
    struct timespec left;

    while (isinf(seconds)) {
        left = (struct timespec){3600, 0};
        (void)nanosleep(&left, NULL);
    }
    left = (struct timespec){(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

void step_plant_faults(struct step *s, struct batch *batch)
{
    struct rank *r = s->r;
    const float nan = NAN;
    const struct inject *inject = &r->t->inject;
    double pause_s;

    if (inject->n == 0 || batch->micro > 0) {
        return;
    }
    if (inject_due(inject, INJECT_WEIGHT, r->index, s->number)) {
        step_fail(s, arena_put(r, r->weights, &nan, 1));
        graph_params_changed(r->graph);
    }
    if (batch->n > 0 && inject_due(inject, INJECT_NAN, r->index, s->number)) {
        plant_nan(s, batch);
    }
    pause_s = inject_pause_s(inject, r->index, s->number);
    if (pause_s > 0) {
        pause_for(pause_s);
    }
    if (inject_due(inject, INJECT_KILL, r->index, s->number)) {
        r->gone = true;
        r->status = r->status == ST_OK ? ST_PEER : r->status;
    }
    if (inject_due(inject, INJECT_FAIL, r->index, s->number)) {
        step_fail(s, log_fail(ST_INTERNAL,
                              "injected failure on rank %d, step %llu, see [debug] inject",
                              r->index, (unsigned long long)s->number + 1));
    }
}

bool step_loses_bucket(struct step *s, size_t b)
{
    const struct trainer *t = s->r->t;
    float *at = &s->r->sums[t->buckets[b].offset], value;
    uint32_t bits;

    if (t->inject.n == 0) {
        return false;
    }
    if (b == 0 && inject_due(&t->inject, INJECT_CORRUPT, s->r->index, s->number)) {
        step_fail(s, arena_get(s->r, &value, at, 1));
        memcpy(&bits, &value, sizeof bits);
        bits ^= UINT32_C(1) << 30; /* of the exponent: the value changes beyond any rounding */
        memcpy(&value, &bits, sizeof bits);
        step_fail(s, arena_put(s->r, at, &value, 1));
    }
    return b == 0 && inject_due(&t->inject, INJECT_SKIP, s->r->index, s->number);
}
