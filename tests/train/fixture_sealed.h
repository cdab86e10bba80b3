#ifndef TESTS_TRAIN_FIXTURE_SEALED_H
#define TESTS_TRAIN_FIXTURE_SEALED_H

/* The tiny training of fixture.h on sealed devices, and its outcome beside another one. */

#include "fixture.h"

#include "sealed.h"

/* As run(), on sealed devices with this table for them, which may keep memory. */
static UNUSED struct outcome run_sealed_with(const struct device_ops *ops, const char *const *more)
{
    struct outcome o = {.status = ST_OK};
    struct config cfg;
    struct trainer *t = NULL;

    make_config(&cfg, more);
    o.status = trainer_create_on(&cfg, false, ops, sealed_ops(), &t);
    if (o.status == ST_OK) {
        o.n = trainer_n_weights(t);
        o.weights = calloc(o.n, sizeof *o.weights);
        o.status = trainer_run(t, &o.summary);
        cr_assert_eq(trainer_weights(t, 0, o.weights, o.n), ST_OK);
    }
    trainer_destroy(t);
    config_fini(&cfg);
    return o;
}

static UNUSED struct outcome run_sealed(const char *const *more, uint64_t seed)
{
    struct outcome o;
    size_t live = mem_live();

    sealed_seed(seed);
    o = run_sealed_with(sealed_device(), more);
    cr_assert_eq(mem_live(), live, "a run leaks");
    return o;
}

static UNUSED void free_outcome(struct outcome *o)
{
    free(o->weights);
}

/* Are they the same? The host's devices share weights where they can, which changes no bits. */
static UNUSED bool same(const struct outcome *a, const struct outcome *b)
{
    return a->status == b->status && a->n == b->n &&
           memcmp(a->weights, b->weights, a->n * sizeof *a->weights) == 0 &&
           memcmp(&a->summary.train_loss, &b->summary.train_loss, sizeof(double)) == 0 &&
           memcmp(&a->summary.test_loss, &b->summary.test_loss, sizeof(double)) == 0 &&
           a->summary.test_top1_n == b->summary.test_top1_n && a->summary.steps == b->summary.steps;
}

#endif
