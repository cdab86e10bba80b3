#include "fixture.h"

#include "train/state.h"

TestSuite(evaluate, .init = scratch_make, .fini = scratch_remove);

/* The start weights (no step of this size changes them), `n_test` images on `ranks` ranks. */
static struct outcome evaluate_start(int ranks, const char *n_test)
{
    char count[64];
    const char *const more[] = {"optim.lr=1e-30",
                                "optim.momentum=0",
                                "train.max_steps=1",
                                "train.batch_per_device=4",
                                n_test,
                                count,
                                NULL};

    (void)snprintf(count, sizeof count, "device.count=%d", ranks);
    return run_ok(more);
}

Test(evaluate, every_image_counts_once_for_any_number_of_ranks)
{
    static const char *const sizes[] = {"data.n_test=21", "data.n_test=3", "data.n_test=20"};
    static const size_t n[] = {21, 3, 20};

    for (int k = 0; k < 3; k++) {
        struct outcome one = evaluate_start(1, sizes[k]);
        cr_assert_eq(one.summary.test_n, n[k]);
        cr_assert_float_eq(one.summary.top1, (double)one.summary.test_top1_n / (double)n[k], 1e-15);
        for (int ranks = 2; ranks <= 5; ranks++) {
            struct outcome o = evaluate_start(ranks, sizes[k]);
            cr_assert_eq(o.summary.test_n, n[k], "P = %d", ranks);
            cr_assert_eq(o.summary.test_top1_n, one.summary.test_top1_n, "P = %d", ranks);
            cr_assert_eq(o.summary.top1, one.summary.top1);
            cr_assert_eq(o.summary.top5, one.summary.top5);
            cr_assert_float_eq(o.summary.test_loss, one.summary.test_loss,
                               1e-6 * one.summary.test_loss);
            free(o.weights);
        }
        free(one.weights);
    }
}

Test(evaluate, one_line_an_epoch_and_the_last_one_always)
{
    const char *const more[] = {"train.epochs=5", "train.eval_every=2", "device.count=2",
                                "train.batch_per_device=16", NULL};
    struct outcome o = run_ok(more);
    char *text = slurp("run0/epochs.csv");

    cr_assert_eq(count_lines(text, "\n"), 6, "%s", text);
    cr_assert_eq(count_lines(text, ",nan,nan,nan,0,0,"), 2, "epochs 1 and 3: %s", text);
    cr_assert_null(strstr(strstr(text, "\n5,"), "nan"), "epoch 5: %s", text);
    free(text);
    free(o.weights);
}

/* Batch norm: ranks see other images, yet go on from equal statistics. */
Test(evaluate, running_statistics_are_equal_on_all_ranks)
{
    const char *const more[] = {"model.name=resnet20",
                                "data.shape=3,8,8",
                                "device.count=4",
                                "train.batch_per_device=4",
                                "train.max_steps=20",
                                "data.n_train=160",
                                NULL};
    struct config cfg;
    struct trainer *t;
    struct trainer_summary s;
    size_t n;

    make_config(&cfg, more);
    cr_assert_eq(trainer_create(&cfg, false, &t), ST_OK);
    n = graph_state_n(t->ranks[0].graph);
    cr_assert_gt(n, 0);
    cr_assert_eq(trainer_run(t, &s), ST_OK);
    for (int r = 1; r < 4; r++) {
        cr_assert_eq(memcmp(graph_state(t->ranks[r].graph), graph_state(t->ranks[0].graph),
                            n * sizeof(float)),
                     0, "rank %d", r);
    }
    cr_assert_neq(graph_state(t->ranks[0].graph)[0], 0, "the statistics have moved");
    trainer_destroy(t);
    config_fini(&cfg);
}

/* The mean over the ranks, and nothing else. */
struct planted {
    struct trainer *t;
};

static void sync_job(void *ctx, int rank)
{
    struct planted *p = ctx;
    float *state = graph_state(p->t->ranks[rank].graph);

    for (size_t i = 0; i < graph_state_n(p->t->ranks[rank].graph); i++) {
        state[i] = (float)((rank + 1) * (int)(i % 8));
    }
    evaluate_sync_state(&p->t->ranks[rank]);
}

Test(evaluate, synchronising_takes_the_mean)
{
    const char *const more[] = {"model.name=resnet20", "data.shape=3,8,8", "device.count=3",
                                "train.batch_per_device=4", NULL};
    struct config cfg;
    struct planted p;

    make_config(&cfg, more);
    cr_assert_eq(trainer_create(&cfg, true, &p.t), ST_OK);
    crew_run(p.t->crew, sync_job, &p);
    for (int r = 0; r < 3; r++) {
        for (size_t i = 0; i < graph_state_n(p.t->ranks[r].graph); i++) {
            cr_assert_eq(graph_state(p.t->ranks[r].graph)[i], (float)(2 * (i % 8)));
        }
    }
    trainer_destroy(p.t);
    config_fini(&cfg);
}
