/* What the first steps find out, and that it changes no result. */
#include "fixture.h"

#include "tests/caught.h"
#include "train/state.h"

TestSuite(survey, .init = scratch_make, .fini = scratch_remove);

/* Run with what it prints kept in `*text`. */
static struct outcome run_printed(const char *const *more, char **text)
{
    struct caught c = caught_begin(STDOUT_FILENO);
    struct outcome o = run_ok(more);
    const size_t n_bytes = 1 << 16;

    *text = malloc(n_bytes);
    cr_assert_not_null(*text);
    caught_end(c, *text, n_bytes);
    return o;
}

/* The value of the printed line "to repeat   [comm] `key` = ...", as `comm.key=...` in `out`. */
static void find_pin(const char *text, const char *key, char *out, size_t n_bytes)
{
    char mark[64];
    const char *at;

    (void)snprintf(mark, sizeof mark, "to repeat         [comm] %s = ", key);
    at = strstr(text, mark);
    cr_assert_not_null(at, "%s in %s", mark, text);
    at += strlen(mark);
    (void)snprintf(out, n_bytes, "comm.%s=%.*s", key, (int)strcspn(at, "\n"), at);
}

static const char *const ways[] = {"comm.sync=allreduce", "optim.fuse=off", "comm.order=priority",
                                   "comm.sync=reduce-broadcast", "comm.overlap=no"};
static const char *const backends[] = {"comm.backend=central", "comm.backend=lp",
                                       "comm.backend=onehop", "comm.backend=mst",
                                       "comm.backend=ring"};

/* With chunks of any size, found or given, the bits are those without. */
Test(survey, chunks_are_found_and_change_no_bit)
{
    for (size_t k = 0; k < 5; k++) {
        const char *const root = k == 3 ? "comm.backend=mst" : backends[k];
        const char *plain[] = {"device.count=3",
                               "train.epochs=20",
                               "model.hidden=64",
                               "comm.buckets=one",
                               ways[k],
                               root,
                               NULL,
                               NULL};
        struct outcome want, got, again;
        char *text, pin[CHUNK_RULES_BYTES];

        want = run_ok(plain);
        plain[6] = "comm.chunks=tune";
        got = run_printed(plain, &text);
        find_pin(text, "chunks", pin, sizeof pin);
        plain[6] = pin;
        again = run_ok(plain);
        cr_assert_eq(memcmp(got.weights, want.weights, want.n * sizeof(float)), 0, "%s", ways[k]);
        cr_assert_eq(memcmp(again.weights, want.weights, want.n * sizeof(float)), 0, "%s", pin);
        free(text);
        free(want.weights);
        free(got.weights);
        free(again.weights);
    }
}

static size_t count_rows(const char *name)
{
    char *csv = slurp(name);
    size_t n = count_lines(csv, "\n");

    free(csv);
    return n - 1;
}

/* After the first steps there are as many buckets as the key says, and the key gives them at once.
 */
Test(survey, layers_are_merged_alike_on_all_ranks_and_can_be_pinned)
{
    for (size_t k = 0; k < 5; k++) {
        const char *more[] = {"device.count=2",
                              "train.epochs=4",
                              "model.hidden=16,16,16,16,16",
                              "comm.buckets=merge",
                              ways[k],
                              backends[k],
                              NULL,
                              NULL};
        struct outcome found, pinned;
        char *text, pin[256], name[64];
        size_t n = 1;

        found = run_printed(more, &text); /* run() compares the ranks' weights */
        find_pin(text, "bucket_layers", pin, sizeof pin);
        for (const char *c = pin; *c != '\0'; c++) {
            n += *c == ',';
        }
        (void)snprintf(name, sizeof name, "run%zu/buckets.csv", 2 * k);
        cr_assert_eq(count_rows(name), n, "%s", pin);
        more[6] = pin;
        pinned = run_ok(more);
        (void)snprintf(name, sizeof name, "run%zu/buckets.csv", 2 * k + 1);
        cr_assert_eq(count_rows(name), n, "%s", pin);
        cr_assert_lt(distance(pinned.weights, found.weights, found.n), 1e-5);
        cr_assert_eq(found.summary.steps, pinned.summary.steps);
        free(text);
        free(found.weights);
        free(pinned.weights);
    }
}

/* What planted measurements lead to, and whether it is what the rule says of them. */
static void conclude(double start_s, double s_per_byte, double backward_s, size_t n_want)
{
    const char *const more[] = {"device.count=2", "comm.buckets=merge", "model.hidden=32,16,8",
                                NULL};
    struct merge_layer layers[4];
    struct merge_cost cost = {start_s, s_per_byte};
    struct merge_step work[5];
    struct config cfg;
    struct trainer *t;
    struct survey *s;
    bool ends[4];
    size_t n = 0, n_merged = 0;

    make_config(&cfg, more);
    cr_assert_eq(trainer_create(&cfg, false, &t), ST_OK);
    s = t->survey;
    cr_assert_eq(t->n_buckets, 4, "at first a bucket a layer");
    s->n_steps = SURVEY_COLD_STEPS + SURVEY_LAYER_STEPS;
    for (size_t b = 0; b < 4; b++) {
        const size_t bytes = t->buckets[b].n * sizeof(float);
        s->message_s[b] = start_s + (double)bytes * s_per_byte;
        s->layer_s[0][2 * b] = backward_s * (double)(b + 1); /* weight and bias */
        s->layer_s[1][2 * b] = backward_s * 0.5;
        s->layer_s[0][2 * b + 1] = s->layer_s[1][2 * b + 1] = 1e9;
        layers[b] = (struct merge_layer){backward_s * (double)(b + 1), bytes};
    }
    cr_assert(survey_conclude(t, false), "something changes");
    cr_assert_not(s->on, "nothing is left to find");
    cr_assert_float_eq(s->cost.start_s, start_s, 1e-6 * start_s);
    cr_assert_float_eq(s->cost.s_per_byte, s_per_byte, 1e-6 * s_per_byte);
    cr_assert_eq(merge_best(layers, 4, &cost, work, ends), n_want);
    cr_assert_eq(t->comm_cfg.bucket_layers.n, n_want);
    for (size_t i = 0; i < 4; i++) {
        n_merged++;
        if (ends[i]) {
            cr_assert_eq(t->comm_cfg.bucket_layers.v[n++], (double)n_merged, "layer %zu", i);
            n_merged = 0;
        }
    }
    cr_assert_eq(replica_recut(t), ST_OK);
    cr_assert_eq(t->n_buckets, n_want);
    trainer_destroy(t);
    config_fini(&cfg);
}

Test(survey, layers_are_merged_by_the_rule_for_the_measured_costs)
{
    conclude(1e-3, 1e-9, 1e-5, 1); /* starting costs far more than waiting */
    conclude(1e-6, 1e-9, 1e-3, 4); /* each sum is in long before the next layer is done */
    conclude(1e-4, 1e-8, 4e-5, 3); /* the first two are worth it, the later ones take too long */
}

/* With a trace, whose buckets get other names on the way. */
Test(survey, a_run_that_ends_early_uses_what_it_has)
{
    static const char *const steps[] = {"train.max_steps=1", "train.max_steps=2",
                                        "train.max_steps=3", "train.max_steps=7"};

    for (size_t k = 0; k < 4; k++) {
        char trace[128];
        const char *const more[] = {"device.count=2",   steps[k], "comm.buckets=merge",
                                    "comm.chunks=tune", trace,    "log.trace_steps=100",
                                    "comm.backend=lp",  NULL};
        struct outcome o;
        (void)snprintf(trace, sizeof trace, "log.trace=%s/trace.json", scratch);
        o = run_ok(more);
        cr_assert_eq(o.summary.steps, strtoull(strchr(steps[k], '=') + 1, NULL, 10));
        free(o.weights);
    }
}

Test(survey, what_does_not_fit_is_refused)
{
    static const char *const bad[][4] = {
        {"comm.buckets=merge", "comm.bucket_layers=1,1", "deals out 2 layers, the network has 3"},
        {"comm.buckets=merge", "comm.bucket_layers=4", "deals out 4 layers, the network has 3"},
        {"comm.buckets=size", "comm.bucket_layers=3", "buckets = size, use merge"},
        {"comm.chunk_bytes=4K", "comm.chunks=tune", "both given"},
        {"comm.chunk_bytes=4K", "comm.chunks=1M:4K", "both given"},
        {"comm.buckets=one", "comm.chunks=1M", "bad sizes '1M'"},
        {"comm.buckets=one", "comm.chunks=1M:0", "bad sizes '1M:0'"},
        {"comm.buckets=one", "comm.chunks=1M:4K,", "bad sizes '1M:4K,'"},
        {"comm.buckets=one", "comm.chunks=1M:4K, 64K:4K", "bad sizes ' 64K:4K'"},
        {"comm.buckets=one", "comm.chunks=1M:4K, x:4K", "bad sizes ' x:4K'"},
        {"comm.buckets=one", "comm.chunks=Tune", "bad sizes 'Tune'"},
    };

    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        const char *const more[] = {bad[k][0], bad[k][1], "model.hidden=16,16", NULL};
        struct config cfg;
        struct trainer *t = NULL;
        char *log;
        int old = capture_stderr("log");

        make_config(&cfg, more);
        cr_assert_eq(trainer_create(&cfg, false, &t), ST_INPUT, "%s", bad[k][1]);
        release_stderr(old);
        log = slurp("log");
        cr_assert_eq(count_lines(log, "\n"), 1, "%s", log);
        cr_assert_not_null(strstr(log, bad[k][2]), "%s", log);
        free(log);
        config_fini(&cfg);
    }
}

/* A rank that is lost in a step that is measured. */
Test(survey, faults_end_the_run)
{
    static const char *const faults[] = {"debug.inject=kill:1@3", "debug.inject=fail:2@5",
                                         "debug.inject=stall:0@4:1.5s"};

    for (size_t k = 0; k < 3; k++) {
        const char *const more[] = {
            "device.count=3",     "comm.timeout_s=1", faults[k], "comm.chunks=tune",
            "comm.buckets=merge", "train.epochs=20",  NULL};
        struct config cfg;
        struct trainer *t;
        struct trainer_summary s;
        int old = capture_stderr("log");

        make_config(&cfg, more);
        cr_assert_eq(trainer_create(&cfg, false, &t), ST_OK);
        cr_assert_eq(status_exit_code(trainer_run(t, &s)), k == 1 ? 1 : 4);
        release_stderr(old);
        trainer_destroy(t);
        config_fini(&cfg);
    }
}

/* Whatever allocation of a run fails, also while buckets are cut anew, the run ends in order and
 * says why. Some are done without, so that one success is not yet the last. */
Test(survey, any_allocation_of_a_run_may_fail)
{
    const char *const more[] = {"device.count=2",    "comm.buckets=merge",
                                "comm.chunks=tune",  "comm.sync=reduce-broadcast",
                                "train.max_steps=8", NULL};
    size_t n_failed = 0, n_fine = 0;

    for (size_t k = 1; n_fine < 10; k++) {
        const size_t live = mem_live();
        struct config cfg;
        struct trainer *t;
        struct trainer_summary s;
        enum status st;
        char *log;
        int old = capture_stderr("log");

        make_config(&cfg, more);
        cr_assert_eq(trainer_create(&cfg, false, &t), ST_OK);
        mem_fail_at(k);
        st = trainer_run(t, &s);
        mem_fail_at(0);
        release_stderr(old);
        log = slurp("log");
        cr_assert(st == ST_OK || st == ST_NOMEM, "failure %zu: %s", k, status_text(st));
        cr_assert_eq(strstr(log, "no memory") != NULL, st == ST_NOMEM, "failure %zu: %s", k, log);
        n_fine = st == ST_OK ? n_fine + 1 : 0;
        n_failed += st != ST_OK;
        free(log);
        trainer_destroy(t);
        config_fini(&cfg);
        cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
    }
    cr_assert_gt(n_failed, 0);
}
