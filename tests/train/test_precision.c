/* Formats of the arithmetic and the scale of the loss: the parts that need no GPU. */
#include "fixture.h"

#include "sealed.h"
#include "train/precision.h"
#include "train/state.h"

TestSuite(precision, .init = scratch_make, .fini = scratch_remove);

Test(precision, scale_grows_and_shrinks)
{
    struct loss_scale s = {.on = true, .factor = 8, .growth_steps = 3};

    loss_scale_step(&s, false);
    loss_scale_step(&s, false);
    cr_assert_eq(s.factor, 8);
    loss_scale_step(&s, false);
    cr_assert_eq(s.factor, 16);
    loss_scale_step(&s, false);
    loss_scale_step(&s, false);
    loss_scale_step(&s, true);
    cr_assert_eq(s.factor, 8, "halved");
    loss_scale_step(&s, false);
    loss_scale_step(&s, false);
    cr_assert_eq(s.factor, 8, "counted anew");
    for (int i = 0; i < 10; i++) {
        loss_scale_step(&s, true);
    }
    cr_assert_eq(s.factor, 1, "never below");
    for (int i = 0; i < 300; i++) {
        loss_scale_step(&s, false);
    }
    cr_assert_eq(s.factor, 1 << 24, "nor beyond");
    s = (struct loss_scale){.on = true, .factor = 4, .growth_steps = 0};
    for (int i = 0; i < 10; i++) {
        loss_scale_step(&s, false);
    }
    cr_assert_eq(s.factor, 4, "it stays");
    s = (struct loss_scale){.on = false, .factor = 1, .growth_steps = 1};
    loss_scale_step(&s, false);
    cr_assert_eq(s.factor, 1);
}

Test(precision, start_follows_the_format)
{
    static const struct {
        const char *compute, *wish;
        float factor;
        bool on;
    } cases[] = {{"fp32", "0", 1, false}, {"bf16", "0", 1, false},      {"fp16", "0", 65536, true},
                 {"fp32", "1", 1, false}, {"fp32", "1024", 1024, true}, {"fp16", "1", 1, true}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char compute[64], wish[64];
        struct config cfg;
        struct loss_scale s;
        (void)snprintf(compute, sizeof compute, "device.compute=%s", cases[i].compute);
        (void)snprintf(wish, sizeof wish, "optim.loss_scale=%s", cases[i].wish);
        make_config(&cfg, (const char *[]){compute, wish, NULL});
        s = loss_scale_make(&cfg);
        cr_assert(s.factor == cases[i].factor && s.on == cases[i].on, "%s %s", compute, wish);
        config_fini(&cfg);
    }
}

/* Powers of two change no bits where nothing leaves the range. */
Test(precision, scaled_training_is_the_same)
{
    static const char *const fuse[] = {"optim.fuse=auto", "optim.fuse=off"};

    for (size_t i = 0; i < 2; i++) {
        struct outcome plain = run_ok((const char *[]){"device.count=2", fuse[i], NULL});
        struct outcome scaled = run_ok((const char *[]){
            "device.count=2", fuse[i], "optim.loss_scale=256", "optim.loss_scale_steps=3", NULL});
        cr_assert_eq(memcmp(plain.weights, scaled.weights, plain.n * sizeof(float)), 0);
        free(plain.weights);
        free(scaled.weights);
    }
}

static float factor_after(const char *const *settings, bool sealed, float *weights, size_t n_max)
{
    struct trainer_summary summary;
    struct trainer *t;
    struct config cfg;
    float factor;

    make_config(&cfg, settings);
    cr_assert_eq(sealed ? trainer_create_on(&cfg, false, sealed_device(), sealed_ops(), &t)
                        : trainer_create(&cfg, false, &t),
                 ST_OK);
    cr_assert_eq(trainer_run(t, &summary), ST_OK);
    cr_assert_leq(trainer_n_weights(t), n_max);
    cr_assert_eq(trainer_weights(t, 1, weights, trainer_n_weights(t)), ST_OK);
    factor = t->ranks[0].scale.factor;
    cr_assert_eq(t->ranks[1].scale.factor, factor);
    cr_assert_eq(t->totals.skipped, 1);
    trainer_destroy(t);
    config_fini(&cfg);
    return factor;
}

/* Gradients that are no numbers end no training: the step is left out, and the factor halved. */
Test(precision, an_overflow_skips_the_step)
{
    static const char *const settings[] = {"device.count=2",           "debug.inject=nan:0@3",
                                           "train.on_nan=ignore",      "optim.loss_scale=64",
                                           "optim.loss_scale_steps=0", NULL};
    static float host[4096], sealed[4096];

    cr_assert_eq(factor_after(settings, false, host, 4096), 32);
    cr_assert_eq(factor_after(settings, true, sealed, 4096), 32);
    cr_assert_eq(memcmp(host, sealed, sizeof host), 0);
    for (size_t i = 0; i < 4096; i++) {
        cr_assert(isfinite(host[i]));
    }
    cr_assert_eq(sealed_faults(), 0);
}

static void expect_refusal(const char *const *settings, bool sealed, const char *why)
{
    struct trainer *t = NULL;
    struct config cfg;
    enum status st;
    char *text;
    int old;

    make_config(&cfg, settings);
    old = capture_stderr("err");
    st = sealed ? trainer_create_on(&cfg, true, sealed_device(), sealed_ops(), &t)
                : trainer_create(&cfg, true, &t);
    release_stderr(old);
    text = slurp("err");
    cr_assert_eq(status_exit_code(st), 2, "%s: %s", settings[0], status_text(st));
    cr_assert_not_null(strstr(text, why), "%s", text);
    cr_assert_eq(count_lines(text, "\n"), 1, "%s", text);
    free(text);
    config_fini(&cfg);
}

Test(precision, what_cannot_be_is_refused_in_one_line)
{
    expect_refusal((const char *[]){"device.compute=fp16", NULL}, false, "compute = fp16");
    expect_refusal((const char *[]){"device.tf32=yes", NULL}, false, "tf32 = yes");
    expect_refusal((const char *[]){"device.tf32=yes", "device.compute=bf16", NULL}, true,
                   "tf32 = yes");
    expect_refusal((const char *[]){"optim.loss_scale=8", "comm.order=priority", NULL}, false,
                   "loss_scale");
    expect_refusal((const char *[]){"optim.loss_scale=8", "comm.sync=reduce-broadcast", NULL}, true,
                   "loss_scale");
    expect_refusal((const char *[]){"comm.fabric=emulate", "device.count=2", NULL}, true,
                   "fabric = emulate");
    expect_refusal((const char *[]){"comm.wire=bf16", "debug.verify_every=1", NULL}, false,
                   "wire = bf16");
    expect_refusal((const char *[]){"device.count=5", NULL}, true, "oversubscribe = yes");
    expect_refusal((const char *[]){"comm.buckets=merge", NULL}, true, "give bucket_layers");
    expect_refusal((const char *[]){"comm.chunks=tune", NULL}, true, "give sizes");
}

/* Gradients that travel in bf16: the same bits on the host and on devices where both take the same
 * steps, and not those of fp32. */
Test(precision, gradients_travel_in_bf16)
{
    static const char *const ways[][4] = {
        {"comm.wire=bf16", "device.count=2", "comm.buckets=layer"},
        {"comm.wire=bf16", "device.count=3", "comm.backend=ring"},
        {"comm.wire=bf16", "device.count=2", "comm.sync=reduce-broadcast"},
        {"comm.wire=bf16", "device.count=2", "comm.order=priority"},
    };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *const plain_way[] = {ways[i][1], ways[i][2], NULL};
        struct outcome plain = run_ok(plain_way), host = run_ok(ways[i]);
        struct trainer_summary summary;
        struct trainer *t = NULL;
        struct config cfg;
        float *sealed = calloc(host.n, sizeof *sealed);

        make_config(&cfg, ways[i]);
        cr_assert_eq(trainer_create_on(&cfg, false, sealed_device(), sealed_ops(), &t), ST_OK);
        cr_assert_eq(trainer_run(t, &summary), ST_OK);
        cr_assert_eq(trainer_weights(t, 0, sealed, host.n), ST_OK);
        trainer_destroy(t);
        config_fini(&cfg);
        cr_assert_eq(memcmp(sealed, host.weights, host.n * sizeof(float)), 0, "%s", ways[i][2]);
        cr_assert_neq(memcmp(plain.weights, host.weights, host.n * sizeof(float)), 0);
        cr_assert_lt(distance(host.weights, plain.weights, host.n), 0.05);
        free(sealed);
        free(plain.weights);
        free(host.weights);
    }
    cr_assert_eq(sealed_faults(), 0);
}

/* More ranks than devices: in turn. */
Test(precision, ranks_share_devices_where_asked)
{
    static const char *const settings[] = {"device.count=6", "device.oversubscribe=yes",
                                           "train.batch_per_device=4", NULL};
    struct trainer_summary summary;
    struct trainer *t = NULL;
    struct config cfg;

    make_config(&cfg, settings);
    cr_assert_eq(trainer_create_on(&cfg, false, sealed_device(), sealed_ops(), &t), ST_OK);
    cr_assert_eq(trainer_run(t, &summary), ST_OK);
    trainer_destroy(t);
    config_fini(&cfg);
    cr_assert_eq(sealed_faults(), 0);
}
