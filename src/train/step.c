/*
 * One BSP step of a rank.
 *
 *   data ── forward ── backward ─────────────▶ wait for the sums ── update ──▶ next step
 *                        └ bucket posted ─ bucket posted ─ ...
 *
 * Ranks meet twice in a step. The first meeting tells everybody what the others found (an error, a
 * loss that is not finite, a signal), so that all take the same way; the second one ends the step.
 * A rank that fails still comes to both; one that does not come within [comm] timeout_s breaks the
 * meeting, and the run ends without it.
 *
 * With one weight arena for all ranks, the first meeting also says that nobody reads the old
 * weights any more, and each rank then updates its part of every bucket. With weights of its own a
 * rank updates a bucket as soon as its sum is there.
 *
 * With the update inside the reduction (fuse.c) all ranks have come to the first meeting before
 * they post, so that whoever adds up a bucket knows what becomes of the step.
 *
 * With order = priority and weights of its own a rank does not wait for the sums at the end of the
 * step, but in the next forward pass, for each layer's when it is needed; whether the step counts
 * has been agreed on in the first meeting by then. A sum that does not come is an error of the next
 * step. Evaluations, verified steps and the end of the run wait for all sums.
 *
 * On devices (trainer.late) the losses of a step are not known in it: they are read while the next
 * step is under way, and all ranks have them at its first meeting; see arena_vote for what becomes
 * of the update meanwhile.
 */
#include "train/step.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

void step_fail(struct step *s, enum status st)
{
    rank_fail(s->r, st);
}

static const char *step_place(const struct step *s, const char *what, char out[64])
{
    (void)snprintf(out, 64, "%s step %" PRIu64, what, s->number + 1);
    return out;
}

void step_arrive(struct step *s)
{
    if (s->r->gone) {
        return;
    }
    s->mine->status = s->r->status;
    s->mine->cancelled = s->r->index == 0 && s->r->t->signal != 0;
    s->round = meeting_arrive(&s->r->t->meeting, s->r->index);
}

void step_meet(struct step *s)
{
    const struct trainer *t = s->r->t;
    char place[64];

    if (s->met) {
        return;
    }
    s->met = true;
    if (!loop_wait(s->r, s->round, step_place(s, "the update of", place))) {
        s->skip = true;
        return;
    }
    for (int r = 0; r < t->n_ranks; r++) {
        s->skip |= s->all[r].nonfinite != NULL && t->on_nan != ON_NAN_IGNORE;
        s->skip |= s->all[r].status != ST_OK;
    }
}

/* The second meeting; what is in the records after it is the same for all. False if not all came.
 */
static bool end_step(struct step *s)
{
    struct rank *r = s->r;
    struct step_times *times = &s->mine->times;
    char place[64];
    bool complete;
    double now;

    if (step_is_verified(s) && !r->t->shared) {
        step_fail(s, arena_digest(r, r->weights, r->t->n, &s->mine->digest));
    }
    s->mine->final_status = r->status;
    r->times = &r->rest; /* the record is the others' now */
    now = clock_now_s();
    times->step_s = now - r->mark_s;
    r->mark_s = now;
    complete = loop_meet(r, step_place(s, "the end of", place));
    r->carried_s = clock_now_s() - now;
    if (r->traced) {
        trace_add(r->t->trace, r->index, TRACE_MEET, 0, now, now + r->carried_s);
        trace_write(r->t->trace, r->index, s->number);
        r->traced = false;
    }
    graph_params_changed(r->graph);
    return complete;
}

/* A step that is skipped must not leave its values in the running statistics. */
static void save_state(struct rank *r)
{
    if (r->saved_state != NULL) {
        rank_fail(r, arena_copy(r, r->saved_state, graph_state(r->graph), graph_state_n(r->graph)));
    }
}

static void restore_state(struct rank *r)
{
    if (r->saved_state != NULL) {
        rank_fail(r, arena_copy(r, graph_state(r->graph), r->saved_state, graph_state_n(r->graph)));
    }
}

/* Only such steps are counted and reported. */
static bool step_took_place(const struct step *s)
{
    for (int k = 0; k < s->r->t->n_ranks; k++) {
        if (s->all[k].final_status != ST_OK) {
            return false;
        }
    }
    return true;
}

/* The losses of this step: at once, or in the next one if there is one. */
static void end_losses(struct step *s)
{
    struct rank *r = s->r;
    const enum status st = r->status;

    if (!r->t->late) {
        r->pending = r->index == 0 ? report_step(r, s->number, s->all) : ST_OK;
        return;
    }
    r->unreported = st == ST_OK || st == ST_CANCELLED;
    if (st == ST_CANCELLED) { /* on all ranks */
        r->status = ST_OK;
        step_collect(r, 0);
        s->mine->counted = r->status == ST_OK;
        if (!loop_meet(r, "the losses of the last step")) {
            return;
        }
        r->status = r->status == ST_OK ? st : r->status;
    }
    step_report(r, s->number); /* if all have counted them */
}

bool step_run(struct rank *r, uint64_t number)
{
    struct trainer *t = r->t;
    const struct config_optim *optim = &t->cfg->optim;
    struct step_record *all = t->records[number % 2];
    struct step s = {.r = r, .number = number, .mine = &all[r->index], .all = all, .held = -1};

    *s.mine = (struct step_record){.status = ST_OK};
    r->times = &s.mine->times;
    r->traced = trace_wants(t->trace, number);
    r->due.since_s = number <= t->warmup_steps ? r->mark_s : 0;
    s.sgd = (struct sgd_step){
        .lr = (float)lr_at(optim, number, t->steps_per_epoch, t->total_steps, t->n_ranks),
        .momentum = (float)optim->momentum,
        .weight_decay = (float)optim->weight_decay,
        .nesterov = optim->nesterov,
        .unscale = 1.0f / r->scale.factor,
    };
    if (r->index == 0) {
        t->update.sgd = s.sgd;
        t->update.all = all;
        t->update.weights = r->weights;
        t->update.momentum = r->momentum;
    }
    step_fail(&s, r->pending);
    save_state(r);
    step_compute(&s);
    if (r->gone) {
        return false;
    }
    step_update(&s);
    if (s.skip) {
        restore_state(r);
    }
    loss_scale_step(&r->scale, s.mine->overflow);
    if (t->late &&
        r->status == ST_OK) { /* all ranks have come with the losses of the step before */
        step_report(r, number - 1);
    }
    if (!end_step(&s)) {
        return false;
    }
    due_commit(r, number >= t->warmup_steps && step_took_place(&s));
    r->status = step_conclude(&s);
    end_losses(&s);
    return r->status == ST_OK;
}
