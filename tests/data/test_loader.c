#include <criterion/criterion.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/augment.h"
#include "data_testing.h"

enum {
    N = 103,
    SIDE = 8,
    PIXELS = SIDE * SIDE,
};

TestSuite(loader, .fini = testing_clean);

/* Images whose first pixel is their index: with an `idx` mean of 0 and std 1, x[0] * 255. */
static struct dataset *open_numbered(struct config_data *cfg, size_t n)
{
    static double zero[] = {0}, one[] = {1};
    static char images[] = "images", labels[] = "labels";
    uint32_t dims[] = {(uint32_t)n, SIDE, SIDE};
    uint8_t *pixels = malloc(n * PIXELS), *label = malloc(n);
    struct dataset *d = NULL;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < PIXELS; k++) {
            pixels[i * PIXELS + k] = k == 0 ? (uint8_t)i : testing_pixel(i, k);
        }
        label[i] = testing_label(i, 10);
    }
    testing_write_idx(images, 3, dims, pixels, false);
    testing_write_idx(labels, 1, dims, label, false);
    free(pixels);
    free(label);
    *cfg = testing_config("idx");
    cfg->train_images = cfg->test_images = images;
    cfg->train_labels = cfg->test_labels = labels;
    cfg->mean = (struct config_reals){zero, 1};
    cfg->std = (struct config_reals){one, 1};
    cfg->shuffle = true;
    cr_assert_eq(dataset_open(cfg, DATA_TRAIN, 1, &d), ST_OK);
    return d;
}

static struct loader *make(const struct loader_args *args)
{
    struct loader *l = NULL;

    cr_assert_eq(loader_create(args, &l), ST_OK);
    return l;
}

static size_t index_of(const struct batch *b, size_t i)
{
    return (size_t)(b->x[i * PIXELS] * 255 + 0.5f);
}

/* Take the rest of an epoch, checking every batch against the schedule; ids go to `ids`. */
static size_t collect(struct loader *l, const struct loader_args *a, size_t first_step, size_t *ids)
{
    struct batch b;
    size_t n = 0, k = first_step * a->schedule.accum;

    for (; loader_next(l, &b); k++) {
        struct slice s =
            schedule_slice(&a->schedule, k / a->schedule.accum, a->rank, k % a->schedule.accum);
        cr_assert(b.step == k / a->schedule.accum && b.micro == k % a->schedule.accum);
        cr_assert(b.n == s.n && b.n_global == s.n_global);
        cr_assert_eq((uintptr_t)b.x % 64, 0);
        for (size_t i = 0; i < b.n; i++) {
            ids[n] = index_of(&b, i);
            cr_assert_eq(b.labels[i], testing_label(ids[n], 10));
            for (size_t p = 1; p < PIXELS; p++) {
                cr_assert_float_eq(b.x[i * PIXELS + p], testing_pixel(ids[n], p) / 255.0f, 1e-6f);
            }
            n++;
        }
    }
    cr_assert_eq(k, schedule_steps(&a->schedule) * a->schedule.accum);
    cr_assert_not(loader_next(l, &b), "the end stays the end");
    return n;
}

static void check_epoch(const struct loader_args *base, uint64_t epoch, size_t *ids)
{
    size_t hits[N] = {0}, n = 0, g, used;

    for (int r = 0; r < base->schedule.n_ranks; r++) {
        struct loader_args a = *base;
        struct loader *l;

        a.rank = r;
        l = make(&a);
        loader_start(l, epoch, 0);
        n += collect(l, &a, 0, ids + n);
        loader_destroy(l);
    }
    g = base->schedule.batch * base->schedule.accum * (size_t)base->schedule.n_ranks;
    used = base->schedule.drop_last ? N / g * g : N;
    cr_assert_eq(n, used);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(hits[ids[i]]++, 0, "sample %zu comes twice", ids[i]);
    }
}

Test(loader, ranks_share_every_epoch_without_loss_or_repetition)
{
    static const int ranks[] = {1, 2, 3, 4, 5, 7, 16};
    struct config_data cfg;
    struct dataset *d = open_numbered(&cfg, N);

    for (size_t k = 0; k < 4 * sizeof ranks / sizeof ranks[0]; k++) {
        struct loader_args a = {.dataset = d, .cfg = &cfg, .seed = 3, .training = true};
        size_t ids[4][N] = {{0}};

        a.schedule = (struct schedule){N, 5, 1 + k % 2, ranks[k / 4], k % 4 >= 2};
        check_epoch(&a, 0, ids[0]);
        check_epoch(&a, 1, ids[1]);
        check_epoch(&a, 0, ids[2]);
        a.seed = 4;
        check_epoch(&a, 0, ids[3]);
        cr_assert_arr_eq(ids[0], ids[2], sizeof ids[0], "a rerun repeats the order");
        if (schedule_steps(&a.schedule) > 0) {
            cr_assert(memcmp(ids[0], ids[1], sizeof ids[0]) != 0, "epochs differ");
            cr_assert(memcmp(ids[0], ids[3], sizeof ids[0]) != 0, "seeds differ");
        }
    }
    dataset_close(d);
}

/* The samples of a whole step do not depend on how many ranks share it. */
Test(loader, a_step_has_the_same_samples_for_any_number_of_ranks)
{
    struct config_data cfg;
    struct dataset *d = open_numbered(&cfg, N);
    size_t first[24] = {0};

    for (int p = 1; p <= 4; p++) {
        size_t n = 0;
        for (int r = 0; r < p; r++) {
            struct loader_args a = {.dataset = d, .cfg = &cfg, .rank = r, .training = true};
            struct loader *l;
            struct batch b;

            a.schedule = (struct schedule){N, 24 / (size_t)p, 1, p, false};
            l = make(&a);
            loader_start(l, 7, 0);
            cr_assert(loader_next(l, &b));
            for (size_t i = 0; i < b.n; i++, n++) {
                cr_assert(p == 1 || index_of(&b, i) == first[n]);
                first[n] = index_of(&b, i);
            }
            loader_destroy(l);
        }
        cr_assert_eq(n, 24);
    }
    dataset_close(d);
}

Test(loader, evaluation_keeps_the_files_order_and_pixels)
{
    struct config_data cfg;
    struct dataset *d = open_numbered(&cfg, 21);
    struct loader_args a = {.dataset = d, .cfg = &cfg, .schedule = {21, 4, 1, 1, false}};
    struct loader *l;
    size_t ids[21];

    cfg.flip = true;
    cfg.crop_pad = 3;
    l = make(&a);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        loader_start(l, epoch, 0);
        cr_assert_eq(collect(l, &a, 0, ids), 21);
        for (size_t i = 0; i < 21; i++) {
            cr_assert_eq(ids[i], i);
        }
    }
    loader_destroy(l);
    dataset_close(d);
}

Test(loader, resumes_in_mid_epoch_and_abandons_epochs)
{
    struct config_data cfg;
    struct dataset *d = open_numbered(&cfg, N);
    struct loader_args a = {
        .dataset = d, .cfg = &cfg, .schedule = {N, 3, 2, 2, false}, .rank = 1, .training = true};
    struct loader *l = make(&a);
    size_t whole[N], part[N], n, skipped = 0;
    struct batch b;

    cr_assert_not(loader_next(l, &b), "nothing comes before the first start");
    loader_start(l, 5, 0);
    n = collect(l, &a, 0, whole);
    for (size_t step = 0; step < 4; step++) {
        skipped += schedule_slice(&a.schedule, step, 1, 0).n;
        skipped += schedule_slice(&a.schedule, step, 1, 1).n;
    }
    for (size_t taken = 0; taken < 6; taken++) {
        loader_start(l, 9, taken);
        for (size_t k = 0; k < taken; k++) {
            cr_assert(loader_next(l, &b));
        }
        loader_start(l, 5, 4);
        cr_assert_eq(collect(l, &a, 4, part), n - skipped);
        cr_assert_arr_eq(part, whole + skipped, (n - skipped) * sizeof *part);
    }
    loader_start(l, 5, 10000);
    cr_assert_not(loader_next(l, &b), "a start past the end is an empty epoch");
    loader_start(l, 5, 0);
    loader_destroy(l);
    dataset_close(d);
}

/* Nothing is allocated once the loader exists: an armed failure stays armed. */
Test(loader, allocates_nothing_while_it_runs)
{
    struct config_data cfg;
    struct dataset *d = open_numbered(&cfg, N);
    struct loader_args a = {
        .dataset = d, .cfg = &cfg, .schedule = {N, 8, 1, 1, false}, .training = true};
    struct loader *l = make(&a);
    size_t ids[N];
    void *p;

    mem_fail_at(1);
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        loader_start(l, epoch, 0);
        cr_assert_eq(collect(l, &a, 0, ids), N);
    }
    p = mem_alloc(1, 1);
    cr_assert_null(p);
    loader_destroy(l);
    dataset_close(d);
    cr_assert_eq(mem_live(), 0);
}

Test(loader, every_failed_allocation_is_reported)
{
    struct config_data cfg;
    struct dataset *d = open_numbered(&cfg, N);
    struct loader_args a = {
        .dataset = d, .cfg = &cfg, .schedule = {N, 8, 1, 1, false}, .training = true};
    enum status st = ST_NOMEM;
    size_t live = mem_live(), k;

    for (k = 1; st != ST_OK; k++) {
        struct loader *l = NULL;
        mem_fail_at(k);
        st = loader_create(&a, &l);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        loader_destroy(l);
        cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
    }
    cr_assert_geq(k, 6);
    dataset_close(d);
}

/* What augment_write must give, pixel by pixel. */
static float expected(const struct dataset *d, const uint8_t *x, struct placement p, size_t c,
                      size_t i, size_t j)
{
    ptrdiff_t y = (ptrdiff_t)i - p.top;
    ptrdiff_t z = (ptrdiff_t)(p.mirror ? d->out_w - 1 - j : j) - p.left;
    bool inside = y >= 0 && y < (ptrdiff_t)d->h && z >= 0 && z < (ptrdiff_t)d->w;
    uint8_t pixel = inside ? x[(c * d->h + (size_t)y) * d->w + (size_t)z] : 0;

    return (float)pixel * d->scale[c] + d->bias[c];
}

Test(augment, placing_and_mirroring_pixel_by_pixel)
{
    float scale[] = {0.5f, 2}, bias[] = {-1, 3};
    struct dataset d = {
        .c = 2, .h = 3, .w = 5, .out_h = 6, .out_w = 7, .scale = scale, .bias = bias};
    uint8_t x[2 * 3 * 5];
    float y[2 * 6 * 7];

    for (size_t k = 0; k < sizeof x; k++) {
        x[k] = testing_pixel(1, k);
    }
    for (int m = 0; m < 2; m++) {
        for (ptrdiff_t top = -9; top <= 9; top++) {
            for (ptrdiff_t left = -9; left <= 9; left++) {
                struct placement p = {top, left, m != 0};
                memset(y, 0x7f, sizeof y);
                augment_write(&d, x, p, y);
                for (size_t k = 0; k < 2 * 6 * 7; k++) {
                    cr_assert_float_eq(y[k], expected(&d, x, p, k / 42, k / 7 % 6, k % 7), 1e-5f);
                }
            }
        }
    }
}

Test(augment, draws_cover_their_range_evenly)
{
    struct config_data cfg = {.crop_pad = 2, .flip = true};
    struct dataset d = {.h = 28, .w = 28, .out_h = 32, .out_w = 32};
    size_t top[5] = {0}, left[5] = {0}, mirrored = 0, both = 0;
    enum {
        DRAWS = 50000
    };

    for (size_t id = 0; id < DRAWS; id++) {
        struct placement p = augment_draw(&d, &cfg, 1, 0, id);
        cr_assert(p.top >= 0 && p.top <= 4 && p.left >= 0 && p.left <= 4);
        top[p.top]++;
        left[p.left]++;
        mirrored += p.mirror;
        both += p.mirror && p.top == p.left;
    }
    for (size_t k = 0; k < 5; k++) {
        cr_assert(top[k] > 9500 && top[k] < 10500 && left[k] > 9500 && left[k] < 10500);
    }
    cr_assert(mirrored > 24300 && mirrored < 25700);
    cr_assert(both > 4600 && both < 5400, "the three draws are independent");
    cfg.flip = false;
    cfg.crop_pad = 0;
    cr_assert_eq(augment_draw(&d, &cfg, 1, 0, 5).top, 2);
    cr_assert_not(augment_draw(&d, &cfg, 1, 0, 5).mirror);
}

/* Samples, epochs and seeds differ; the number of ranks does not matter. */
Test(augment, depends_on_seed_epoch_and_sample_only)
{
    struct config_data cfg = {.crop_pad = 4, .flip = true};
    struct dataset d = {.h = 32, .w = 32, .out_h = 32, .out_w = 32};
    size_t same_epoch = 0, same_seed = 0, same_sample = 0;
    enum {
        DRAWS = 2000
    };

    for (size_t id = 0; id < DRAWS; id++) {
        struct placement p[] = {augment_draw(&d, &cfg, 1, 2, id), augment_draw(&d, &cfg, 1, 3, id),
                                augment_draw(&d, &cfg, 2, 2, id),
                                augment_draw(&d, &cfg, 1, 2, id + 1),
                                augment_draw(&d, &cfg, 1, 2, id)};
        size_t *same[] = {&same_epoch, &same_seed, &same_sample};
        for (size_t k = 0; k < 3; k++) {
            *same[k] += p[0].top == p[k + 1].top && p[0].left == p[k + 1].left &&
                        p[0].mirror == p[k + 1].mirror;
        }
        cr_assert(p[0].top == p[4].top && p[0].left == p[4].left && p[0].mirror == p[4].mirror);
    }
    cr_assert_lt(same_epoch, DRAWS / 50); /* 1 in 162 by chance */
    cr_assert_lt(same_seed, DRAWS / 50);
    cr_assert_lt(same_sample, DRAWS / 50);
}

/* The augmented image of a sample is the same whichever rank makes it. */
Test(loader, augmentation_does_not_depend_on_the_number_of_ranks)
{
    struct config_data cfg;
    struct dataset *d = open_numbered(&cfg, N);
    float *seen = calloc(N * PIXELS, sizeof *seen);

    cfg.crop_pad = 2;
    cfg.flip = true;
    for (int p = 1; p <= 3; p++) {
        size_t position = 0;
        for (size_t step = 0; step < 5; step++) {
            for (int r = 0; r < p; r++) {
                struct loader_args a = {.dataset = d, .cfg = &cfg, .rank = r, .training = true};
                struct loader *l;
                struct batch b;

                a.schedule = (struct schedule){N, 24 / (size_t)p, 1, p, false};
                l = make(&a);
                loader_start(l, 3, step);
                cr_assert(loader_next(l, &b));
                if (p == 1) {
                    memcpy(seen + position, b.x, b.n * PIXELS * sizeof *seen);
                }
                cr_assert_arr_eq(seen + position, b.x, b.n * PIXELS * sizeof *seen);
                position += b.n * PIXELS;
                loader_destroy(l);
            }
        }
        cr_assert_eq(position, N * PIXELS);
    }
    free(seen);
    dataset_close(d);
}
