#ifndef OPTIM_OPTIM_H
#define OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "config/config.h"

/*
 * SGD with momentum in the form of PyTorch: g += wd·w; v = m·v + g; g' = nesterov ? g + m·v : v; w
 * -= lr·g'. Ranges of the arena may differ in weight decay (biases and norms).
 */
struct sgd_range {
    size_t offset, n; /* elements, ascending, without overlap */
    bool decay;       /* does weight decay apply? */
};

struct sgd_step {
    float lr, momentum, weight_decay;
    bool nesterov;
    float unscale; /* gradients are multiplied by it first; 0: by 1 */
};

/*
 * Update w[n] and v[n] with g[n]; vectorised, bitwise the same for every cut of an arena into
 * calls. v is not read or written when momentum is 0 (it may be NULL then).
 */
void sgd_update(const struct sgd_step *s, bool decay, float *w, float *v, const float *g, size_t n);

/* The part of `ranges` inside [offset, offset + n) updated by sgd_update, each with its own decay.
 * w, v, g are whole arenas. */
void sgd_update_ranges(const struct sgd_step *s, const struct sgd_range *ranges, size_t n_ranges,
                       size_t offset, size_t n, float *w, float *v, const float *g);

/* A gradient that is still to be added up: elements [offset, offset + n) of the arena are
 * (parts[0] + parts[1]) + ... of n_parts >= 1 arrays of n elements. */
struct sgd_sum {
    size_t offset, n;
    const float *const *parts;
    int n_parts;
};

/* As sgd_update_ranges, with the bits of adding up first. w and v are whole arenas. */
void sgd_update_sum(const struct sgd_step *s, const struct sgd_range *ranges, size_t n_ranges,
                    const struct sgd_sum *sum, float *w, float *v);

/*
 * The learning rate of step `step` (0-based): policy and warm-up of the config over
 * `steps_per_epoch` and `total_steps`. With cfg->scale_lr the base rate is multiplied by `n_ranks`,
 * otherwise n_ranks has no effect.
 */
double lr_at(const struct config_optim *cfg, uint64_t step, uint64_t steps_per_epoch,
             uint64_t total_steps, int n_ranks);

#endif
