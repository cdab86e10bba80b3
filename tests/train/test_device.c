/*
 * Training on devices whose memory the host cannot touch and whose streams run late and in any
 * order: the same bits as on the host.
 */
#include "fixture_sealed.h"

TestSuite(device, .init = scratch_make, .fini = scratch_remove);

enum {
    MAX_SETTINGS = 16
};

/* Issued call by call, and as graphs that are replayed. */
static void compare(const char *const *settings)
{
    const char *by_call[MAX_SETTINGS + 2] = {"device.graph=off"};
    struct outcome host = run(settings);

    for (size_t i = 0; settings[i] != NULL; i++) {
        by_call[i + 1] = settings[i];
    }

    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct outcome sealed = run_sealed(seed == 1 ? settings : by_call, seed);
        cr_assert_eq(sealed.summary.graphs > 0, seed == 1, "%s %s", settings[0], settings[1]);
        cr_assert(same(&sealed, &host), "%s %s %s: status %d and %d, loss %.9g and %.9g",
                  settings[0], settings[1], settings[2], (int)sealed.status, (int)host.status,
                  sealed.summary.train_loss, host.summary.train_loss);
        free_outcome(&sealed);
    }
    cr_assert_eq(sealed_faults(), 0);
    free_outcome(&host);
}

Test(device, every_backend_and_number_of_ranks_gives_the_bits_of_the_host)
{
    static const char *const backends[] = {"central", "central-host", "onehop", "mst",     "be",
                                           "ring",    "lp",           "auto",   "treepack"};
    static const char *const counts[] = {"device.count=1", "device.count=2", "device.count=3",
                                         "device.count=4"};

    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        for (size_t c = 0; c < 4; c++) {
            char backend[64];
            (void)snprintf(backend, sizeof backend, "comm.backend=%s", backends[b]);
            /* auto chooses by what memory or links cost, which is not the same for both */
            compare((const char *[]){
                backend, counts[c], "train.epochs=3",
                strcmp(backends[b], "auto") == 0 && c > 1 ? "comm.backend=onehop" : backend, NULL});
        }
    }
}

Test(device, every_way_to_train_gives_the_bits_of_the_host)
{
    static const char *const ways[][MAX_SETTINGS] = {
        {"optim.momentum=0", "device.count=2"},
        {"optim.nesterov=yes", "optim.weight_decay=0.01", "device.count=2"},
        {"optim.weight_decay=0.01", "optim.decay_norm_bias=no", "comm.buckets=layer"},
        {"train.accum_steps=2", "device.count=2", "train.batch_per_device=5"},
        {"comm.order=priority", "device.count=2", "comm.buckets=layer"},
        {"comm.sync=reduce-broadcast", "device.count=3"},
        {"comm.sync=reduce-broadcast", "device.count=2", "comm.overlap=no"},
        {"comm.overlap=no", "device.count=2", "comm.buckets=one"},
        {"debug.verify_every=2", "device.count=3", "comm.backend=ring"},
        {"train.on_nan=skip", "device.count=2", "debug.inject=nan:1@3"},
        {"train.on_nan=stop", "device.count=2", "debug.inject=nan:0@3"},
        {"train.eval_every=1", "device.count=3", "data.drop_last=no"},
        {"data.n_train=97", "device.count=3", "train.batch_per_device=16"},
    };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        compare(ways[i]);
    }
}

Test(device, every_kind_of_layer_gives_the_bits_of_the_host)
{
    static const char *const nets[][MAX_SETTINGS] = {
        {"model.name=resnet20", "data.shape=3,16,16", "device.count=2", "data.n_train=32",
         "data.n_test=9", "train.epochs=3", "train.on_nan=skip"},
        {"model.name=resnet20", "data.shape=1,12,12", "model.shortcut=pad", "data.n_train=32",
         "data.n_test=9", "train.epochs=3", "device.count=2"},
        {"model.name=lenet", "data.shape=1,28,28", "device.count=2", "data.n_train=32",
         "data.n_test=9", "train.epochs=3"},
        {"model.hidden=16,12,9", "model.dropout=0.5", "device.count=2"},
    };

    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        compare(nets[i]);
        sealed_set_align(256); /* more padding, other buckets: sums of two are the same */
        compare(nets[i]);
        sealed_set_align(64);
    }
}

/* As run_sealed(), which must end with `status` and say `text` on stderr, and `never` nowhere. */
static void check_says(const char *const *settings, enum status status, const char *text,
                       const char *never)
{
    int old = capture_stderr("err");
    struct outcome o = run_sealed(settings, 1);
    char *said;

    release_stderr(old);
    said = slurp("err");
    cr_assert_eq(o.status, status);
    cr_assert_not_null(strstr(said, text), "%s", said);
    cr_assert(never == NULL || strstr(said, never) == NULL, "%s", said);
    free(said);
    free_outcome(&o);
}

Test(device, wrong_sums_are_found_there_too)
{
    check_says((const char *[]){"debug.verify_every=1", "device.count=2",
                                "debug.inject=corrupt:1@3", NULL},
               ST_INTERNAL, "wrong sum in step 3", NULL);
}

Test(device, a_loss_that_is_not_finite_names_its_layer)
{
    static const char *const faults[] = {"debug.inject=nan:1@2", "debug.inject=weight:1@2"};

    for (size_t i = 0; i < 2; i++) {
        check_says((const char *[]){"device.count=2", faults[i], NULL}, ST_NONFINITE,
                   "on rank 1 of 2, first in layer", "first in layer loss");
    }
}

/* The host may stand still for the loss of a step and for memory that the batch before the last
 * one was copied from, but not for layers or buckets. */
Test(device, the_host_stands_still_twice_a_step_at_most)
{
    static const char *const small[] = {"model.hidden=8", "comm.buckets=layer", "train.epochs=4",
                                        "device.count=2", "train.eval_every=0", NULL};
    static const char *const deep[] = {"model.hidden=8,8,8,8,8,8,8,8",
                                       "comm.buckets=layer",
                                       "train.epochs=4",
                                       "device.count=2",
                                       "train.eval_every=0",
                                       NULL};
    size_t stops, steps;
    struct outcome o = run_sealed(small, 1);

    free_outcome(&o);
    stops = sealed_stops();
    o = run_sealed(deep, 1);
    stops = sealed_stops() - stops;
    steps = o.summary.steps * 2;
    cr_assert_eq(o.status, ST_OK);
    cr_assert_leq(stops, 2 * steps + 80, "%zu stops in %zu steps of ranks", stops, steps);
    free_outcome(&o);
}

/* That these devices would show a missing event: without one of the waits, results change. Not
 * without each, as others say the same; a quarter of them is asked for. */
Test(device, a_missing_wait_is_seen)
{
    static const char *const settings[] = {"device.count=3", "comm.buckets=layer", "train.epochs=1",
                                           NULL};
    struct outcome host = run(settings), sealed;
    size_t n_waits, stride, n, n_seen = 0;

    sealed_drop_wait(0);
    sealed = run_sealed(settings, 1);
    n_waits = sealed_n_waits();
    free_outcome(&sealed);
    stride = n_waits / 40 + 1;
    n = (n_waits + stride - 1) / stride;
    for (size_t k = 1; k <= n_waits && 4 * n_seen < n; k += stride) {
        bool seen = false;
        for (uint64_t seed = 1; seed <= 24 && !seen; seed++) {
            sealed_drop_wait(k);
            sealed = run_sealed(settings, seed);
            seen = !same(&sealed, &host);
            free_outcome(&sealed);
        }
        n_seen += seen;
    }
    cr_assert_geq(4 * n_seen, n, "%zu of %zu missing waits were seen", n_seen, n);
    free_outcome(&host);
}

Test(device, every_failed_allocation_is_cleaned_up)
{
    static const char *const settings[] = {"device.count=2", "debug.verify_every=1",
                                           "train.on_nan=skip", "train.accum_steps=2", NULL};
    enum status st = ST_NOMEM;
    struct config cfg;

    make_config(&cfg, settings);
    for (size_t k = 1; st != ST_OK; k += k < 200 ? 1 : 7) {
        struct trainer *t = NULL;
        size_t live = mem_live();
        mem_fail_at(k);
        st = trainer_create_on(&cfg, true, sealed_device(), sealed_ops(), &t);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        trainer_destroy(st == ST_OK ? t : NULL);
        cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
    }
    cr_assert_eq(sealed_faults(), 0);
    config_fini(&cfg);
}
