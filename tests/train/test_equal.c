/* The weights do not depend on how the work is split. */
#include "fixture.h"

TestSuite(equal, .init = scratch_make, .fini = scratch_remove);

static const char *const backends[] = {"central", "onehop", "ring", "mst", "be", "lp"};
enum {
    N_BACKENDS = sizeof backends / sizeof backends[0],
    GLOBAL = 420 /* divisible by all numbers of ranks */
};

/* Three ways to update: by each rank for itself; in one arena when all sums are there, which
 * verification asks for; and inside the reduction. */
static const char *const update_ways[][2] = {{"optim.fuse=off", "debug.verify_every=0"},
                                             {"optim.fuse=auto", "debug.verify_every=1000000"},
                                             {"optim.fuse=on", "debug.verify_every=0"}};

/* 20 steps of 420 images; every fifth has 3 only, so that ranks from the fourth on have none.
 * Biases do not decay, so that ranges end within buckets. */
static struct outcome run_split(int ranks, const char *backend, bool overlap, int way)
{
    char count[64], batch[64], name[64], over[64];
    const char *const more[] = {"data.n_train=1683",
                                "train.max_steps=20",
                                count,
                                batch,
                                name,
                                over,
                                update_ways[way][0],
                                update_ways[way][1],
                                "optim.weight_decay=1e-3",
                                "optim.decay_norm_bias=no",
                                "train.eval_every=0",
                                NULL};

    (void)snprintf(count, sizeof count, "device.count=%d", ranks);
    (void)snprintf(batch, sizeof batch, "train.batch_per_device=%d", GLOBAL / ranks);
    (void)snprintf(name, sizeof name, "comm.backend=%s", backend);
    (void)snprintf(over, sizeof over, "comm.overlap=%s", overlap ? "yes" : "no");
    return run_ok(more);
}

Test(equal, ranks_backends_overlap_and_sharing)
{
    static const int ranks[] = {1, 2, 3, 4, 5, 7};
    struct outcome one = run_split(1, "onehop", true, 0);

    cr_assert_eq(one.summary.steps, 20);
    cr_assert_eq(one.summary.samples, 4 * 1683);
    for (size_t p = 0; p < sizeof ranks / sizeof ranks[0]; p++) {
        for (size_t b = 0; b < N_BACKENDS; b++) {
            struct outcome first = {.n = 0};
            for (int how = 0; how < 6; how++) {
                struct outcome o = run_split(ranks[p], backends[b], how % 2, how / 2);
                double d = largest_difference(o.weights, one.weights, one.n);
                cr_assert_lt(d, 1e-5, "P = %d, %s, overlap %d, update %d: off by %g", ranks[p],
                             backends[b], how % 2, how / 2, d);
                cr_assert_eq(o.summary.samples, one.summary.samples);
                if (how == 0) {
                    first = o;
                    continue;
                }
                cr_assert_eq(memcmp(o.weights, first.weights, o.n * sizeof(float)), 0,
                             "P = %d, %s: overlap and the way of updating change no bit", ranks[p],
                             backends[b]);
                free(o.weights);
            }
            free(first.weights);
        }
    }
    free(one.weights);
}

/* Convolutions and norms, whose backward passes read weights too; micro-batches; Nesterov; workers;
 * formats; an arena without momentum. */
Test(equal, an_update_inside_the_reduction_changes_no_bit)
{
    static const char *const variants[][4] = {
        {"model.name=resnet20", "data.shape=3,8,8", "optim.nesterov=yes", "comm.buckets=layer"},
        {"model.name=resnet20", "data.shape=3,8,8", "optim.decay_norm_bias=no",
         "device.compute=bf16"},
        {"model.name=lenet", "data.shape=1,28,28", "train.accum_steps=2", "comm.workers=2"},
        {"model.name=lenet", "data.shape=1,28,28", "optim.momentum=0", "comm.buckets=one"},
    };
    static const char *const counts[] = {"device.count=1", "device.count=2", "device.count=3"};

    for (size_t v = 0; v < 4; v++) {
        for (size_t b = 0; b < N_BACKENDS + 3; b++) {
            char name[64];
            const char *more[] = {variants[v][0],
                                  variants[v][1],
                                  variants[v][2],
                                  variants[v][3],
                                  name,
                                  counts[b % 3],
                                  "data.n_train=52",
                                  "optim.weight_decay=1e-2",
                                  "optim.fuse=off",
                                  NULL};
            struct outcome want, got;
            (void)snprintf(name, sizeof name, "comm.backend=%s", backends[b % N_BACKENDS]);
            want = run_ok(more);
            more[8] = "optim.fuse=on";
            got = run_ok(more);
            cr_assert_eq(memcmp(got.weights, want.weights, want.n * sizeof(float)), 0, "%s, %s, %s",
                         variants[v][0], name, counts[b % 3]);
            cr_assert_eq(got.summary.train_loss, want.summary.train_loss);
            free(want.weights);
            free(got.weights);
        }
    }
}

Test(equal, the_same_run_twice_gives_the_same_bits)
{
    for (size_t b = 0; b < N_BACKENDS; b++) {
        struct outcome a = run_split(3, backends[b], true, (int)(b % 3));
        struct outcome c = run_split(3, backends[b], true, (int)(b % 3));
        cr_assert_eq(memcmp(a.weights, c.weights, a.n * sizeof(float)), 0, "%s", backends[b]);
        cr_assert_eq(a.summary.train_loss, c.summary.train_loss);
        free(a.weights);
        free(c.weights);
    }
}

Test(equal, seeds_differ)
{
    const char *const other[] = {"train.seed=2", NULL};
    struct outcome a = run_ok(NULL), b = run_ok(other);

    cr_assert_gt(distance(a.weights, b.weights, a.n), 0.1);
    free(a.weights);
    free(b.weights);
}

/* A convolutional net without batch norm, odd batches. */
Test(equal, lenet_on_one_to_three_ranks)
{
    struct outcome one = {.n = 0};

    for (int ranks = 1; ranks <= 3; ranks++) {
        char count[64], batch[64];
        const char *const more[] = {"model.name=lenet",
                                    "data.shape=1,28,28",
                                    "data.n_train=47",
                                    "train.max_steps=20",
                                    count,
                                    batch,
                                    "optim.lr=0.01",
                                    "comm.bucket_bytes=25M",
                                    NULL};
        struct outcome o;
        (void)snprintf(count, sizeof count, "device.count=%d", ranks);
        (void)snprintf(batch, sizeof batch, "train.batch_per_device=%d", 18 / ranks);
        o = run_ok(more);
        if (ranks == 1) {
            one = o;
            continue;
        }
        cr_assert_lt(distance(o.weights, one.weights, o.n), 1e-5, "P = %d", ranks);
        free(o.weights);
    }
    free(one.weights);
}

static struct outcome run_accumulated(int ranks, int accum, int global, const char *n_train,
                                      const char *steps, const char *backend)
{
    char count[64], acc[64], batch[64], name[64];
    const char *const more[] = {
        count, acc, batch, name, n_train, steps, "optim.momentum=0", "optim.lr=0.5", NULL};

    (void)snprintf(count, sizeof count, "device.count=%d", ranks);
    (void)snprintf(acc, sizeof acc, "train.accum_steps=%d", accum);
    (void)snprintf(batch, sizeof batch, "train.batch_per_device=%d", global / ranks / accum);
    (void)snprintf(name, sizeof name, "comm.backend=%s", backend);
    return run_ok(more);
}

/* 72 images a step, however they are cut into ranks and micro-batches. */
Test(equal, accumulation_changes_nothing)
{
    struct outcome one =
        run_accumulated(1, 1, 72, "data.n_train=72", "train.max_steps=1", "onehop");

    for (int ranks = 1; ranks <= 4; ranks++) {
        for (int accum = 1; accum <= 3; accum++) {
            for (size_t b = 0; b < N_BACKENDS; b++) {
                struct outcome o = run_accumulated(ranks, accum, 72, "data.n_train=72",
                                                   "train.max_steps=1", backends[b]);
                double d = largest_difference(o.weights, one.weights, o.n);
                cr_assert_lt(d, 1e-6, "P = %d, accumulation %d, %s: %g", ranks, accum, backends[b],
                             d);
                free(o.weights);
            }
        }
    }
    free(one.weights);
}

/* Ten micro-batches of 6 in steps of four: the last step has half the images of the others. */
Test(equal, a_short_accumulation_is_one_batch_of_its_images)
{
    struct outcome whole =
        run_accumulated(1, 1, 24, "data.n_train=60", "train.max_steps=6", "onehop");

    for (int ranks = 1; ranks <= 3; ranks++) {
        struct outcome o =
            run_accumulated(ranks, 4, 24, "data.n_train=60", "train.max_steps=6", "ring");
        cr_assert_eq(o.summary.samples, 120);
        cr_assert_lt(largest_difference(o.weights, whole.weights, o.n), 2e-6, "P = %d", ranks);
        free(o.weights);
    }
    /* 25 images in steps of 24 over 4 micro-batches of 2 ranks: the last one leaves one rank and
     * most micro-batches empty. */
    struct outcome ragged =
        run_accumulated(1, 1, 24, "data.n_train=25", "train.max_steps=4", "onehop");
    struct outcome cut = run_accumulated(2, 4, 24, "data.n_train=25", "train.max_steps=4", "be");
    cr_assert_lt(largest_difference(cut.weights, ragged.weights, cut.n), 2e-6);
    free(ragged.weights);
    free(cut.weights);
    free(whole.weights);
}

Test(equal, every_epoch_uses_each_image_once)
{
    static const int ranks[] = {2, 3, 4, 7};

    for (size_t p = 0; p < 4; p++) {
        for (size_t b = 0; b < N_BACKENDS; b++) {
            char count[64], name[64];
            const char *const more[] = {"data.n_train=103",
                                        "train.batch_per_device=8",
                                        "train.epochs=3",
                                        count,
                                        name,
                                        NULL};
            uint64_t per_epoch = (103 + 8 * (uint64_t)ranks[p] - 1) / (8 * (uint64_t)ranks[p]);
            struct outcome o;
            (void)snprintf(count, sizeof count, "device.count=%d", ranks[p]);
            (void)snprintf(name, sizeof name, "comm.backend=%s", backends[b]);
            o = run_ok(more);
            cr_assert_eq(o.summary.steps, 3 * per_epoch, "P = %d", ranks[p]);
            cr_assert_eq(o.summary.samples, 3 * 103);
            cr_assert(isfinite(o.summary.train_loss) && o.summary.train_loss > 0);
            free(o.weights);
        }
    }
}

Test(equal, drop_last_leaves_out_the_rest)
{
    const char *const more[] = {"data.n_train=103", "train.batch_per_device=8", "train.epochs=3",
                                "device.count=3",   "data.drop_last=yes",       NULL};
    struct outcome o = run_ok(more);

    cr_assert_eq(o.summary.steps, 3 * 4);
    cr_assert_eq(o.summary.samples, 3 * 96);
    free(o.weights);
}

/* On a machine, or for a user, that has timed nothing yet. Measured anew, hardly a time would be
 * the same. */
Test(equal, a_run_repeats_the_choices_of_another)
{
    char tuning[128], *first, *second;
    const char *const more[] = {"model.name=lenet",
                                "data.shape=1,28,28",
                                "device.count=2",
                                "train.max_steps=10",
                                tuning,
                                NULL};
    struct outcome a, b;

    (void)snprintf(tuning, sizeof tuning, "device.tuning=");
    a = run_ok(more);
    (void)snprintf(tuning, sizeof tuning, "%s/elsewhere", scratch);
    setenv("XDG_CACHE_HOME", tuning, 1);
    (void)snprintf(tuning, sizeof tuning, "device.tuning=%s/run0/tuning.txt", scratch);
    b = run_ok(more);
    cr_assert_eq(memcmp(a.weights, b.weights, a.n * sizeof(float)), 0);
    first = slurp("run0/tuning.txt");
    second = slurp("run1/tuning.txt");
    cr_assert_gt(count_lines(first, "\n"), 1);
    cr_assert_str_eq(first, second);
    free(first);
    free(second);
    free(a.weights);
    free(b.weights);
}
