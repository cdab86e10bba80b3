#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/dataset.h"
#include "data_testing.h"

static struct config_data synthetic(double *shape, int64_t n, int64_t classes)
{
    struct config_data cfg = testing_config("synthetic");

    cfg.shape.v = shape;
    cfg.shape.n = 3;
    cfg.n_train = n;
    cfg.n_test = n / 2;
    cfg.classes = classes;
    return cfg;
}

TestSuite(synthetic, .fini = testing_clean);

Test(synthetic, labels_are_balanced_in_every_shape)
{
    double shapes[][3] = {{1, 1, 1}, {1, 28, 28}, {3, 5, 9}, {2, 224, 17}, {4, 1, 300}};
    size_t live = mem_live();

    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        struct config_data cfg = synthetic(shapes[k], 700, 7);
        struct dataset *d = NULL;
        size_t hits[7] = {0}, shape[3];
        uint8_t *scratch;

        cr_assert_eq(dataset_open(&cfg, DATA_TRAIN, 1, &d), ST_OK);
        dataset_shape(d, shape);
        for (size_t i = 0; i < 3; i++) {
            cr_assert_eq(shape[i], (size_t)shapes[k][i]);
        }
        cr_assert_eq(dataset_n(d), 700);
        scratch = mem_alloc(dataset_scratch_bytes(d), 1);
        for (size_t i = 0; i < 700; i++) {
            (void)dataset_pixels(d, i, scratch);
            hits[dataset_label(d, i)]++;
        }
        for (size_t c = 0; c < 7; c++) {
            cr_assert_eq(hits[c], 100);
        }
        mem_free(scratch);
        dataset_close(d);
    }
    cr_assert_eq(mem_live(), live);
}

Test(synthetic, samples_depend_on_seed_split_and_index_only)
{
    double shape[] = {3, 20, 20};
    struct config_data cfg = synthetic(shape, 100, 2);
    struct dataset *d[4] = {NULL};
    enum {
        N = 3 * 20 * 20
    };
    uint8_t *scratch[5];

    cr_assert_eq(dataset_open(&cfg, DATA_TRAIN, 1, &d[0]), ST_OK);
    cr_assert_eq(dataset_open(&cfg, DATA_TRAIN, 1, &d[1]), ST_OK);
    cr_assert_eq(dataset_open(&cfg, DATA_TRAIN, 2, &d[2]), ST_OK);
    cr_assert_eq(dataset_open(&cfg, DATA_TEST, 1, &d[3]), ST_OK);
    for (size_t i = 0; i < 5; i++) {
        scratch[i] = mem_alloc(dataset_scratch_bytes(d[0]), 1);
    }
    for (size_t i = 0; i < 4; i++) {
        (void)dataset_pixels(d[i], 6, scratch[i]);
    }
    (void)dataset_pixels(d[0], 8, scratch[4]); /* of the same class */
    cr_assert_arr_eq(scratch[0], scratch[1], N);
    for (size_t i = 2; i < 5; i++) {
        size_t equal = 0;
        for (size_t k = 0; k < N; k++) {
            equal += scratch[0][k] == scratch[i][k];
        }
        cr_assert_lt(equal, N / 16, "%zu of %d pixels are alike", equal, (int)N);
        mem_free(scratch[i]);
    }
    mem_free(scratch[0]);
    mem_free(scratch[1]);
    for (size_t i = 0; i < 4; i++) {
        dataset_close(d[i]);
    }
}

/* The class of the nearest mean; `means` is [classes, n]. */
static int nearest(const double *means, const uint8_t *x, size_t n, int classes)
{
    double best = 1e300;
    int found = 0;

    for (int c = 0; c < classes; c++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++) {
            double off = means[(size_t)c * n + k] - x[k];
            sum += off * off;
        }
        if (sum < best) {
            best = sum;
            found = c;
        }
    }
    return found;
}

/* The means of the training samples of each class tell the classes of test samples apart. */
Test(synthetic, is_learnable_and_normalised)
{
    enum {
        C = 10,
        N = 16 * 16,
        EACH = 40
    };
    double shape[] = {1, 16, 16}, sum = 0, square = 0;
    struct config_data cfg = synthetic(shape, C * EACH, C);
    struct dataset *train = NULL, *test = NULL;
    double *means = calloc(C * N, sizeof *means);
    uint8_t *x;
    size_t right = 0;

    cr_assert_eq(dataset_open(&cfg, DATA_TRAIN, 1, &train), ST_OK);
    cr_assert_eq(dataset_open(&cfg, DATA_TEST, 1, &test), ST_OK);
    x = mem_alloc(dataset_scratch_bytes(train), 1);
    for (size_t i = 0; i < C * EACH; i++) {
        (void)dataset_pixels(train, i, x);
        for (size_t k = 0; k < N; k++) {
            double v = (double)x[k] * (double)train->scale[0] + (double)train->bias[0];
            means[(size_t)dataset_label(train, i) * N + k] += x[k] / (double)EACH;
            sum += v;
            square += v * v;
        }
    }
    for (size_t i = 0; i < dataset_n(test); i++) {
        (void)dataset_pixels(test, i, x);
        right += nearest(means, x, N, C) == dataset_label(test, i);
    }
    cr_assert_geq(right, dataset_n(test) * 95 / 100);
    sum /= C * EACH * N;
    square /= C * EACH * N;
    cr_assert(sum > -0.1 && sum < 0.1, "mean %g", sum);
    cr_assert(square > 0.8 && square < 1.25, "square %g", square);
    mem_free(x);
    free(means);
    dataset_close(train);
    dataset_close(test);
}

Test(synthetic, bad_settings_are_refused)
{
    double shapes[][3] = {{3, 0, 5}, {3, 4.5, 5}, {3, 4, -5}, {3, 4, 1e9}};
    double good[] = {3, 32, 32};
    struct config_data cfg;

    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        cfg = synthetic(shapes[k], 10, 0);
        testing_expect_refused(&cfg, DATA_TRAIN, "data.shape|expected a whole number|3, 32, 32");
    }
    cfg = synthetic(good, 10, 0);
    cfg.shape.n = 2;
    testing_expect_refused(&cfg, DATA_TRAIN, "data.shape|2 numbers|expects 3");
    cfg = synthetic(good, -2, 0);
    testing_expect_refused(&cfg, DATA_TRAIN, "data.n_train = -2|correct data.n_train");
    testing_expect_refused(&cfg, DATA_TEST, "data.n_test = -1|correct data.n_test");
}

Test(synthetic, defaults)
{
    struct config_data cfg = testing_config("synthetic");
    struct dataset *d = NULL;
    size_t shape[3];

    cr_assert_eq(dataset_open(&cfg, DATA_TRAIN, 1, &d), ST_OK);
    dataset_shape(d, shape);
    cr_assert(dataset_n(d) == 2048 && dataset_classes(d) == 10);
    cr_assert(shape[0] == 3 && shape[1] == 32 && shape[2] == 32);
    dataset_close(d);
    cr_assert_eq(dataset_open(&cfg, DATA_TEST, 1, &d), ST_OK);
    cr_assert_eq(dataset_n(d), 512);
    dataset_close(d);
}

Test(synthetic, every_failed_allocation_is_reported)
{
    double shape[] = {3, 8, 8};
    struct config_data cfg = synthetic(shape, 10, 3);
    enum status st = ST_NOMEM;
    size_t k;

    for (k = 1; st != ST_OK; k++) {
        struct dataset *d = NULL;
        mem_fail_at(k);
        st = testing_open(&cfg, DATA_TRAIN, &d);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        dataset_close(d);
        cr_assert_eq(mem_live(), 0, "failure %zu leaks", k);
    }
    cr_assert_gt(k, 6);
}
