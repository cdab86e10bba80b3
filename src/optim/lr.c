/*
 * Learning-rate policies. t runs from 0 to 1 over the steps after the warm-up; epochs are counted
 * from the start of the training, the warm-up included.
 *
 *   fixed      base
 *   step       base · gamma^floor(epoch / step_epochs)
 *   multistep  base · gamma^(milestones passed)
 *   exp        base · gamma^epoch, epoch being a real number
 *   poly       lr_min + (base - lr_min) · (1 - t)^power
 *   cosine     lr_min + (base - lr_min) · (1 + cos(pi t)) / 2
 *
 * Warm-up: a straight line from warmup_lr at step 0 to base at the first step after it.
 */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

/* A duration in epochs as a number of steps. */
static uint64_t steps_of(double epochs, uint64_t steps_per_epoch)
{
    return (uint64_t)llround(epochs * (double)steps_per_epoch);
}

static double passed_milestones(const struct config_optim *cfg, uint64_t step,
                                uint64_t steps_per_epoch)
{
    double n = 0;

    for (size_t i = 0; i < cfg->milestones.n; i++) {
        n += step >= steps_of(cfg->milestones.v[i], steps_per_epoch);
    }
    return n;
}

/* How far the training after the warm-up has come, in [0, 1]. */
static double progress(uint64_t step, uint64_t warmup, uint64_t total)
{
    if (step >= total) {
        return 1;
    }
    return step > warmup ? (double)(step - warmup) / (double)(total - warmup) : 0;
}

double lr_at(const struct config_optim *cfg, uint64_t step, uint64_t steps_per_epoch,
             uint64_t total_steps, int n_ranks)
{
    const double base = cfg->scale_lr ? cfg->lr * n_ranks : cfg->lr;
    const uint64_t warmup = steps_of(cfg->warmup_epochs, steps_per_epoch);
    const double span = base - cfg->lr_min;
    const double t = progress(step, warmup, total_steps);

    if (step < warmup) {
        return cfg->warmup_lr + (base - cfg->warmup_lr) * (double)step / (double)warmup;
    }
    if (strcmp(cfg->policy, "step") == 0) {
        uint64_t every = steps_of((double)cfg->step_epochs, steps_per_epoch);
        return every == 0 ? base : base * pow(cfg->gamma, (double)(step / every));
    }
    if (strcmp(cfg->policy, "multistep") == 0) {
        return base * pow(cfg->gamma, passed_milestones(cfg, step, steps_per_epoch));
    }
    if (strcmp(cfg->policy, "exp") == 0) {
        return base * pow(cfg->gamma, (double)step / (double)steps_per_epoch);
    }
    if (strcmp(cfg->policy, "poly") == 0) {
        return cfg->lr_min + span * pow(1 - t, cfg->power);
    }
    if (strcmp(cfg->policy, "cosine") == 0) {
        return cfg->lr_min + span * (1 + cos(PI * t)) / 2;
    }
    return base;
}
