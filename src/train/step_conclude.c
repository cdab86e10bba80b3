#include <math.h>

#include "base/log.h"
#include "train/step.h"

static enum status conclude_nonfinite(const struct step *s, int r)
{
    const struct trainer *t = s->r->t;

    if (s->r->index != 0) {
        return ST_NONFINITE;
    }
    return log_fail(ST_NONFINITE,
                    "the loss is %s, step %llu on rank %d of %d, first in layer %s, try a lower "
                    "[optim] lr or a warm-up, or set [train] on_nan = skip",
                    isnan(s->all[r].loss_sum) ? "nan" : "infinite",
                    (unsigned long long)s->number + 1, r, t->n_ranks, s->all[r].nonfinite);
}

static enum status conclude_digests(const struct step *s)
{
    for (int r = 1; r < s->r->t->n_ranks; r++) {
        if (s->all[r].digest == s->all[0].digest) {
            continue;
        }
        return s->r->index != 0
                   ? ST_INTERNAL
                   : log_fail(ST_INTERNAL,
                              "ranks 0 and %d hold different weights, step %llu, report this with "
                              "the run's config.ini",
                              r, (unsigned long long)s->number + 1);
    }
    return ST_OK;
}

/* The losses of a step. */
static enum status conclude_losses(const struct step *s)
{
    for (int r = 0; r < s->r->t->n_ranks && s->r->t->on_nan == ON_NAN_STOP; r++) {
        if (s->all[r].nonfinite != NULL) {
            return conclude_nonfinite(s, r);
        }
    }
    return ST_OK;
}

/* A rank that failed has not read its losses, and all ranks stop for it. */
static bool all_counted(const struct step *s)
{
    for (int r = 0; r < s->r->t->n_ranks; r++) {
        if (!s->all[r].counted) {
            return false;
        }
    }
    return true;
}

void step_report(struct rank *r, uint64_t number)
{
    const struct step s = {.r = r, .number = number, .all = r->t->records[number % 2]};
    enum status st;

    if (!r->unreported || !s.all[r->index].counted || !all_counted(&s)) {
        return;
    }
    r->unreported = false;
    st = conclude_losses(&s);
    r->status = r->status == ST_OK ? st : r->status;
    if (r->index == 0) {
        st = report_step(r, number, s.all);
        r->pending = r->pending == ST_OK ? st : r->pending;
    }
}

enum status step_conclude(const struct step *s)
{
    const struct trainer *t = s->r->t;

    for (int r = 0; r < t->n_ranks; r++) {
        if (s->all[r].final_status != ST_OK) {
            return s->r->status == ST_OK ? ST_PEER : s->r->status;
        }
    }
    if (!t->late) {
        TRY(conclude_losses(s));
    }
    TRY(step_conclude_sums(s));
    TRY(conclude_digests(s));
    return s->all[0].cancelled ? ST_CANCELLED : ST_OK;
}
