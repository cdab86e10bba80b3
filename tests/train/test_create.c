/* Building a trainer: what is refused, what is described, and what happens without memory. */
#include "fixture.h"

TestSuite(create, .init = scratch_make, .fini = scratch_remove);

static enum status create(const char *const *more)
{
    struct config cfg;
    struct trainer *t = NULL;
    enum status st;

    make_config(&cfg, more);
    st = trainer_create(&cfg, false, &t);
    if (st == ST_OK) {
        trainer_destroy(t);
    }
    config_fini(&cfg);
    return st;
}

Test(create, a_step_larger_than_the_data_is_refused)
{
    static const char *const cases[][5] = {
        {"data.n_train=5", "device.count=7", "train.batch_per_device=1", NULL},
        {"data.n_train=16", "device.count=2", "train.batch_per_device=32", "data.drop_last=yes",
         NULL},
        {"data.n_train=47", "device.count=2", "train.batch_per_device=8", "train.accum_steps=3",
         NULL},
    };
    static const char *const numbers[][3] = {
        {" 5 ", " 1 ", " 7 "}, {" 16 ", " 32 ", " 2 "}, {" 47 ", " 8 ", " 3 "}};

    for (size_t i = 0; i < 3; i++) {
        int old = capture_stderr("log");
        enum status st = create(cases[i]);
        char *log;
        release_stderr(old);
        log = slurp("log");
        cr_assert_eq(st, ST_INPUT);
        cr_assert_eq(count_lines(log, "\n"), 1, "%s", log);
        for (int k = 0; k < 3; k++) {
            cr_assert_not_null(strstr(log, numbers[i][k]), "%s in %s", numbers[i][k], log);
        }
        free(log);
    }
}

Test(create, bad_input_leaves_no_run_directory)
{
    static const char *const bad[] = {
        "model.name=lenett",        "comm.backend=rign",    "comm.topology=/none/such.topo",
        "debug.inject=nan@9:1",     "debug.inject=nan:9@1", "data.n_train=3",
        "device.tuning=/none/such", "data.dataset=idx"};
    static const char *const files[] = {"data.train_images=none", "data.train_labels=none",
                                        "data.test_images=none", "data.test_labels=none"};
    int old = capture_stderr("log");

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const bool idx = strcmp(bad[i], "data.dataset=idx") == 0;
        const char *const more[] = {
            bad[i], idx ? "data.shape=" : NULL, files[0], files[1], files[2], files[3], NULL};
        char path[128];
        cr_assert_eq(status_exit_code(create(more)), 2, "%s", bad[i]);
        (void)snprintf(path, sizeof path, "%s/run%zu", scratch, i);
        cr_assert_neq(access(path, F_OK), 0, "%s", bad[i]);
    }
    release_stderr(old);
}

/* The text of trainer_describe. */
static char *describe(const char *const *more)
{
    struct config cfg;
    struct trainer *t = NULL;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    make_config(&cfg, more);
    cr_assert_eq(trainer_create(&cfg, true, &t), ST_OK);
    trainer_describe(t, f);
    (void)fclose(f);
    trainer_destroy(t);
    config_fini(&cfg);
    return text;
}

/* The number after `key` at the start of a line. */
static long number(const char *text, const char *key)
{
    char line[64];
    const char *at;

    (void)snprintf(line, sizeof line, "\n%s ", key);
    at = strstr(text, line);
    cr_assert_not_null(at, "%s in %s", key, text);
    return strtol(at + strlen(line), NULL, 10);
}

Test(create, the_table_multiplies_out)
{
    static const int ranks[] = {1, 2, 4};

    for (int k = 0; k < 3; k++) {
        char count[32];
        const char *const more[] = {count,
                                    "train.accum_steps=2",
                                    "train.batch_per_device=5",
                                    "train.max_steps=7",
                                    "optim.lr=0.125",
                                    NULL};
        char *text;
        long batch, accum, global, per_epoch;
        (void)snprintf(count, sizeof count, "device.count=%d", ranks[k]);
        text = describe(more);
        batch = number(text, "batch per device ");
        accum = number(text, "accumulation ");
        global = number(text, "global batch ");
        per_epoch = number(text, "steps per epoch ");
        cr_assert_eq(batch, 5);
        cr_assert_eq(accum, 2);
        cr_assert_eq(global, batch * accum * ranks[k]);
        cr_assert_eq(per_epoch, (96 + global - 1) / global);
        cr_assert_eq(number(text, "steps "), 7);
        cr_assert_not_null(strstr(text, "0.125, fixed"), "the rate is not multiplied: %s", text);
        cr_assert_not_null(strstr(text, "1 thread"), "%s", text);
        free(text);
    }
}

Test(create, images_seen_are_told_when_the_steps_are_fixed)
{
    const char *const one[] = {"train.max_steps=10", "train.batch_per_device=8", "device.count=1",
                               NULL};
    const char *const two[] = {"train.max_steps=10", "train.batch_per_device=8", "device.count=2",
                               NULL};
    char *a = describe(one), *b = describe(two);

    cr_assert_not_null(strstr(a, "10, 80 images"), "%s", a);
    cr_assert_not_null(strstr(b, "10, 160 images"), "%s", b);
    free(a);
    free(b);
}

Test(create, the_rate_is_multiplied_only_when_asked_to)
{
    const char *const more[] = {"optim.scale_lr=yes", "device.count=4", "train.batch_per_device=8",
                                "optim.lr=0.125", NULL};
    char *text = describe(more);

    cr_assert_not_null(strstr(text, "0.5, fixed, multiplied by the number of devices"), "%s", text);
    free(text);
}

Test(create, a_dry_run_writes_nothing)
{
    const char *const more[] = {"device.count=2", NULL};
    char path[128];

    free(describe(more));
    (void)snprintf(path, sizeof path, "%s/run0", scratch);
    cr_assert_neq(access(path, F_OK), 0);
}

Test(create, any_allocation_may_fail)
{
    static const char *const how[][4] = {
        {"device.count=2", "optim.fuse=on", "train.batch_per_device=8", NULL},
        {"device.count=2", "optim.fuse=off", "train.batch_per_device=8", NULL},
        {"device.count=2", "comm.buckets=merge", "comm.chunks=tune", NULL},
        {"device.count=2", "train.accum_steps=2", "train.batch_per_device=4", NULL},
    };

    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        struct config cfg;
        size_t live, n_fine = 0; /* some are done without, so one success is not the last */
        int old = capture_stderr("log");

        cr_assert_eq(chdir(scratch), 0); /* where each attempt may make a run directory */
        make_config(&cfg, how[i]);
        set(&cfg, "train.output=");
        live = mem_live();
        for (size_t k = 1; n_fine < 5; k++) {
            struct trainer *t = NULL;
            enum status st;
            mem_fail_at(k);
            st = trainer_create(&cfg, false, &t);
            mem_fail_at(0);
            cr_assert(st == ST_OK || st == ST_NOMEM, "failure %zu: %s", k, status_text(st));
            n_fine = st == ST_OK ? n_fine + 1 : 0;
            trainer_destroy(t);
            cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
            cr_assert_lt(k, 100000);
        }
        release_stderr(old);
        config_fini(&cfg);
    }
}

/* What needs the sums, or weights of its own on every device, and what the start says about it. */
Test(create, an_update_inside_the_reduction_or_why_not)
{
    static const char *const cases[][3] = {
        {"device.count=2", NULL, NULL},
        {"device.count=1", NULL, NULL},
        {"debug.verify_every=5", "verify_every", NULL},
        {"train.on_nan=skip", "on_nan = skip", NULL},
        {"comm.fabric=emulate", "fabric = emulate", NULL},
        {"comm.order=priority", "order = priority", NULL},
        {"comm.sync=reduce-broadcast", "sync = reduce-broadcast", NULL},
        {"debug.inject=weight:0@3", "inject = weight", NULL},
    };

    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *const asked[] = {cases[k][0], "optim.fuse=on", NULL};
        const char *const left[] = {cases[k][0], NULL};
        struct config cfg;
        struct trainer *t = NULL;
        char *text = NULL, *log;
        size_t n;
        int old;
        FILE *f;

        make_config(&cfg, left);
        cr_assert_eq(trainer_create(&cfg, true, &t), ST_OK);
        f = open_memstream(&text, &n);
        trainer_describe(t, f);
        (void)fclose(f);
        cr_assert_eq(strstr(text, ", updated where the sums arise") != NULL, cases[k][1] == NULL,
                     "%s: %s", cases[k][0], text);
        cr_assert(cases[k][1] == NULL || strstr(text, cases[k][1]) != NULL, "%s", text);
        free(text);
        trainer_destroy(t);
        config_fini(&cfg);
        t = NULL;
        old = capture_stderr("log");
        make_config(&cfg, asked);
        cr_assert_eq(trainer_create(&cfg, true, &t), cases[k][1] == NULL ? ST_OK : ST_INPUT);
        release_stderr(old);
        log = slurp("log");
        cr_assert_eq(count_lines(log, "\n"), cases[k][1] == NULL ? 0 : 1, "%s", log);
        cr_assert(cases[k][1] == NULL || strstr(log, cases[k][1]) != NULL, "%s", log);
        free(log);
        trainer_destroy(t);
        config_fini(&cfg);
    }
}

/* What is wrong with the communication is said before algorithms are timed. */
Test(create, a_backend_that_does_not_fit_is_found_at_once)
{
    static const char *const bad[] = {"comm.backend=rign", "comm.plan=none.json",
                                      "comm.backend=nccl", "comm.chunks=4K"};

    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        const char *const more[] = {"model.name=lenet", "data.shape=1,28,28", "device.count=2",
                                    bad[k], NULL};
        char *log;
        int old = capture_stderr("log");

        cr_assert_eq(status_exit_code(create(more)), 2, "%s", bad[k]);
        release_stderr(old);
        log = slurp("log");
        cr_assert_eq(count_lines(log, "\n"), 1, "%s", log);
        cr_assert_not_null(strstr(log, strchr(bad[k], '=') + 1), "%s", log);
        free(log);
    }
}

/* A key that does nothing here is not passed over in silence. */
Test(create, credit_without_links_is_told)
{
    static const char *const fabrics[] = {"comm.fabric=memory", "comm.fabric=emulate"};

    for (size_t k = 0; k < 2; k++) {
        const char *const more[] = {"device.count=2", "comm.credit_bytes=64K", fabrics[k], NULL};
        char *log;
        int old = capture_stderr("log");

        cr_assert_eq(create(more), ST_OK);
        release_stderr(old);
        log = slurp("log");
        cr_assert_eq(count_lines(log, "credit_bytes has no effect"), k == 0, "%s", log);
        free(log);
    }
}
