/*
 * [optim] fuse: one weight and one momentum arena for all ranks, updated by the reduction itself.
 *
 *   P gradients ── sum ──┐
 *   weights, momentum ───┴─ update ──▶ weights, momentum
 *
 * The sums stay in registers and are never written, which moves P + 4 arenas through memory instead
 * of 2 P + 5. A bucket is updated as soon as all ranks have posted it: by then each has had its
 * last look at the old weights in it, and has been at the first meeting of the step, so that the
 * records say whether the step counts.
 */
#include <string.h>

#include "base/log.h"
#include "train/state.h"

/* Why ranks cannot have their weights in common; NULL if they can. */
static const char *against_sharing(const struct trainer *t)
{
    return t->on_device ? "every device has a memory of its own"
           : inject_has(&t->inject, INJECT_WEIGHT)
               ? "[debug] inject = weight spoils the weights of one device"
           : t->rooted ? "[comm] sync = reduce-broadcast has weights on every device"
           : t->across ? "[comm] order = priority has weights on every device"
                       : NULL;
}

/* What needs the sums themselves. */
static const char *against_fusing(const struct trainer *t)
{
    return t->cfg->debug.verify_every > 0 ? "[debug] verify_every looks at the sums"
           : t->on_nan == ON_NAN_SKIP     ? "[train] on_nan = skip looks at all sums first"
           : loss_scale_make(t->cfg).on   ? "[optim] loss_scale looks at all sums first"
           : strcmp(t->cfg->comm.wire, "fp32") != 0
               ? "[comm] wire widens the sums when they are there"
           : strcmp(t->cfg->comm.fabric, "emulate") == 0
               ? "[comm] fabric = emulate sends the sums over links"
               : NULL;
}

enum status fuse_decide(struct trainer *t)
{
    const char *fuse = t->cfg->optim.fuse;
    const bool wanted = strcmp(fuse, "off") != 0;
    const char *apart = wanted ? against_sharing(t) : "[optim] fuse = off";

    t->not_fused = apart != NULL ? apart : against_fusing(t);
    t->shared = apart == NULL;
    t->fused = t->not_fused == NULL;
    if (strcmp(fuse, "on") == 0 && !t->fused) {
        return log_fail(ST_INPUT, "[optim] fuse = on cannot be had: %s, use auto or off",
                        t->not_fused);
    }
    return ST_OK;
}

/* The step counts for nobody if one rank's loss is not finite, or if one rank has failed. */
static bool is_skipped(const struct trainer *t)
{
    for (int r = 0; r < t->n_ranks && t->update.all != NULL; r++) {
        const struct step_record *k = &t->update.all[r];
        if (k->status != ST_OK || (k->nonfinite != NULL && t->on_nan != ON_NAN_IGNORE)) {
            return true;
        }
    }
    return false;
}

void fuse_take(void *trainer, size_t first, size_t n, const float *const *parts, int n_parts)
{
    const struct trainer *t = trainer;

    if (!is_skipped(t)) {
        sgd_update_sum(&t->update.sgd, t->ranges, t->n_ranges,
                       &(struct sgd_sum){first, n, parts, n_parts}, t->update.weights,
                       t->update.momentum);
    }
}
