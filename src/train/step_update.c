/* The sums arrive and the weights change. */
#include "base/clock.h"
#include "base/log.h"
#include "train/step.h"

static void meet_timed(struct step *s)
{
    const double from_s = clock_now_s();

    if (s->met) {
        return;
    }
    step_meet(s);
    due_waited(s->r, from_s);
    if (s->r->traced) {
        trace_add(s->r->t->trace, s->r->index, TRACE_MEET, 0, from_s, clock_now_s());
    }
}

/* Sums are the same bits on every rank, so all of them come to the same answer. */
static void skip_nonfinite_sums(struct step *s)
{
    bool finite = true;

    if ((s->r->t->on_nan == ON_NAN_SKIP || s->r->scale.on) && !s->skip && s->r->status == ST_OK) {
        step_fail(s, arena_is_finite(s->r, s->r->sums, s->r->t->n, &finite));
    }
    if (!finite) {
        s->skip = true;
        s->mine->overflow = true;
    }
}

/* A bucket that was left out would count as done: its gradients are this rank's only. */
static void check_posted(struct step *s)
{
    struct rank *r = s->r;

    for (size_t b = 0; b < r->t->n_buckets && r->status == ST_OK; b++) {
        if (r->left[b] != BUCKET_POSTED) {
            step_fail(s, log_fail(ST_INTERNAL,
                                  "rank %d did not hand over bucket %zu (%s), step %llu, a "
                                  "parameter in it has no gradient, report this with the run's "
                                  "config.ini",
                                  r->index, b, r->t->labels[b], (unsigned long long)s->number + 1));
        }
    }
}

/* Can a bucket be updated before the other sums are there? */
static bool by_bucket(const struct step *s)
{
    return !s->r->t->shared && s->r->t->on_nan != ON_NAN_SKIP && !s->r->scale.on &&
           !step_is_verified(s);
}

/* Each bucket when its sum is there. */
static void update_by_bucket(struct step *s)
{
    struct rank *r = s->r;

    if (r->t->n_buckets > 0 && r->status == ST_OK) {
        due_take(r, 0, false);
    }
    meet_timed(s);
    r->due.update = !s->skip;
    if (r->t->n_buckets > 0 && r->due.update && r->status == ST_OK) {
        due_update(r, 0, &s->sgd);
    }
    due_take_all(r, true);
}

/* Everything when all sums are there. */
static void update_at_once(struct step *s)
{
    struct rank *r = s->r;

    due_take_all(r, false);
    step_verify(s);
    if (r->t->shared) {
        step_arrive(s);
    }
    meet_timed(s);
    skip_nonfinite_sums(s);
    for (size_t b = 0; b < r->t->n_buckets && !s->skip && r->status == ST_OK; b++) {
        due_update(r, b, &s->sgd);
    }
}

/* The weights have changed when the sums are there. */
static void wait_for_updates(struct step *s)
{
    due_take_all(s->r, false);
    meet_timed(s);
}

/* Rank 0 updates, and shares out the weights for the next forward pass. */
static void update_at_root(struct step *s)
{
    struct rank *r = s->r;

    if (step_is_verified(s)) {
        due_reduce(r);
        step_verify(s);
    }
    meet_timed(s);
    r->due.update = !s->skip;
    due_share(r);
    if (step_is_verified(s) || !r->t->cfg->comm.overlap) {
        due_take_all(r, true);
    }
}

static bool ends_epoch(const struct step *s)
{
    const struct trainer *t = s->r->t;

    return (s->number + 1) % t->steps_per_epoch == 0 || s->number + 1 == t->total_steps;
}

void step_update(struct step *s)
{
    struct rank *r = s->r;
    const double from_s = clock_now_s(), exposed_s = r->times->exposed_s;

    if (r->status == ST_OK) {
        due_begin(r, s->number, &s->sgd);
    }
    if (!r->t->cfg->comm.overlap) {
        step_post_all(s);
        due_waited(r, from_s); /* bytes that it moves now are not hidden */
    }
    check_posted(s);
    if (r->t->fused) {
        wait_for_updates(s);
    } else if (r->t->rooted) {
        update_at_root(s);
    } else if (r->t->across && by_bucket(s)) { /* the next forward pass takes them */
        meet_timed(s);
        r->due.update = !s->skip;
    } else if (by_bucket(s)) {
        update_by_bucket(s);
    } else {
        update_at_once(s);
    }
    if (ends_epoch(s)) { /* what may follow needs all weights, and is no part of a step */
        due_take_all(r, true);
        step_fail(s, arena_finish(r));
        step_fail(s, comm_check(r->t->comm));
        due_count(r);
        step_collect(r, 0);
        s->mine->counted = r->status == ST_OK;
    }
    r->times->compute_s += clock_now_s() - from_s - (r->times->exposed_s - exposed_s);
}
