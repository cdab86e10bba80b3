#include <criterion/criterion.h>
#include <math.h>

#include "optim/optim.h"

enum {
    SPE = 10, /* steps per epoch */
    TOTAL = 100
};

static double milestones[] = {3, 5.5};

static char names[][12] = {"fixed", "step", "multistep", "poly", "cosine", "exp"};

enum {
    FIXED,
    STEP,
    MULTISTEP,
    POLY,
    COSINE,
    EXP
};

static struct config_optim policy(int i)
{
    return (struct config_optim){.lr = 0.4,
                                 .policy = names[i],
                                 .gamma = 0.1,
                                 .power = 2,
                                 .step_epochs = 3,
                                 .milestones = {milestones, 2}};
}

static double at(const struct config_optim *c, uint64_t step)
{
    return lr_at(c, step, SPE, TOTAL, 1);
}

#define assert_lr(c, step, want) cr_assert_float_eq(at(c, step), want, 1e-12, "step %d", step)

Test(lr, policies_at_their_corners)
{
    struct config_optim fixed = policy(FIXED), step = policy(STEP);
    struct config_optim multi = policy(MULTISTEP), poly = policy(POLY);
    struct config_optim cosine = policy(COSINE), expo = policy(EXP);

    assert_lr(&fixed, 0, 0.4);
    assert_lr(&fixed, TOTAL - 1, 0.4);
    assert_lr(&step, 29, 0.4);
    assert_lr(&step, 30, 0.04);
    assert_lr(&step, 59, 0.04);
    assert_lr(&step, 60, 0.004);
    assert_lr(&step, 99, 0.0004);
    assert_lr(&multi, 29, 0.4);
    assert_lr(&multi, 30, 0.04);
    assert_lr(&multi, 54, 0.04);
    assert_lr(&multi, 55, 0.004);
    assert_lr(&poly, 0, 0.4);
    assert_lr(&poly, 50, 0.1);
    assert_lr(&poly, 99, 0.4 * 1e-4);
    assert_lr(&cosine, 0, 0.4);
    assert_lr(&cosine, 50, 0.2);
    assert_lr(&cosine, 25, 0.2 * (1 + sqrt(0.5)));
    assert_lr(&expo, 0, 0.4);
    assert_lr(&expo, 10, 0.04);
    assert_lr(&expo, 5, 0.4 * sqrt(0.1));
}

Test(lr, decays_end_at_lr_min)
{
    static const int falling[] = {POLY, COSINE};

    for (int i = 0; i < 2; i++) {
        struct config_optim c = policy(falling[i]);
        c.lr_min = 0.01;
        assert_lr(&c, 0, 0.4);
        assert_lr(&c, TOTAL, 0.01);
        assert_lr(&c, TOTAL + 50, 0.01);
        cr_assert_gt(at(&c, TOTAL - 1), 0.01);
        for (uint64_t s = 1; s < TOTAL; s++) {
            cr_assert_lt(at(&c, s), at(&c, s - 1), "%s falls at step %d", c.policy, (int)s);
        }
    }
}

Test(lr, warmup_is_a_line_to_the_base_rate)
{
    static const int some[] = {FIXED, POLY, COSINE};

    for (int i = 0; i < 3; i++) {
        struct config_optim c = policy(some[i]);
        c.warmup_epochs = 2;
        c.warmup_lr = 0.1;
        assert_lr(&c, 0, 0.1);
        assert_lr(&c, 5, 0.175);
        assert_lr(&c, 19, 0.385);
        assert_lr(&c, 20, 0.4);
    }
    struct config_optim c = policy(COSINE);
    c.warmup_epochs = 2;
    assert_lr(&c, 60, 0.2); /* half of the 80 steps after the warm-up */
    c.warmup_epochs = 10;   /* all of the training and more */
    c.lr_min = 0.3;
    assert_lr(&c, 99, 0.396);
    assert_lr(&c, 100, 0.3);
    c.warmup_epochs = 0.04; /* less than half a step: none */
    assert_lr(&c, 0, 0.4);
}

Test(lr, ranks_count_only_when_asked_to)
{
    for (int i = FIXED; i <= EXP; i++) {
        struct config_optim c = policy(i);
        c.warmup_epochs = 1;
        for (uint64_t s = 0; s < TOTAL; s += 7) {
            cr_assert_eq(lr_at(&c, s, SPE, TOTAL, 8), lr_at(&c, s, SPE, TOTAL, 1));
        }
        c.scale_lr = true;
        cr_assert_float_eq(lr_at(&c, 10, SPE, TOTAL, 8), 8 * lr_at(&c, 10, SPE, TOTAL, 1), 1e-12);
    }
}
