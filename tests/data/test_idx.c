#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/dataset.h"
#include "data_testing.h"

TestSuite(idx, .fini = testing_clean);

Test(idx, plain_and_compressed_files_under_any_name)
{
    struct config_data cfg = testing_config("mnist");

    testing_write_pair(DATA_TRAIN, 20, 10, false);
    testing_expect_good(&cfg, DATA_TRAIN, 20, 10);
    testing_write_pair(DATA_TRAIN, 21, 10, true); /* compressed, without .gz */
    testing_expect_good(&cfg, DATA_TRAIN, 21, 10);
    testing_move(testing_train_images, "train-images-idx3-ubyte.gz");
    testing_move(testing_train_labels, "train-labels.idx1-ubyte"); /* as some tools unpack it */
    testing_expect_good(&cfg, DATA_TRAIN, 21, 10);
    testing_write_pair(DATA_TRAIN, 22, 10, false);
    testing_move(testing_train_images, "train-images-idx3-ubyte.gz"); /* plain, with .gz */
    testing_move(testing_train_labels, "train-labels.idx1-ubyte.gz");
    cr_assert_eq(unlink(testing_path("train-labels.idx1-ubyte")), 0);
    testing_expect_good(&cfg, DATA_TRAIN, 22, 10);
}

Test(idx, named_files_limits_and_classes)
{
    struct config_data cfg = testing_config("idx");
    char absolute[512], labels[] = "train-labels-idx1-ubyte",
                        images[] = "t10k-images-idx3-ubyte.gz";
    char other[] = "t10k-labels-idx1-ubyte";
    struct dataset *d = NULL;

    testing_write_pair(DATA_TRAIN, 20, 7, true);
    testing_write_pair(DATA_TEST, 2, 3, false);
    (void)snprintf(absolute, sizeof absolute, "%s", testing_path(testing_train_images));
    testing_expect_refused(&cfg, DATA_TRAIN,
                           "data.train_images is not given|set data.train_images");
    cfg.train_images = absolute;
    cfg.train_labels = labels;
    cfg.test_images = images; /* the plain file is found */
    cfg.test_labels = other;
    testing_expect_good(&cfg, DATA_TRAIN, 20, 7);
    cr_assert_eq(dataset_open(&cfg, DATA_TEST, 1, &d), ST_OK);
    cr_assert_eq(dataset_classes(d), 7, "the training labels tell, not the test labels");
    dataset_close(d);
    cfg.n_train = 5;
    cfg.n_test = 1;
    testing_expect_good(&cfg, DATA_TRAIN, 5, 7);
    testing_expect_good(&cfg, DATA_TEST, 1, 3);
    cfg.n_train = 20;
    testing_expect_good(&cfg, DATA_TRAIN, 20, 7);
    cfg.n_train = 21;
    testing_expect_refused(&cfg, DATA_TRAIN,
                           "data.n_train = 21|expected 0 to 20|lower data.n_train");
    cfg.n_train = 0;
    cfg.classes = 12;
    cr_assert_eq(dataset_open(&cfg, DATA_TRAIN, 1, &d), ST_OK);
    cr_assert_eq(dataset_classes(d), 12);
    dataset_close(d);
    cfg.classes = -1;
    testing_expect_refused(&cfg, DATA_TRAIN, "data.classes = -1");
}

Test(idx, colour_images)
{
    struct config_data cfg = testing_config("idx");
    char images[] = "images", labels[] = "labels";
    uint32_t dims[] = {2, 3, 4, 5};
    uint8_t pixels[2 * 3 * 4 * 5], label[] = {1, 0};
    struct dataset *d = NULL;
    size_t shape[3];

    for (size_t k = 0; k < sizeof pixels; k++) {
        pixels[k] = testing_pixel(0, k);
    }
    testing_write_idx(images, 4, dims, pixels, true);
    testing_write_idx(labels, 1, dims, label, false);
    cfg.train_images = cfg.test_images = images;
    cfg.train_labels = cfg.test_labels = labels;
    cr_assert_eq(dataset_open(&cfg, DATA_TEST, 1, &d), ST_OK);
    dataset_shape(d, shape);
    cr_assert(shape[0] == 3 && shape[1] == 4 && shape[2] == 5 && dataset_classes(d) == 2);
    cr_assert_arr_eq(dataset_pixels(d, 1, NULL), pixels + 60, 60);
    dataset_close(d);
}

Test(idx, padding_and_normalisation)
{
    struct config_data cfg = testing_config("mnist");
    double three[] = {0.5, 0.5, 0.5}, mean[] = {0.25}, std[] = {0.5}, zero[] = {0};
    struct dataset *d = NULL;
    size_t shape[3];

    testing_write_pair(DATA_TRAIN, 3, 3, false);
    cfg.pad_to = 12;
    cr_assert_eq(dataset_open(&cfg, DATA_TRAIN, 1, &d), ST_OK);
    dataset_shape(d, shape);
    cr_assert(shape[0] == 1 && shape[1] == 12 && shape[2] == 12);
    cr_assert_float_eq(d->bias[0], -0.1307f / 0.3081f, 1e-6f);
    cr_assert_float_eq(255 * d->scale[0] + d->bias[0], (1 - 0.1307f) / 0.3081f, 1e-5f);
    dataset_close(d);
    cfg.mean = (struct config_reals){mean, 1};
    cfg.std = (struct config_reals){std, 1};
    cr_assert_eq(dataset_open(&cfg, DATA_TRAIN, 1, &d), ST_OK);
    cr_assert_float_eq(d->bias[0], -0.5f, 1e-6f);
    cr_assert_float_eq(255 * d->scale[0] + d->bias[0], 1.5f, 1e-5f);
    dataset_close(d);
    cfg.mean = (struct config_reals){three, 3};
    testing_expect_refused(&cfg, DATA_TRAIN, "data.mean has 3 numbers|expected 1");
    cfg.mean.n = 0;
    cfg.std = (struct config_reals){three, 2};
    testing_expect_refused(&cfg, DATA_TRAIN, "data.std has 2 numbers|expected 1");
    cfg.std = (struct config_reals){zero, 1};
    testing_expect_refused(&cfg, DATA_TRAIN, "data.std|number 1|not positive");
    cfg.std.n = 0;
    cfg.pad_to = 7;
    testing_expect_refused(&cfg, DATA_TRAIN, "data.pad_to = 7|at least 8");
    cfg.pad_to = -1;
    testing_expect_refused(&cfg, DATA_TRAIN, "data.pad_to = -1");
    cfg.pad_to = 0;
    cfg.crop_pad = (int64_t)1 << 40;
    testing_expect_refused(&cfg, DATA_TRAIN, "data.crop_pad = 1099511627776");
}

Test(idx, every_failed_allocation_is_reported)
{
    struct config_data cfg = testing_config("mnist");
    enum status st = ST_NOMEM;
    size_t k;

    testing_write_pair(DATA_TRAIN, 20, 5, true);
    testing_write_pair(DATA_TEST, 20, 5, false);
    for (k = 1; st != ST_OK; k++) {
        struct dataset *d = NULL;
        mem_fail_at(k);
        st = testing_open(&cfg, DATA_TEST, &d);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        cr_assert(st == ST_OK || testing_message()[0] != '\0', "failure %zu is silent", k);
        dataset_close(d);
        cr_assert_eq(mem_live(), 0, "failure %zu leaks", k);
    }
    cr_assert_gt(k, 7);
}

/* Highly compressed contents outgrow the first guess of their size. */
Test(idx, memory_grows_with_compressed_contents)
{
    struct config_data cfg = testing_config("mnist");
    uint32_t dims[] = {3000, 40, 40};
    size_t n = (size_t)3000 * 40 * 40;
    uint8_t *pixels = calloc(n, 1);
    enum status st = ST_NOMEM;

    for (size_t i = 0; i < 3000; i++) {
        pixels[i * 1600 + i % 1600] = 1;
    }
    testing_write_idx(testing_train_labels, 1, dims, pixels, true);
    testing_write_idx(testing_train_images, 3, dims, pixels, true);
    for (size_t k = 1; st != ST_OK; k++) {
        struct dataset *d = NULL;
        mem_fail_at(k);
        st = testing_open(&cfg, DATA_TRAIN, &d);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        cr_assert(st != ST_OK || memcmp(dataset_pixels(d, 0, NULL), pixels, n) == 0);
        dataset_close(d);
        cr_assert_eq(mem_live(), 0, "failure %zu leaks", k);
    }
    free(pixels);
}

/* The files of Debian's package, where it is installed. */
Test(idx, real_fashion_mnist)
{
    struct config_data cfg = testing_config("fashion-mnist");
    char none[] = "";

    cfg.path = none;
    if (access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", R_OK) != 0) {
        cr_skip_test("dataset-fashion-mnist is not installed");
    }
    for (int split = 0; split < 2; split++) {
        size_t n = split == DATA_TRAIN ? 60000 : 10000, hits[10] = {0}, shape[3];
        double sum = 0, square = 0;
        struct dataset *d = NULL;

        cr_assert_eq(dataset_open(&cfg, (enum data_split)split, 1, &d), ST_OK);
        dataset_shape(d, shape);
        cr_assert(shape[0] == 1 && shape[1] == 28 && shape[2] == 28);
        cr_assert(dataset_n(d) == n && dataset_classes(d) == 10);
        for (size_t i = 0; i < n; i++) {
            hits[dataset_label(d, i)]++;
            for (size_t k = 0; k < 784; k++) {
                double v =
                    (double)d->pixels[i * 784 + k] * (double)d->scale[0] + (double)d->bias[0];
                sum += v;
                square += v * v;
            }
        }
        for (size_t c = 0; c < 10; c++) {
            cr_assert_eq(hits[c], n / 10);
        }
        sum /= 784.0 * (double)n;
        square /= 784.0 * (double)n;
        cr_assert(sum > -0.01 && sum < 0.01 && square > 0.99 && square < 1.01);
        dataset_close(d);
    }
}

/* Nothing here may depend on the user's locale. */
Test(idx, works_in_any_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "tr_TR.UTF-8", "C.UTF-8"};
    struct config_data cfg = testing_config("mnist");

    testing_write_pair(DATA_TRAIN, 7, 5, true);
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        (void)setlocale(LC_ALL, names[k]); /* keeps the one before where it is not installed */
        testing_expect_good(&cfg, DATA_TRAIN, 7, 5);
        cfg.n_train = 1234567;
        testing_expect_refused(&cfg, DATA_TRAIN, "data.n_train = 1234567,");
        cfg.n_train = 0;
    }
}
