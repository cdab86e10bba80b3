#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/state.h"

/* Where the communicator has waited in vain for a rank already, there is little hope for it. */
static const double SHORT_WAIT_S = 1;

/* Does a rank wait for the sum? Another one may have given all of its part already. */
static bool is_awaited(const struct trainer *t, size_t b)
{
    for (int r = 0; r < t->n_ranks; r++) {
        if (!comm_done(t->comm, r, b)) {
            return true;
        }
    }
    return false;
}

static void tell_missing(const struct rank *r, const char *missing, const char *where)
{
    const struct trainer *t = r->t;
    const char *plural = strchr(missing, ',') != NULL ? "s" : "";

    for (size_t b = 0; t->comm != NULL && b < t->n_buckets; b++) {
        if (is_awaited(t, b)) {
            log_error(
                "%s of bucket %zu (%s) timed out after %g s on rank %d, waiting for rank%s %s, "
                "which did not come to %s, find out what became of it or raise [comm] "
                "timeout_s",
                t->rooted ? "reduce" : "allreduce", b, t->labels[b], t->cfg->comm.timeout_s,
                r->index, plural, missing, where);
            return;
        }
    }
    log_error("rank%s %s did not come to %s within %g s, find out what became of it or raise "
              "[comm] timeout_s",
              plural, missing, where, t->cfg->comm.timeout_s);
}

bool loop_wait(struct rank *r, unsigned round, const char *where)
{
    struct trainer *t = r->t;
    const double timeout_s = t->cfg->comm.timeout_s;
    const bool late = r->status == ST_TIMEOUT;
    char missing[128];
    enum status st = meeting_wait(&t->meeting, round,
                                  late && timeout_s > SHORT_WAIT_S ? SHORT_WAIT_S : timeout_s);

    if (st == ST_TIMEOUT && !rank_abort(r)) {
        st = ST_PEER; /* what went wrong first has been told */
    } else if (st == ST_TIMEOUT) {
        tell_missing(r, meeting_missing(&t->meeting, round, missing, sizeof missing), where);
    }
    if (st != ST_OK && r->status == ST_OK) {
        r->status = st; /* who broke the meeting has ended the waits for sums too */
    }
    return st == ST_OK;
}

bool loop_meet(struct rank *r, const char *where)
{
    return loop_wait(r, meeting_arrive(&r->t->meeting, r->index), where);
}

/* What comes after an epoch, or its part before max_steps. Returns false when all ranks stop. */
static bool end_epoch(struct rank *r, uint64_t epoch, uint64_t step)
{
    const struct trainer *t = r->t;
    const int64_t every = t->cfg->train.eval_every;
    const bool last = step == t->total_steps;
    const bool evaluate = last || (every > 0 && (epoch + 1) % (uint64_t)every == 0);

    if (evaluate) {
        due_take_all(r, true);
    }
    if (evaluate && (r->status != ST_OK || !evaluate_run(r))) {
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
    bool go;

    r->times = &r->rest;
    go = agree_run(r);
    r->mark_s = clock_now_s();
    for (uint64_t epoch = 0; go && step < t->total_steps; epoch++) {
        loader_start(r->loader, epoch, 0);
        for (uint64_t s = 0; go && s < t->steps_per_epoch && step < t->total_steps; s++) {
            go = step_run(r, step) && survey_after_step(r, step);
            step++;
        }
        go = go && end_epoch(r, epoch, step);
    }
    if (r->status == ST_OK || r->status == ST_CANCELLED || r->status == ST_NONFINITE) {
        due_take_all(r, true); /* all ranks do, and all sums come */
    }
    if (r->status == ST_CANCELLED) { /* on all ranks, so they meet */
        (void)evaluate_sync_state(r);
    }
    if (r->status == ST_OK) {
        r->status = r->pending;
    }
}
