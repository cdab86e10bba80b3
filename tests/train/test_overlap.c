/* Sums that come in during the next forward pass, and weights that rank 0 shares out. */
#include "fixture.h"

#include <jansson.h>

TestSuite(overlap, .init = scratch_make, .fini = scratch_remove);

enum {
    MAX_MORE = 12
};

/* 67 images: with four ranks a step in which some have none. */
static struct outcome run_as(const char *backend, int ranks, const char *const *more)
{
    char name[64], count[32];
    const char *all[MAX_MORE] = {"data.n_train=67", "optim.weight_decay=1e-3", name, count};
    size_t n = 4;

    (void)snprintf(name, sizeof name, "comm.backend=%s", backend);
    (void)snprintf(count, sizeof count, "device.count=%d", ranks);
    for (; *more != NULL; more++) {
        all[n++] = *more;
    }
    return run_ok(all);
}

/* The order of service changes no bit, whatever is summed how. */
Test(overlap, priority_gives_the_bits_of_fifo)
{
    static const char *const backends[] = {"central", "onehop", "ring", "mst", "be", "lp"};
    static const char *const variants[][3] = {
        {"train.accum_steps=2", "train.batch_per_device=4", NULL},
        {"debug.verify_every=3", "comm.buckets=layer", NULL},
        {"optim.nesterov=yes", "debug.inject=slow:0@*:1ms", NULL},
        {"train.max_steps=5", "comm.credit_bytes=1K", NULL},
    };

    for (size_t k = 0; k < 6; k++) {
        for (size_t v = 0; v < 4; v++) {
            const int ranks = 1 + (int)(k + v) % 4;
            const char *const fifo[] = {variants[v][0], variants[v][1], "comm.order=fifo",
                                        "optim.fuse=off", NULL};
            const char *const priority[] = {variants[v][0], variants[v][1], "comm.order=priority",
                                            NULL};
            struct outcome a = run_as(backends[k], ranks, fifo);
            struct outcome b = run_as(backends[k], ranks, priority);
            cr_assert_eq(memcmp(a.weights, b.weights, a.n * sizeof(float)), 0, "%s, %d ranks, %s",
                         backends[k], ranks, variants[v][0]);
            cr_assert_eq(a.summary.train_loss, b.summary.train_loss);
            cr_assert_eq(a.summary.test_top1_n, b.summary.test_top1_n);
            free(a.weights);
            free(b.weights);
        }
    }
}

/* Rank 0 updates for all: the same weights up to rounding, equal on all ranks. */
Test(overlap, reduce_broadcast_gives_the_weights_of_allreduce)
{
    static const char *const backends[] = {"central", "mst", "lp", "be"};
    static const char *const variants[][3] = {
        {"train.accum_steps=2", "train.batch_per_device=4", NULL},
        {"debug.verify_every=2", "comm.buckets=layer", NULL},
        {"comm.order=priority", "optim.nesterov=yes", NULL},
        {"comm.overlap=no", "train.max_steps=5", NULL},
    };

    for (size_t k = 0; k < 4; k++) {
        for (size_t v = 0; v < 4; v++) {
            const int ranks = 1 + (int)(k + v) % 4;
            const char *const all[] = {variants[v][0], variants[v][1], "comm.order=fifo",
                                       "optim.fuse=off", NULL};
            const char *const root[] = {variants[v][0], variants[v][1],
                                        "comm.sync=reduce-broadcast", NULL};
            struct outcome a = run_as(backends[k], ranks, all);
            struct outcome b = run_as(backends[k], ranks, root);
            double d = largest_difference(b.weights, a.weights, a.n);
            cr_assert_lt(d, 1e-5, "%s, %d ranks, %s: off by %g", backends[k], ranks, variants[v][0],
                         d);
            cr_assert_eq(a.summary.samples, b.summary.samples);
            free(a.weights);
            free(b.weights);
        }
    }
}

Test(overlap, batch_norms_and_nans_go_along)
{
    static const char *const ways[] = {"comm.order=priority", "comm.sync=reduce-broadcast"};

    for (int k = 0; k < 2; k++) {
        const char *const plain[] = {"model.name=resnet20", "data.shape=3,8,8",  "optim.fuse=off",
                                     "device.count=3",      "train.max_steps=3", NULL};
        const char *const nan[] = {"model.name=resnet20", "data.shape=3,8,8",     ways[k],
                                   "device.count=3",      "debug.inject=nan:1@4", NULL};
        struct outcome want = run_ok(plain), o;
        int old = capture_stderr("log");

        o = run(nan);
        release_stderr(old);
        cr_assert_eq(o.status, ST_NONFINITE, "%s", status_text(o.status));
        cr_assert_lt(largest_difference(o.weights, want.weights, o.n), k == 0 ? 1e-30 : 1e-5,
                     "%s: the weights before the step", ways[k]);
        free(o.weights);
        free(want.weights);
    }
}

Test(overlap, contradictions_are_refused)
{
    static const char *const bad[][3] = {
        {"comm.order=priority", "optim.fuse=on", NULL},
        {"comm.order=priority", "comm.overlap=no", NULL},
        {"comm.order=priority", "train.on_nan=skip", NULL},
        {"comm.sync=reduce-broadcast", "optim.fuse=on", NULL},
        {"comm.sync=reduce-broadcast", "train.on_nan=skip", NULL},
    };

    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        struct config cfg;
        struct trainer *t = NULL;
        char *log;
        int old = capture_stderr("log");

        make_config(&cfg, bad[k]);
        cr_assert_eq(trainer_create(&cfg, false, &t), ST_INPUT, "%s", bad[k][1]);
        release_stderr(old);
        log = slurp("log");
        cr_assert_eq(count_lines(log, "\n"), 1, "%s", log);
        cr_assert_not_null(strstr(log, k < 3 ? "order = priority" : "sync = reduce-broadcast"),
                           "%s", log);
        free(log);
        config_fini(&cfg);
    }
}

/* A rank that is lost while sums of the step before come in. */
Test(overlap, faults_end_the_run)
{
    static const char *const ways[] = {"comm.order=priority", "comm.sync=reduce-broadcast"};
    static const char *const faults[] = {"debug.inject=kill:2@3", "debug.inject=kill:0@3",
                                         "debug.inject=fail:1@3", "debug.inject=skip:1@3",
                                         "debug.inject=stall:1@3:1.5s"};

    for (int k = 0; k < 10; k++) {
        const char *const more[] = {"device.count=3", "comm.timeout_s=1", ways[k / 5],
                                    faults[k % 5], NULL};
        struct config cfg;
        struct trainer *t;
        struct trainer_summary s;
        enum status st;
        char *log, rank[16];
        int old = capture_stderr("log");

        make_config(&cfg, more);
        cr_assert_eq(trainer_create(&cfg, false, &t), ST_OK);
        st = trainer_run(t, &s);
        release_stderr(old);
        log = slurp("log");
        cr_assert_eq(status_exit_code(st), k % 5 == 2 || k % 5 == 3 ? 1 : 4, "%s %s: %s, %s",
                     ways[k / 5], faults[k % 5], status_text(st), log);
        (void)snprintf(rank, sizeof rank, "rank %c", strchr(faults[k % 5], ':')[1]);
        cr_assert_not_null(strstr(log, rank), "%s: %s", faults[k % 5], log);
        cr_assert_leq(s.steps, 3);
        free(log);
        trainer_destroy(t);
        config_fini(&cfg);
    }
}

/* --- hidden and exposed */

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    cr_assert(json_is_number(v), "%s", key);
    return json_number_value(v);
}

static void check_identities(const char *what, const char *file, bool overlap)
{
    char path[128];
    json_error_t e;
    json_t *j, *speed, *buckets;
    double hidden = 0, exposed = 0, seconds;
    size_t b;
    json_t *v;

    (void)snprintf(path, sizeof path, "%s/%s/summary.json", scratch, file);
    j = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    cr_assert_not_null(j, "%s", e.text);
    speed = json_object_get(j, "speed");
    buckets = json_object_get(json_object_get(j, "comm"), "buckets");
    seconds = number(speed, "seconds");
    cr_assert_leq(number(speed, "comm_hidden_s") + number(speed, "comm_exposed_s"),
                  seconds * (1 + 1e-9), "%s", what);
    cr_assert_gt(json_array_size(buckets), 1);
    json_array_foreach(buckets, b, v)
    {
        cr_assert_leq(number(v, "hidden_s") + number(v, "exposed_s"), seconds * (1 + 1e-9));
        cr_assert_leq(number(v, "hidden_s"), number(v, "in_flight_s") * (1 + 1e-9));
        cr_assert_geq(number(v, "hidden_s"), 0);
        hidden += number(v, "hidden_s");
        exposed += number(v, "exposed_s");
    }
    cr_assert_leq(exposed, number(speed, "comm_exposed_s") * (1 + 1e-9), "%s", what);
    cr_assert_geq(hidden * (1 + 1e-9), number(speed, "comm_hidden_s"), "%s", what);
    if (!overlap) {
        cr_assert_eq(hidden, 0, "%s: nothing is hidden without overlap", what);
        cr_assert_gt(exposed + number(speed, "comm_exposed_s"), 0);
    }
    json_decref(j);
}

Test(overlap, hidden_and_exposed_add_up)
{
    static const char *const ways[] = {"comm.order=fifo", "comm.order=priority",
                                       "comm.sync=reduce-broadcast", "comm.overlap=no",
                                       "optim.fuse=off"};

    for (int k = 0; k < 5; k++) {
        const char *const more[] = {"device.count=3", ways[k], "comm.backend=lp", "train.epochs=8",
                                    NULL};
        struct outcome o = run_ok(more);
        char file[32], *csv, *line, *save;
        size_t rows = 0;

        (void)snprintf(file, sizeof file, "run%d", k);
        check_identities(ways[k], file, k != 3);
        free(o.weights);
        (void)snprintf(file, sizeof file, "run%d/buckets.csv", k);
        csv = slurp(file);
        line = strtok_r(csv, "\n", &save);
        cr_assert_str_eq(line, "bucket,layers,bytes,backend,steps,in_flight_s,hidden_s,exposed_s");
        while ((line = strtok_r(NULL, "\n", &save)) != NULL) {
            size_t bucket, bytes, steps;
            double flight, hidden, exposed;
            cr_assert_eq(sscanf(line, "%zu,\"%*[^\"]\",%zu,lp,%zu,%lf,%lf,%lf", &bucket, &bytes,
                                &steps, &flight, &hidden, &exposed),
                         6, "%s", line);
            cr_assert_eq(bucket, rows++);
            cr_assert_leq(hidden, flight * (1 + 1e-6));
        }
        cr_assert_gt(rows, 1);
        free(csv);
    }
}
