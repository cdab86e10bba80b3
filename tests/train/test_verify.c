/* Sums are checked against an independent addition, and ranks agree on what they start with. */
#include "fixture.h"

#include "comm/plan.h"
#include "train/agree.h"
#include "train/state.h"
#include "train/verify.h"

TestSuite(verify, .init = scratch_make, .fini = scratch_remove);

enum {
    RANKS = 5,
    N = 1000
};

static float parts[RANKS][N], sums[N];
static const float *rows[RANKS];

/* Values of all sizes and signs, added from the last rank to the first. */
static void fill(int n_ranks)
{
    for (int r = 0; r < n_ranks; r++) {
        rows[r] = parts[r];
        for (int i = 0; i < N; i++) {
            parts[r][i] = ldexpf((float)((r * 7919 + i * 104729) % 2001 - 1000), (i + r) % 40 - 30);
        }
    }
    for (int i = 0; i < N; i++) {
        sums[i] = 0;
        for (int r = n_ranks - 1; r >= 0; r--) {
            sums[i] += parts[r][i];
        }
    }
}

Test(verify, another_order_is_no_difference)
{
    struct verify_finding f = {.bad = false};

    for (int n_ranks = 1; n_ranks <= RANKS; n_ranks++) {
        fill(n_ranks);
        cr_assert(verify_sums(rows, n_ranks, sums, 0, N, &f), "%d: %zu", n_ranks, f.element);
    }
}

/* A sum that lacks a part, has one twice, or has one bit of an upper half of the mantissa wrong. */
Test(verify, wrong_sums_are_found)
{
    for (int n_ranks = 2; n_ranks <= RANKS; n_ranks++) {
        for (int i = 0; i < N; i += 37) {
            for (int how = 0; how < 4; how++) {
                struct verify_finding f = {.bad = false};
                fill(n_ranks);
                parts[1][i] = 1 << 21; /* beyond all rounding */
                sums[i] = 0;
                for (int r = 0; r < n_ranks; r++) {
                    sums[i] += parts[r][i];
                }
                sums[i] = how == 0   ? sums[i] - parts[1][i]
                          : how == 1 ? sums[i] + parts[1][i]
                          : how == 2 ? NAN
                                     : INFINITY;
                cr_assert_not(verify_sums(rows, n_ranks, sums, 0, N, &f));
                cr_assert(f.bad && f.element == (size_t)i && !f.ranks_differ);
                cr_assert(!(fabs((double)f.got - f.want) <= f.bound));
                cr_assert(verify_sums(rows, n_ranks, sums, 0, (size_t)i, &f), "before it");
                cr_assert(verify_sums(rows, n_ranks, sums, (size_t)i + 1, N - (size_t)i - 1, &f));
            }
        }
    }
}

Test(verify, what_is_not_finite_anyway_is_let_be)
{
    struct verify_finding f;

    fill(3);
    parts[1][10] = NAN;
    sums[10] = NAN;
    parts[2][11] = INFINITY;
    sums[11] = INFINITY;
    cr_assert(verify_sums(rows, 3, sums, 0, N, &f));
}

Test(verify, ranks_must_have_the_same_bits)
{
    static float other[N];
    struct verify_finding f;

    fill(3);
    memcpy(other, sums, sizeof other);
    cr_assert(verify_same(sums, other, 0, N, &f));
    sums[77] = 0.0f;
    other[77] = -0.0f;
    cr_assert_not(verify_same(sums, other, 70, 20, &f));
    cr_assert(f.bad && f.ranks_differ && f.element == 77);
    cr_assert(verify_same(sums, other, 0, 77, &f));
}

/* A gradient that changes on its way is found, and the weights are those before the step. */
Test(verify, a_corrupt_gradient_is_caught)
{
    static const char *const fuse[] = {"optim.fuse=auto", "optim.fuse=off"};

    for (size_t k = 0; planner_at(k) != NULL; k++) {
        char name[64];
        const char *const three[] = {"device.count=3", name, "train.max_steps=3", NULL};
        const char *const more[] = {"device.count=3",       name,        "debug.inject=corrupt:1@4",
                                    "debug.verify_every=2", fuse[k % 2], NULL};
        struct outcome want, o;
        char *log;
        int old;

        if (strcmp(planner_at(k)->name, "nccl") == 0) {
            continue;
        }
        (void)snprintf(name, sizeof name, "comm.backend=%s", planner_at(k)->name);
        want = run_ok(three);
        old = capture_stderr("log");
        o = run(more);
        release_stderr(old);
        log = slurp("log");
        cr_assert_eq(o.status, ST_INTERNAL, "%s: %s", name, status_text(o.status));
        cr_assert_eq(status_exit_code(o.status), 1);
        cr_assert_not_null(strstr(log, "wrong sum in step 4 on rank 0, bucket 0 ("), "%s", log);
        cr_assert_not_null(strstr(log, "layer output"), "%s", log);
        cr_assert_not_null(strstr(log, "element 0 of parameter 0: "), "%s", log);
        cr_assert_eq(count_lines(log, "\n"), 1, "%s", log);
        cr_assert_eq(memcmp(o.weights, want.weights, o.n * sizeof(float)), 0, "%s", name);
        free(log);
        free(o.weights);
        free(want.weights);
    }
}

/* Sound sums pass, on every backend, with empty shares and accumulation, and change no bit. */
Test(verify, sound_sums_pass)
{
    for (size_t k = 0; planner_at(k) != NULL; k++) {
        char name[64];
        const char *const more[] = {"device.count=4",
                                    "data.n_train=67",
                                    "train.accum_steps=2",
                                    "debug.verify_every=1",
                                    name,
                                    NULL};
        const char *const plain[] = {"device.count=4", "data.n_train=67", "train.accum_steps=2",
                                     name, NULL};
        struct outcome a, b;

        if (strcmp(planner_at(k)->name, "nccl") == 0) {
            continue;
        }
        (void)snprintf(name, sizeof name, "comm.backend=%s", planner_at(k)->name);
        a = run_ok(more);
        b = run_ok(plain);
        cr_assert_eq(memcmp(a.weights, b.weights, a.n * sizeof(float)), 0, "%s", name);
        free(a.weights);
        free(b.weights);
    }
}

/* --- agreement */

static enum status train_spoilt(void (*spoil)(struct trainer *), char **log)
{
    const char *const more[] = {"device.count=3", "optim.fuse=off", NULL};
    struct config cfg;
    struct trainer *t;
    struct trainer_summary s;
    enum status st;
    int old;

    make_config(&cfg, more);
    cr_assert_eq(trainer_create(&cfg, false, &t), ST_OK);
    spoil(t);
    old = capture_stderr("log");
    st = trainer_run(t, &s);
    release_stderr(old);
    cr_assert_eq(s.steps, 0, "before the first step");
    *log = slurp("log");
    trainer_destroy(t);
    config_fini(&cfg);
    return st;
}

static void spoil_weight(struct trainer *t)
{
    t->ranks[2].weights[3] += 0.5f;
}

Test(verify, other_weights_on_a_rank_end_the_run_before_it_starts)
{
    char *log;

    cr_assert_eq(train_spoilt(spoil_weight, &log), ST_INPUT);
    cr_assert_not_null(strstr(log, "rank 2 has another start weights than rank 0"), "%s", log);
    cr_assert_eq(count_lines(log, "\n"), 1, "%s", log);
    free(log);
}

Test(verify, every_rank_says_in_what_it_differs)
{
    static const char *const names[] = {"configuration", "model", "start weights",
                                        "buckets of gradients", "communication plan"};

    for (int item = 0; item < AGREE_ITEMS; item++) {
        for (int odd = 1; odd < 4; odd++) {
            struct agree_record all[4] = {0};
            all[odd].digests[item] = 1;
            for (int rank = 0; rank < 4; rank++) {
                int old = capture_stderr("log");
                enum status st = agree_check(all, 4, rank);
                char *log;
                release_stderr(old);
                log = slurp("log");
                cr_assert_eq(st, ST_INPUT, "on every rank");
                cr_assert_eq(strstr(log, names[item]) != NULL, rank == odd, "%s", log);
                free(log);
            }
            all[odd].digests[item] = 0;
            cr_assert_eq(agree_check(all, 4, odd), ST_OK);
        }
    }
}

/* What a rank with a shorter bucket, another layer or another plan would hold. */
Test(verify, digests_see_what_differs)
{
    const char *const one[] = {"device.count=3", NULL};
    const char *const others[][3] = {{"device.count=3", "comm.buckets=one"},
                                     {"device.count=3", "model.hidden=17"},
                                     {"device.count=3", "comm.backend=lp"},
                                     {"device.count=3", "train.seed=12345"}};
    static const bool differs[][AGREE_ITEMS] = {
        {true, false, false, true, false},
        {true, true, true, true, false},
        {true, false, false, false, true},
        {true, false, true, false, false},
    };
    struct agree_record a, b;
    struct config cfg;
    struct trainer *t;

    make_config(&cfg, one);
    cr_assert_eq(trainer_create(&cfg, true, &t), ST_OK);
    cr_assert_eq(agree_fill(&t->ranks[1], &a), ST_OK);
    cr_assert_eq(agree_fill(&t->ranks[2], &b), ST_OK);
    cr_assert_eq(memcmp(&a, &b, sizeof a), 0);
    trainer_destroy(t);
    config_fini(&cfg);
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        make_config(&cfg, others[k]);
        cr_assert_eq(trainer_create(&cfg, true, &t), ST_OK);
        cr_assert_eq(agree_fill(&t->ranks[1], &b), ST_OK);
        for (int i = 0; i < AGREE_ITEMS; i++) {
            if (differs[k][i] || (i != AGREE_PLAN && i != AGREE_BUCKETS)) {
                cr_assert_eq(a.digests[i] != b.digests[i], differs[k][i], "%s: item %d",
                             others[k][1], i);
            }
        }
        trainer_destroy(t);
        config_fini(&cfg);
    }
}
