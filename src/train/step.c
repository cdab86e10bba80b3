/*
 * One BSP step of a rank.
 *
 *   data ── forward ── backward ─────────────▶ wait for the sums ── update ──▶ next step
 *                        └ bucket posted ─ bucket posted ─ ...
 *
 * Ranks meet twice in a step. The first meeting tells everybody what the others found (an error, a
 * loss that is not finite, a signal), so that all take the same way; the second one ends the step.
 * A rank that fails still comes to both, which is why nobody waits for ever.
 *
 * With one weight arena for all ranks, the first meeting also says that nobody reads the old
 * weights any more, and each rank then updates its part of every bucket. With weights of its own a
 * rank updates a bucket as soon as its sum is there.
 */
#include "train/step.h"

#include <string.h>

#include "base/clock.h"

void step_fail(struct step *s, enum status st)
{
    struct rank *r = s->r;

    if (st != ST_OK && r->status == ST_OK) {
        r->status = st;
        comm_abort(r->t->comm, r->index, st);
    }
}

void step_arrive(struct step *s)
{
    s->mine->status = s->r->status;
    s->mine->cancelled = s->r->index == 0 && s->r->t->signal != 0;
    s->round = meeting_arrive(&s->r->t->meeting);
}

void step_meet(struct step *s)
{
    const struct trainer *t = s->r->t;

    if (s->met) {
        return;
    }
    meeting_wait(&s->r->t->meeting, s->round);
    s->met = true;
    for (int r = 0; r < t->n_ranks; r++) {
        s->skip |= s->all[r].nonfinite != NULL && t->on_nan != ON_NAN_IGNORE;
        s->skip |= s->all[r].status != ST_OK;
    }
}

/* Communication until `until`: the union of the buckets' busy times, which mostly come in order. */
static double hidden_until(const struct rank *r, double until)
{
    double sum = 0, covered = 0;

    for (size_t b = 0; b < r->t->n_buckets && r->status == ST_OK; b++) {
        struct comm_times c = comm_last_times(r->t->comm, r->index, b);
        double from = c.started_s > covered ? c.started_s : covered;
        double to = c.done_s < until ? c.done_s : until;
        sum += to > from ? to - from : 0;
        covered = c.done_s > covered ? c.done_s : covered;
    }
    return sum;
}

static uint64_t digest(const float *v, size_t n)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        h = (h ^ bits) * 1099511628211u;
    }
    return h;
}

/* The second meeting; what is in the records after it is the same for all. */
static void end_step(struct step *s, double backward_end)
{
    struct rank *r = s->r;
    struct step_times *times = &s->mine->times;
    const int64_t every = r->t->cfg->debug.verify_every;
    double now;

    times->hidden_s = hidden_until(r, backward_end);
    if (every > 0 && (s->number + 1) % (uint64_t)every == 0) {
        s->mine->digest = digest(r->weights, r->t->shared ? 0 : r->t->n);
    }
    s->mine->final_status = r->status;
    now = clock_now_s();
    times->step_s = now - r->mark_s;
    r->mark_s = now;
    meeting_pass(&r->t->meeting);
    r->carried_s = clock_now_s() - now;
    graph_params_changed(r->graph);
}

/* A step that is skipped must not leave its values in the running statistics. */
static void save_state(struct rank *r)
{
    if (r->saved_state != NULL) {
        memcpy(r->saved_state, graph_state(r->graph),
               graph_state_n(r->graph) * sizeof *r->saved_state);
    }
}

static void restore_state(struct rank *r)
{
    if (r->saved_state != NULL) {
        memcpy(graph_state(r->graph), r->saved_state,
               graph_state_n(r->graph) * sizeof *r->saved_state);
    }
}

bool step_run(struct rank *r, uint64_t number)
{
    struct trainer *t = r->t;
    const struct config_optim *optim = &t->cfg->optim;
    struct step_record *all = t->records[number % 2];
    struct step s = {.r = r, .number = number, .mine = &all[r->index], .all = all};
    double backward_end;

    *s.mine = (struct step_record){.status = ST_OK};
    s.sgd = (struct sgd_step){
        .lr = (float)lr_at(optim, number, t->steps_per_epoch, t->total_steps, t->n_ranks),
        .momentum = (float)optim->momentum,
        .weight_decay = (float)optim->weight_decay,
        .nesterov = optim->nesterov,
    };
    step_fail(&s, r->pending);
    save_state(r);
    step_compute(&s);
    backward_end = clock_now_s();
    step_update(&s);
    if (s.skip) {
        restore_state(r);
    }
    end_step(&s, backward_end);
    r->status = step_conclude(&s);
    if (r->index == 0) {
        r->pending = report_step(r, number, all);
    }
    return r->status == ST_OK;
}
