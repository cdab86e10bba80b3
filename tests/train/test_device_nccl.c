/*
 * Training on devices whose streams run late and in any order, with NCCL's double for the sums: the
 * bits of the host, and every fault ends the run.
 */
#include "fixture_sealed.h"

#include "../cuda/nccl_streams.h"

TestSuite(device_nccl, .init = scratch_make, .fini = scratch_remove);

enum {
    MAX_SETTINGS = 16
};

/* Of the settings, with `backend`; on sealed devices with the double, or on the host. */
static struct outcome run_nccl(const char *const *more, uint64_t seed)
{
    const char *settings[MAX_SETTINGS + 2] = {"comm.backend=nccl", "comm.nccl=" NCCL_DOUBLE};
    struct nccl_streams streams;
    struct outcome o;
    size_t live = mem_live();

    for (size_t i = 0; more[i] != NULL; i++) {
        settings[i + 2] = more[i];
    }
    sealed_seed(seed);
    nccl_streams_begin(&streams, sealed_device(), NULL);
    o = run_sealed_with(&streams.ops, settings);
    nccl_streams_end(&streams);
    cr_assert_eq(mem_live(), live, "a run leaks");
    return o;
}

Test(device_nccl, every_way_to_train_gives_the_bits_of_the_host)
{
    static const char *const ways[][MAX_SETTINGS] = {
        {"device.count=1"},
        {"device.count=2"},
        {"device.count=3"},
        {"device.count=4", "comm.buckets=layer"},
        {"device.count=2", "comm.overlap=no"},
        {"device.count=2", "comm.buckets=one", "train.accum_steps=2", "train.batch_per_device=5"},
        {"device.count=3", "comm.sync=reduce-broadcast"},
        {"device.count=2", "comm.sync=reduce-broadcast", "comm.overlap=no"},
        {"device.count=2", "comm.wire=bf16"},
        {"device.count=3", "debug.verify_every=2"},
        {"device.count=2", "train.on_nan=skip", "debug.inject=nan:1@3"},
    };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *settings[MAX_SETTINGS + 1] = {"comm.backend=central"};
        struct outcome host;
        memcpy(settings + 1, ways[i], sizeof ways[i]);
        host = run_ok(settings);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct outcome o = run_nccl(ways[i], seed);
            cr_assert(same(&o, &host), "%s %s: status %d, loss %.9g and %.9g", ways[i][0],
                      ways[i][1] != NULL ? ways[i][1] : "", (int)o.status, o.summary.train_loss,
                      host.summary.train_loss);
            free_outcome(&o);
        }
        free_outcome(&host);
    }
    cr_assert_eq(sealed_faults(), 0);
}

/* Runs with these settings end so, and say that. */
static void expect_end(const char *const *settings, enum status want, const char *words)
{
    int old = capture_stderr("err");
    struct outcome o = run_nccl(settings, 1);
    char *text;

    release_stderr(old);
    text = slurp("err");
    cr_assert_eq(o.status, want, "%d: %s", (int)o.status, text);
    cr_assert_not_null(strstr(text, words), "no '%s' in: %s", words, text);
    free(text);
    free_outcome(&o);
    cr_assert_eq(sealed_faults(), 0);
}

Test(device_nccl, a_wrong_sum_is_found)
{
    expect_end((const char *const[]){"device.count=2", "debug.verify_every=1",
                                     "debug.inject=corrupt:1@3", NULL},
               ST_INTERNAL, "wrong sum in step 3");
}

Test(device_nccl, a_bucket_that_is_not_posted_is_missed)
{
    expect_end((const char *const[]){"device.count=2", "debug.inject=skip:1@2",
                                     "comm.timeout_s=0.3", NULL},
               ST_INTERNAL, "did not hand over bucket");
}

Test(device_nccl, a_rank_that_goes_away_is_missed)
{
    expect_end((const char *const[]){"device.count=3", "debug.inject=kill:2@2",
                                     "comm.timeout_s=0.3", NULL},
               ST_TIMEOUT, "waiting for rank 2");
}

Test(device_nccl, more_ranks_than_devices_are_refused)
{
    expect_end((const char *const[]){"device.count=5", "device.oversubscribe=yes",
                                     "train.batch_per_device=4", NULL},
               ST_INPUT, "ranks 0 and 4 are both on");
}

Test(device_nccl, the_library_fails)
{
    setenv("ESPALIER_NCCL_DOUBLE", "end", 1);
    expect_end((const char *const[]){"device.count=2", NULL}, ST_INTERNAL, "allreduce failed");
}

/* That these devices would show a missing event: without one of the waits, results change. */
Test(device_nccl, a_missing_wait_is_seen)
{
    static const char *const settings[] = {"device.count=2", "comm.buckets=layer", "train.epochs=1",
                                           NULL};
    struct outcome whole = run_nccl(settings, 1), last;
    size_t n_waits, n_seen = 0, n_tried = 0;

    sealed_drop_wait(0);
    last = run_nccl(settings, 1);
    free_outcome(&last);
    n_waits = sealed_n_waits();
    for (size_t k = 1; k <= n_waits; k += n_waits / 40 + 1, n_tried++) {
        bool seen = false;
        for (uint64_t seed = 1; seed <= 3 && !seen; seed++) {
            struct outcome o;
            sealed_drop_wait(k);
            o = run_nccl(settings, seed);
            seen = !same(&o, &whole);
            free_outcome(&o);
        }
        n_seen += seen;
    }
    sealed_drop_wait(0);
    cr_assert_geq(4 * n_seen, n_tried, "%zu of %zu missing waits were seen", n_seen, n_tried);
    free_outcome(&whole);
}
