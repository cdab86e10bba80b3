#include "base/clock.h"
#include "train/state.h"

/* What comes after an epoch, or its part before max_steps. Returns false when all ranks stop. */
static bool end_epoch(struct rank *r, uint64_t epoch, uint64_t step)
{
    const struct trainer *t = r->t;
    const int64_t every = t->cfg->train.eval_every;
    const bool last = step == t->total_steps;
    const bool evaluate = last || (every > 0 && (epoch + 1) % (uint64_t)every == 0);

    if (evaluate && !evaluate_run(r)) {
        return false;
    }
    if (r->index == 0) {
        r->pending = report_epoch(r, epoch, step, evaluate);
    }
    r->mark_s = clock_now_s();
    r->carried_s = 0;
    return true;
}

void loop_run(void *trainer, int rank)
{
    struct trainer *t = trainer;
    struct rank *r = &t->ranks[rank];
    uint64_t step = 0;
    bool go = true;

    r->mark_s = clock_now_s();
    for (uint64_t epoch = 0; go && step < t->total_steps; epoch++) {
        loader_start(r->loader, epoch, 0);
        for (uint64_t s = 0; go && s < t->steps_per_epoch && step < t->total_steps; s++) {
            go = step_run(r, step);
            step++;
        }
        go = go && end_epoch(r, epoch, step);
    }
    if (r->status == ST_CANCELLED) { /* on all ranks, so they meet */
        evaluate_sync_state(r);
    }
    if (r->status == ST_OK) {
        r->status = r->pending;
    }
}
