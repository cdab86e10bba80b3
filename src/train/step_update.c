/* The sums arrive and the weights change. */
#include <math.h>

#include "base/clock.h"
#include "train/step.h"

enum {
    CUT_ELEMENTS = 16
}; /* the ranks' parts of a bucket begin on cache lines */

/* The seam to a reduction that updates by itself: weights and momentum of bucket `b` from its sum.
 */
static void apply(struct step *s, size_t b)
{
    struct rank *r = s->r;
    const struct trainer *t = r->t;
    size_t first = t->buckets[b].offset, end = first + t->buckets[b].n;

    if (t->shared) { /* this rank's part of it */
        size_t blocks = (t->buckets[b].n + CUT_ELEMENTS - 1) / CUT_ELEMENTS;
        size_t from = blocks * (size_t)r->index / (size_t)t->n_ranks * CUT_ELEMENTS;
        size_t to = blocks * ((size_t)r->index + 1) / (size_t)t->n_ranks * CUT_ELEMENTS;
        end = first + to < end ? first + to : end;
        first += from;
    }
    if (first < end) {
        sgd_update_ranges(&s->sgd, t->ranges, t->n_ranges, first, end - first, r->weights,
                          r->momentum, r->sums);
    }
}

static void wait_for(struct step *s, size_t b)
{
    double from = clock_now_s();

    if (s->r->status == ST_OK) {
        step_fail(s, comm_wait(s->r->t->comm, s->r->index, b));
    }
    s->mine->times.exposed_s += clock_now_s() - from;
}

static void meet_timed(struct step *s)
{
    double from = clock_now_s();

    step_meet(s);
    s->mine->times.exposed_s += clock_now_s() - from;
}

static bool all_finite(const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) {
            return false;
        }
    }
    return true;
}

/* Sums are the same bits on every rank, so all of them come to the same answer. */
static void skip_nonfinite_sums(struct step *s)
{
    if (s->r->t->on_nan == ON_NAN_SKIP && !s->skip && s->r->status == ST_OK &&
        !all_finite(s->r->sums, s->r->t->n)) {
        s->skip = true;
        s->mine->overflow = true;
    }
}

static void apply_timed(struct step *s, size_t b)
{
    double from = clock_now_s();

    if (!s->skip && s->r->status == ST_OK) {
        apply(s, b);
    }
    s->mine->times.compute_s += clock_now_s() - from;
}

/* Can a bucket be updated before the other sums are there? */
static bool by_bucket(const struct trainer *t)
{
    return !t->shared && t->on_nan != ON_NAN_SKIP;
}

void step_update(struct step *s)
{
    const struct trainer *t = s->r->t;

    if (!t->cfg->comm.overlap) {
        step_post_all(s);
    }
    for (size_t b = 0; b < t->n_buckets; b++) {
        wait_for(s, b);
        if (by_bucket(t)) {
            meet_timed(s);
            apply_timed(s, b);
        }
    }
    if (t->shared) {
        step_arrive(s);
    }
    meet_timed(s);
    if (!by_bucket(t)) {
        skip_nonfinite_sums(s);
        for (size_t b = 0; b < t->n_buckets; b++) {
            apply_timed(s, b);
        }
    }
}
