/* How a training ends when it does not end by itself. */
#include "fixture.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "train/inject.h"
#include "train/state.h"

TestSuite(stop, .init = scratch_make, .fini = scratch_remove);

/* Run with stderr kept in the file `log` of the scratch folder. */
static struct outcome run_logged(const char *const *more, char **log)
{
    int old = capture_stderr("log");
    struct outcome o = run(more);

    release_stderr(old);
    *log = slurp("log");
    return o;
}

Test(stop, a_rate_that_explodes)
{
    static const char *const fuse[] = {"optim.fuse=on", "optim.fuse=off"};

    for (int k = 0; k < 2; k++) {
        const char *const more[] = {"optim.lr=1e30", "device.count=2", "train.batch_per_device=8",
                                    fuse[k], NULL};
        char *log;
        struct outcome o = run_logged(more, &log);

        cr_assert_eq(o.status, ST_NONFINITE);
        cr_assert_eq(status_exit_code(o.status), 3);
        cr_assert_eq(count_lines(log, "\n"), 1, "one line: %s", log);
        cr_assert_not_null(strstr(log, "step "), "%s", log);
        cr_assert_not_null(strstr(log, "layer "), "%s", log);
        free(log);
        free(o.weights);
    }
}

/* Rank 1 meets a NaN in step 3: all ranks keep the weights of step 2. */
Test(stop, a_nan_on_one_rank_stops_all_before_the_update)
{
    static const char *const fuse[] = {"optim.fuse=on", "optim.fuse=off"};

    for (int k = 0; k < 2; k++) {
        const char *const two[] = {"device.count=3", "train.batch_per_device=8",
                                   "train.max_steps=2", fuse[k], NULL};
        const char *const bad[] = {"device.count=3", "train.batch_per_device=8",
                                   "debug.inject=nan:1@3", fuse[k], NULL};
        struct outcome want = run_ok(two);
        char *log, name[32], *csv;
        struct outcome o = run_logged(bad, &log);

        cr_assert_eq(o.status, ST_NONFINITE);
        cr_assert_not_null(strstr(log, "step 3 on rank 1 of 3"), "%s", log);
        cr_assert_eq(memcmp(o.weights, want.weights, o.n * sizeof(float)), 0);
        cr_assert_eq(o.summary.steps, 3);
        (void)snprintf(name, sizeof name, "run%d/steps.csv", 2 * k + 1);
        csv = slurp(name);
        cr_assert_not_null(strstr(csv, ",nan,"), "%s", csv);
        cr_assert_null(strstr(csv, "-nan"), "%s", csv);
        (void)snprintf(name, sizeof name, "run%d/summary.json", 2 * k + 1);
        free(csv);
        csv = slurp(name);
        cr_assert_not_null(strstr(csv, "\"train_loss\": null"), "%s", csv);
        cr_assert_not_null(strstr(csv, "non-finite loss"), "%s", csv);
        free(csv);
        free(log);
        free(o.weights);
        free(want.weights);
    }
}

Test(stop, a_spoilt_weight_of_one_rank)
{
    const char *const more[] = {"device.count=2", "train.batch_per_device=8",
                                "debug.inject=weight:1@3", NULL};
    char *log;
    int old = capture_stderr("log");
    struct config cfg;
    struct trainer *t;
    struct trainer_summary s;

    make_config(&cfg, more);
    cr_assert_eq(trainer_create(&cfg, false, &t), ST_OK);
    cr_assert_eq(trainer_run(t, &s), ST_NONFINITE);
    release_stderr(old);
    log = slurp("log");
    cr_assert_not_null(strstr(log, "step 3 on rank 1 of 2"), "%s", log);
    cr_assert_eq(s.steps, 3);
    free(log);
    trainer_destroy(t);
    config_fini(&cfg);
}

Test(stop, skipping_goes_on_with_equal_finite_weights)
{
    static const char *const models[] = {"model.name=mlp", "model.name=resnet20"};
    static const char *const shapes[] = {"data.shape=1,6,6", "data.shape=3,8,8"};

    for (int k = 0; k < 2; k++) {
        const char *const more[] = {"device.count=2",
                                    "train.batch_per_device=8",
                                    "debug.inject=nan:1@3,nan:0@5",
                                    "train.on_nan=skip",
                                    "optim.fuse=off",
                                    models[k],
                                    shapes[k],
                                    NULL};
        struct outcome o = run_ok(more);
        char name[32], *json;

        for (size_t i = 0; i < o.n; i++) {
            cr_assert(isfinite(o.weights[i]), "weight %zu", i);
        }
        cr_assert_eq(o.summary.steps, 12);
        cr_assert(isfinite(o.summary.test_loss), "the running statistics are clean");
        (void)snprintf(name, sizeof name, "run%d/summary.json", k);
        json = slurp(name);
        cr_assert_not_null(strstr(json, "\"skipped_steps\": 2"), "%s", json);
        free(json);
        free(o.weights);
    }
}

Test(stop, ignoring_goes_on)
{
    const char *const more[] = {"device.count=2", "train.batch_per_device=8",
                                "debug.inject=nan:1@3", "train.on_nan=ignore", NULL};
    struct outcome o = run_ok(more);

    cr_assert_eq(o.summary.steps, 12);
    cr_assert(isnan(o.weights[0]) || isnan(o.summary.train_loss));
    free(o.weights);
}

/* One rank gives up in the middle: all stop, the cause is named once. */
Test(stop, a_failing_rank_stops_all)
{
    static const char *const backends[] = {"comm.backend=central", "comm.backend=onehop",
                                           "comm.backend=ring"};
    static const char *const overlap[] = {"comm.overlap=yes", "comm.overlap=no"};
    static const char *const fuse[] = {"optim.fuse=on", "optim.fuse=off"};

    for (int k = 0; k < 12; k++) {
        const char *const more[] = {"device.count=4",
                                    "train.batch_per_device=4",
                                    "debug.inject=fail:2@3",
                                    backends[k % 3],
                                    overlap[k / 3 % 2],
                                    fuse[k / 6],
                                    NULL};
        double from = clock_now_s();
        char *log;
        struct outcome o = run_logged(more, &log);

        cr_assert_eq(o.status, ST_INTERNAL, "%s", status_text(o.status));
        cr_assert_lt(clock_now_s() - from, 15);
        cr_assert_eq(o.summary.steps, 2);
        cr_assert_eq(count_lines(log, "injected failure on rank 2, step 3"), 1, "%s", log);
        cr_assert_eq(count_lines(log, "rank 2"), 1, "%s", log);
        cr_assert_eq(count_lines(log, "\n"), 1, "only the cause: %s", log);
        free(log);
        free(o.weights);
    }
}

Test(stop, a_stalled_rank_is_named_after_the_timeout)
{
    static const char *const fuse[] = {"optim.fuse=on", "optim.fuse=off"};

    for (int k = 0; k < 2; k++) {
        const char *const more[] = {"device.count=3",
                                    "train.batch_per_device=4",
                                    "debug.inject=stall:1@2:1.5s",
                                    "comm.timeout_s=0.5",
                                    fuse[k],
                                    NULL};
        char *log;
        struct outcome o = run_logged(more, &log);

        cr_assert_eq(o.status, ST_TIMEOUT, "%s", status_text(o.status));
        cr_assert_eq(status_exit_code(o.status), 4);
        cr_assert_not_null(strstr(log, "rank 1"), "%s", log);
        cr_assert_eq(o.summary.steps, 1);
        free(log);
        free(o.weights);
    }
}

static void *cancel_soon(void *trainer)
{
    struct timespec pause = {0, 30000000};

    (void)nanosleep(&pause, NULL);
    trainer_cancel(trainer, 15);
    return NULL;
}

Test(stop, a_signal_ends_the_step_on_all_ranks)
{
    const char *const more[] = {"device.count=3", "train.batch_per_device=8",
                                "train.max_steps=100000000", "log.log_every=1000", NULL};
    struct config cfg;
    struct trainer *t;
    struct trainer_summary s;
    pthread_t thread;
    float *w[2];
    char *json;

    make_config(&cfg, more);
    cr_assert_eq(trainer_create(&cfg, false, &t), ST_OK);
    cr_assert_eq(pthread_create(&thread, NULL, cancel_soon, t), 0);
    cr_assert_eq(trainer_run(t, &s), ST_CANCELLED);
    pthread_join(thread, NULL);
    cr_assert(s.steps > 0 && s.steps < 100000000);
    cr_assert_eq(s.samples / 24, s.steps, "only whole steps");
    for (int r = 0; r < 2; r++) {
        w[r] = calloc(trainer_n_weights(t), sizeof(float));
        cr_assert_eq(trainer_weights(t, 2 * r, w[r], trainer_n_weights(t)), ST_OK);
    }
    cr_assert_eq(memcmp(w[0], w[1], trainer_n_weights(t) * sizeof(float)), 0);
    json = slurp("run0/summary.json");
    cr_assert_not_null(strstr(json, "cancelled"), "%s", json);
    free(json);
    free(w[0]);
    free(w[1]);
    trainer_destroy(t);
    config_fini(&cfg);
}

Test(stop, a_signal_before_the_first_step_leaves_one_step)
{
    const char *const more[] = {"device.count=2", "train.batch_per_device=8", NULL};
    struct config cfg;
    struct trainer *t;
    struct trainer_summary s;

    make_config(&cfg, more);
    cr_assert_eq(trainer_create(&cfg, false, &t), ST_OK);
    trainer_cancel(t, 2);
    cr_assert_eq(trainer_run(t, &s), ST_CANCELLED);
    cr_assert_eq(s.steps, 1);
    trainer_destroy(t);
    config_fini(&cfg);
}

Test(stop, replicas_that_drift_apart_are_found)
{
    const char *const more[] = {"device.count=3", "optim.fuse=off", "debug.verify_every=2", NULL};
    struct outcome o = run_ok(more);
    struct config cfg;
    struct trainer *t;
    struct trainer_summary s;
    char *log;
    int old;

    free(o.weights);
    make_config(&cfg, more);
    cr_assert_eq(trainer_create(&cfg, false, &t), ST_OK);
    t->ranks[2].momentum[0] += 1; /* its weights are still those of the others */
    old = capture_stderr("log");
    cr_assert_eq(trainer_run(t, &s), ST_INTERNAL);
    release_stderr(old);
    log = slurp("log");
    cr_assert_not_null(strstr(log, "ranks 0 and 2 hold different weights, step 2"), "%s", log);
    cr_assert_eq(s.steps, 2);
    free(log);
    trainer_destroy(t);
    config_fini(&cfg);
}

Test(stop, faults_are_read_strictly)
{
    static const char *const bad[] = {
        "nan",          "nan:1",      "nan:3@1",           "nan:0@0",       "nun:0@1",
        "nan:x@1",      "nan:0@1x",   "fail:0@1,,nan:0@2", "nan:-1@2",      ":0@1",
        "nan:0@1,oops", "nan:0@1,",   "kill:0@1:5s",       "slow:0@1",      "slow:0@1:",
        "slow:0@1:5",   "slow:0@1:s", "slow:0@1:-1s",      "slow:0@1:1e9s", "stall:0@1:5m",
        "nan@0:1",      "kill:0@**",  "kill:0@",           "slow:0@*:ms",
    };
    struct inject i = {.n = 7};
    int old = capture_stderr("log");

    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        cr_assert_eq(inject_parse(bad[k], 3, &i), ST_INPUT, "%s", bad[k]);
        cr_assert_eq(i.n, 7, "left alone");
    }
    release_stderr(old);
    cr_assert_eq(inject_parse("", 3, &i), ST_OK);
    cr_assert_eq(i.n, 0);
    cr_assert_eq(inject_parse("nan:2@1, stall:0@10,slow:1@*:5ms, slow:1@4:0.5s", 3, &i), ST_OK);
    cr_assert_eq(i.n, 4);
    cr_assert(inject_due(&i, INJECT_NAN, 2, 0));
    cr_assert_not(inject_due(&i, INJECT_NAN, 1, 0));
    cr_assert(isinf(inject_pause_s(&i, 0, 9)));
    cr_assert_eq(inject_pause_s(&i, 0, 10), 0);
    cr_assert_float_eq(inject_pause_s(&i, 1, 77), 0.005, 1e-12);
    cr_assert_float_eq(inject_pause_s(&i, 1, 3), 0.505, 1e-12);
    cr_assert(inject_has(&i, INJECT_SLOW));
    cr_assert_not(inject_has(&i, INJECT_KILL));
}
