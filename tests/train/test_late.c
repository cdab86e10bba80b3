/*
 * On devices the host reads the loss of a step while the next one is computed, and devices decide
 * themselves whether there is an update. Nothing of that is seen in the results.
 */
#include "fixture_sealed.h"

#include "train/state.h"

TestSuite(late, .init = scratch_make, .fini = scratch_remove);

enum {
    MAX_SETTINGS = 16
};

/* steps.csv of the run that was made last, without its times: numbers of steps, losses, top-k. */
static char *reports(void)
{
    char name[32], *text, *to;

    (void)snprintf(name, sizeof name, "run%d/steps.csv", n_configs - 1);
    text = slurp(name);
    to = text;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        size_t n = 0, commas = 0;
        for (; line[n] != '\0' && commas < 8; n++) {
            commas += line[n] == ',';
        }
        memmove(to, line, n);
        to[n] = '\n';
        to += n + 1;
    }
    *to = '\0';
    return text;
}

/* The seconds and rates differ; all else is the host's, line by line. */
Test(late, reports_are_those_of_the_host)
{
    static const char *const ways[][MAX_SETTINGS] = {
        {"device.count=1"},
        {"device.count=3", "comm.backend=ring", "data.n_train=97", "train.epochs=4"},
        {"device.count=2", "train.eval_every=1", "log.log_every=4"},
        {"device.count=2", "train.accum_steps=3", "train.batch_per_device=4"},
        {"device.count=2", "comm.order=priority", "train.max_steps=9"},
        {"device.count=3", "comm.sync=reduce-broadcast"},
        {"device.count=2", "train.on_nan=stop", "debug.inject=nan:0@4"},
        {"device.count=2", "train.on_nan=stop", "debug.inject=nan:1@6"},
        {"device.count=2", "train.on_nan=stop", "debug.inject=nan:1@1"},
        {"device.count=2", "train.on_nan=stop", "debug.inject=nan:1@12"},
        {"device.count=3", "train.on_nan=stop", "comm.order=priority", "debug.inject=nan:2@5"},
        {"device.count=3", "train.on_nan=stop", "comm.sync=reduce-broadcast",
         "debug.inject=nan:2@5"},
        {"device.count=2", "train.on_nan=stop", "train.accum_steps=2", "train.batch_per_device=4",
         "debug.inject=nan:1@5"},
        {"device.count=2", "train.on_nan=ignore", "debug.inject=nan:1@5"},
    };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct outcome host = run(ways[i]), sealed;
        char *wanted = reports(), *found;
        sealed = run_sealed(ways[i], i);
        found = reports();
        cr_assert_str_eq(found, wanted, "%s %s: %s instead of %s", ways[i][0], ways[i][1], found,
                         wanted);
        cr_assert(same(&sealed, &host), "%s %s", ways[i][0], ways[i][1]);
        free(wanted);
        free(found);
        free_outcome(&sealed);
        free_outcome(&host);
    }
    cr_assert_eq(sealed_faults(), 0);
}

/* In many orders: a rank must not count votes before they are given, nor after they are gone. */
Test(late, all_ranks_skip_what_one_votes_against)
{
    static const char *const ways[][MAX_SETTINGS] = {
        {"device.count=2", "debug.inject=nan:1@4", "train.epochs=1"},
        {"device.count=4", "debug.inject=nan:3@2", "train.epochs=1", "comm.backend=ring",
         "comm.buckets=layer"},
        {"device.count=3", "debug.inject=nan:2@3", "train.epochs=1", "comm.order=priority",
         "comm.buckets=layer"},
    };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct outcome host = run(ways[i]);
        for (uint64_t seed = 1; seed <= 60; seed++) {
            struct outcome sealed = run_sealed(ways[i], seed);
            cr_assert(same(&sealed, &host), "%s, seed %d", ways[i][1], (int)seed);
            free_outcome(&sealed);
        }
        free_outcome(&host);
    }
    cr_assert_eq(sealed_faults(), 0);
}

static size_t near_waits(const char *way, const char *n_train)
{
    const char *const settings[] = {
        "device.count=2", "train.epochs=1", "comm.buckets=layer", way, n_train, NULL};
    size_t before = sealed_near_waits();
    struct outcome o = run_sealed(settings, 1);

    cr_assert_eq(o.status, ST_OK);
    free_outcome(&o);
    return sealed_near_waits() - before;
}

/* However many steps there are, the host waits for what it has just put there only before the first
 * and after the last one. */
Test(late, no_step_waits_for_the_device)
{
    static const char *const ways[] = {"train.on_nan=stop",   "train.on_nan=ignore",
                                       "comm.order=priority", "comm.sync=reduce-broadcast",
                                       "train.accum_steps=2", "comm.overlap=no"};

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        cr_assert_eq(near_waits(ways[i], "data.n_train=192"),
                     near_waits(ways[i], "data.n_train=96"), "%s", ways[i]);
    }
    /* Where all sums are looked at before an update, each rank waits in each of its steps. */
    cr_assert_geq(near_waits("train.on_nan=skip", "data.n_train=192"),
                  near_waits("train.on_nan=skip", "data.n_train=96") + 2 * 6);
}

Test(late, a_cancelled_run_counts_its_last_step)
{
    for (int pass = 0; pass < 2; pass++) {
        struct config cfg;
        struct trainer *t = NULL;
        struct trainer_summary summary;
        char *text;
        make_config(&cfg, (const char *[]){"device.count=3", NULL});
        cr_assert_eq(pass == 0 ? trainer_create(&cfg, false, &t)
                               : trainer_create_on(&cfg, false, sealed_device(), sealed_ops(), &t),
                     ST_OK);
        trainer_cancel(t, 2);
        cr_assert_eq(trainer_run(t, &summary), ST_CANCELLED);
        cr_assert_eq(summary.steps, 1);
        text = reports();
        cr_assert_eq(count_lines(text, "\n"), 2, "%s", text);
        free(text);
        trainer_destroy(t);
        config_fini(&cfg);
    }
    cr_assert_eq(sealed_faults(), 0);
}

/* The others stop, and nothing is left behind. */
Test(late, a_rank_that_fails_ends_the_run)
{
    const char *const settings[] = {"device.count=3", "debug.inject=fail:1@5", NULL};
    int old = capture_stderr("err");
    struct outcome o = run_sealed(settings, 3);

    release_stderr(old);
    cr_assert_eq(o.status, ST_INTERNAL);
    cr_assert_leq(o.summary.steps, 4);
    cr_assert_geq(o.summary.steps, 3);
    free_outcome(&o);
    cr_assert_eq(sealed_faults(), 0);
}
