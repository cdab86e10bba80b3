#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"
#include "data/dataset.h"
#include "data_testing.h"

TestSuite(idx, .fini = testing_clean);

/* Read a file of the folder into new memory. */
static uint8_t *slurp(const char *name, size_t *n)
{
    FILE *f = fopen(testing_path(name), "rb");
    uint8_t *bytes = malloc(1 << 20);

    cr_assert(f != NULL && bytes != NULL);
    *n = fread(bytes, 1, 1 << 20, f);
    (void)fclose(f);
    return bytes;
}

static void change_byte(const char *name, size_t at, uint8_t value)
{
    size_t n;
    uint8_t *bytes = slurp(name, &n);

    cr_assert_lt(at, n);
    bytes[at] = value;
    testing_write(name, bytes, n, false);
    free(bytes);
}

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

Test(idx, missing_files_and_wrong_places)
{
    struct config_data cfg = testing_config("fashion-mnist");
    char nowhere[] = "/nonexistent/folder", file[512], none[] = "";

    testing_expect_refused(&cfg, DATA_TRAIN,
                           "training images|train-images-idx3-ubyte|no such file|install "
                           "dataset-fashion-mnist or set data.path");
    testing_expect_refused(&cfg, DATA_TEST, "test images|t10k-images-idx3-ubyte");
    testing_write_pair(DATA_TRAIN, 4, 2, false);
    testing_expect_good(&cfg, DATA_TRAIN, 4, 2);
    cr_assert_eq(unlink(testing_path(testing_train_labels)), 0);
    testing_expect_refused(&cfg, DATA_TRAIN, "training labels|train-labels-idx1-ubyte|install");
    cr_assert_eq(mkdir(testing_path(testing_train_labels), 0700), 0);
    testing_expect_refused(&cfg, DATA_TRAIN, "training labels|expected a file, found a directory");
    cr_assert_eq(rmdir(testing_path(testing_train_labels)), 0);
    cr_assert_eq(mkfifo(testing_path(testing_train_labels), 0600), 0);
    testing_expect_refused(&cfg, DATA_TRAIN, "training labels|found a special file");
    cfg.path = nowhere;
    testing_expect_refused(&cfg, DATA_TRAIN, "/nonexistent/folder/train-images|set data.path");
    (void)snprintf(file, sizeof file, "%s", testing_path(testing_train_images));
    cfg.path = file; /* a file where a folder belongs */
    testing_expect_refused(&cfg, DATA_TRAIN, "Not a directory|set data.path");
    cfg = testing_config("mnist");
    cfg.path = none;
    testing_expect_refused(&cfg, DATA_TRAIN, "data.path is not given|mnist|set data.path");
    cfg = testing_config("fashion-minst");
    testing_expect_refused(&cfg, DATA_TRAIN,
                           "data.dataset = fashion-minst|did you mean "
                           "fashion-mnist?");
    cfg = testing_config("zzz");
    testing_expect_refused(&cfg, DATA_TRAIN, "data.dataset = zzz|cifar10");
}

/* Cut anywhere, plain or compressed, images or labels. */
Test(idx, files_cut_short_anywhere)
{
    struct config_data cfg = testing_config("mnist");

    for (int gzip = 0; gzip < 2; gzip++) {
        for (int labels = 0; labels < 2; labels++) {
            const char *name = labels ? testing_train_labels : testing_train_images;
            uint8_t *bytes;
            size_t n;

            testing_write_pair(DATA_TRAIN, 7, 5, gzip != 0);
            bytes = slurp(name, &n);
            for (size_t cut = 0; cut < n; cut++) {
                testing_write(name, bytes, cut, false);
                testing_expect_refused(&cfg, DATA_TRAIN,
                                       labels ? testing_train_labels : testing_train_images);
                testing_expect_refused(&cfg, DATA_TRAIN,
                                       "copy or download the file again|expected");
            }
            testing_write(name, bytes, n, false);
            testing_expect_good(&cfg, DATA_TRAIN, 7, 5);
            free(bytes);
        }
    }
}

Test(idx, lengths_are_named)
{
    struct config_data cfg = testing_config("mnist");
    uint8_t *bytes;
    size_t n;

    testing_write_pair(DATA_TRAIN, 7, 5, false);
    bytes = slurp(testing_train_images, &n);
    testing_write(testing_train_images, bytes, n - 1, false);
    testing_expect_refused(&cfg, DATA_TRAIN, "expected 464 bytes for 7 images of 1x8x8, found 463");
    bytes[n] = 0;
    testing_write(testing_train_images, bytes, n + 1, false);
    testing_expect_refused(&cfg, DATA_TRAIN, "expected 464 bytes|found 465");
    testing_write(testing_train_images, bytes, n + 1, true);
    testing_expect_refused(&cfg, DATA_TRAIN, "expected 464 bytes|found at least 465");
    testing_write(testing_train_images, bytes, n - 30, true);
    testing_expect_refused(&cfg, DATA_TRAIN, "expected 464 bytes|found 434");
    cfg.n_train = 2; /* the rest of the file is checked all the same */
    testing_expect_refused(&cfg, DATA_TRAIN, "expected 464 bytes|found 434");
    testing_write(testing_train_images, bytes, 3, false);
    testing_expect_refused(&cfg, DATA_TRAIN, "expected a header of 16 bytes, found 3");
    testing_write(testing_train_images, bytes, 15, false);
    testing_expect_refused(&cfg, DATA_TRAIN, "expected a header of 16 bytes, found 15");
    free(bytes);
}

Test(idx, damaged_streams)
{
    struct config_data cfg = testing_config("mnist");
    uint8_t *bytes, *twice;
    size_t n, refused = 0;

    testing_write_pair(DATA_TRAIN, 7, 5, true);
    bytes = slurp(testing_train_images, &n);
    change_byte(testing_train_images, n - 6, (uint8_t)(bytes[n - 6] ^ 1)); /* of the checksum */
    testing_expect_refused(&cfg, DATA_TRAIN, "damaged gzip file|train-images|checksum");
    for (size_t at = 10; at < n; at++) { /* past the header, whose time and flags do not matter */
        struct dataset *d = NULL;
        enum status st;
        testing_write(testing_train_images, bytes, n, false);
        change_byte(testing_train_images, at, (uint8_t)(bytes[at] ^ 0x10));
        st = testing_open(&cfg, DATA_TRAIN, &d);
        refused += st == ST_INPUT;
        cr_assert(st == ST_INPUT || st == ST_OK, "byte %zu: %s", at, status_text(st));
        if (st == ST_OK) { /* a length that no code uses may change: the contents are the same */
            testing_check_contents(d, 7, 5);
        }
        dataset_close(d);
    }
    cr_assert_geq(refused, n - 10 - 5);
    twice = bytes;
    testing_write(testing_train_images, twice, n, true);
    testing_expect_refused(&cfg, DATA_TRAIN, "wrong magic|found 0x1f8b|compressed twice");
    free(bytes);
}

Test(idx, wrong_headers)
{
    struct config_data cfg = testing_config("mnist");
    static const uint8_t little[] = {3, 8, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0};
    static const char junk[] = "<!DOCTYPE html><html>404</html>";
    uint8_t zero[4 + 12] = {0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8};
    uint32_t wide[] = {1, 1, 4, 4};

    testing_write_pair(DATA_TRAIN, 7, 5, false);
    testing_write(testing_train_images, little, sizeof little, false);
    testing_expect_refused(&cfg, DATA_TRAIN,
                           "magic|train-images|0x00000803, found 0x03080000|little-endian");
    testing_write(testing_train_images, junk, sizeof junk, false);
    testing_expect_refused(&cfg, DATA_TRAIN, "magic|expected 0x00000803, found 0x3c21444f");
    testing_write(testing_train_images, zero, sizeof zero, false);
    testing_expect_refused(&cfg, DATA_TRAIN, "field count: expected 1 to 4294967295, found 0");
    zero[7] = 1;
    zero[11] = 0;
    testing_write(testing_train_images, zero, sizeof zero, false);
    testing_expect_refused(&cfg, DATA_TRAIN, "field height|found 0");
    zero[11] = 8;
    zero[12] = 0xff;
    testing_write(testing_train_images, zero, sizeof zero, false);
    testing_expect_refused(&cfg, DATA_TRAIN, "field width|found 4278190088");
    testing_write_idx(testing_train_images, 4, wide, zero, false);
    testing_expect_refused(&cfg, DATA_TRAIN, "expected 0x00000803, found 0x00000804");
    testing_write_pair(DATA_TRAIN, 7, 5, false);
    change_byte(testing_train_images, 2, 13);
    testing_expect_refused(&cfg, DATA_TRAIN, "found 0x00000d03|not unsigned bytes");
    testing_write_pair(DATA_TRAIN, 7, 5, false);
    testing_move(testing_train_images, "x");
    testing_move(testing_train_labels, testing_train_images);
    testing_move("x", testing_train_labels);
    testing_expect_refused(&cfg, DATA_TRAIN,
                           "training images|0x00000803, found 0x00000801|holds labels, exchange");
    testing_move(testing_train_images, "x");
    testing_write_pair(DATA_TEST, 7, 5, false);
    testing_move(testing_test_images, testing_train_images);
    testing_expect_refused(&cfg, DATA_TRAIN,
                           "training labels|0x00000801, found 0x00000803|holds images, exchange");
}

/* A header may claim anything: what is allocated follows what is there. */
Test(idx, huge_counts_allocate_nothing)
{
    struct config_data cfg = testing_config("mnist");
    uint8_t claim[16 + 100] = {0, 0, 8, 3, 0x80, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0x40, 0};
    uint8_t labels[8 + 100] = {0, 0, 8, 1, 0x80, 0, 0, 0};

    testing_write(testing_train_labels, labels, sizeof labels, false);
    testing_write(testing_train_images, claim, sizeof claim, false);
    testing_expect_refused(&cfg, DATA_TRAIN, "2147483648 images of 1x16384x16384, found 116");
    testing_write(testing_train_images, claim, sizeof claim, true);
    testing_expect_refused(&cfg, DATA_TRAIN, "2147483648 labels, found 108");
    testing_write(testing_train_labels, labels, sizeof labels, true);
    testing_expect_refused(&cfg, DATA_TRAIN, "2147483648 labels, found 108");
    claim[4] = labels[4] = 0; /* 32768 images of 256 MiB: more than any machine has */
    claim[6] = labels[6] = 0x80;
    testing_write(testing_train_images, claim, sizeof claim, true);
    testing_write(testing_train_labels, labels, sizeof labels, true);
    testing_expect_refused(&cfg, DATA_TRAIN, "32768 labels, found 108");
    claim[6] = labels[6] = 0; /* the labels are all there, the images are not */
    claim[7] = labels[7] = 100;
    testing_write(testing_train_images, claim, sizeof claim, true);
    testing_write(testing_train_labels, labels, sizeof labels, true);
    testing_expect_refused(&cfg, DATA_TRAIN,
                           "26843545616 bytes for 100 images of 1x16384x16384, found 116");
}

Test(idx, images_and_labels_that_do_not_belong_together)
{
    struct config_data cfg = testing_config("mnist");
    uint32_t dims[] = {4, 6, 6};
    uint8_t pixels[4 * 36] = {0};

    testing_write_pair(DATA_TRAIN, 7, 5, false);
    testing_write_pair(DATA_TEST, 4, 5, false);
    testing_move(testing_test_labels, testing_train_labels);
    testing_expect_refused(&cfg, DATA_TRAIN,
                           "training images|7 images|4 labels|train-labels|belong together");
    testing_write_pair(DATA_TRAIN, 7, 5, true);
    testing_write_pair(DATA_TEST, 4, 5, false);
    testing_write_idx(testing_test_images, 3, dims, pixels, false);
    testing_expect_refused(&cfg, DATA_TEST,
                           "another shape|t10k-images|expected 1x8x8|found 1x6x6|one dataset");
}

/* Every way in which a label is out of range. */
Test(idx, labels_out_of_range)
{
    struct config_data cfg = testing_config("mnist");
    uint32_t dims[] = {200};
    uint8_t labels[200];

    testing_write_pair(DATA_TRAIN, 200, 10, true);
    testing_write_pair(DATA_TEST, 30, 10, false);
    for (size_t i = 0; i < 200; i++) {
        labels[i] = (uint8_t)(i == 57 ? 10 : i % 10);
    }
    testing_write_idx(testing_train_labels, 1, dims, labels, false);
    testing_expect_refused(&cfg, DATA_TRAIN,
                           "train-labels|sample 57: expected 0 to 9, found 10|data.classes");
    cfg.n_train = 20; /* also beyond the samples that are used */
    testing_expect_refused(&cfg, DATA_TRAIN, "sample 57");
    cfg.n_train = 0;
    labels[57] = 255;
    testing_write_idx(testing_train_labels, 1, dims, labels, true);
    testing_expect_refused(&cfg, DATA_TRAIN, "sample 57: expected 0 to 9, found 255");
    cfg.classes = 256;
    testing_expect_good(&cfg, DATA_TEST, 30, 10);
    cfg.classes = 1;
    testing_expect_refused(&cfg, DATA_TRAIN, "sample 1: expected 0 to 0, found 1");
    cfg.classes = 0;
    for (size_t i = 0; i < 200; i++) {
        labels[i] = (uint8_t)(1 + i % 10); /* from 1 */
    }
    testing_write_idx(testing_train_labels, 1, dims, labels, true);
    testing_expect_refused(&cfg, DATA_TRAIN, "sample 9: expected 0 to 9, found 10|count from 0");
    change_byte(testing_test_labels, 8 + 29, 77);
    testing_expect_refused(&cfg, DATA_TEST, "t10k-labels|sample 29: expected 0 to 9, found 77");
}

/* A test label that training never shows, where the labels themselves tell the class count. */
Test(idx, test_label_unknown_to_training)
{
    struct config_data cfg = testing_config("idx");
    char names[4][32];

    (void)snprintf(names[0], 32, "%s", testing_train_images);
    (void)snprintf(names[1], 32, "%s", testing_train_labels);
    (void)snprintf(names[2], 32, "%s", testing_test_images);
    (void)snprintf(names[3], 32, "%s", testing_test_labels);
    cfg.train_images = names[0];
    cfg.train_labels = names[1];
    cfg.test_images = names[2];
    cfg.test_labels = names[3];
    testing_write_pair(DATA_TRAIN, 20, 5, false);
    testing_write_pair(DATA_TEST, 9, 9, false);
    testing_expect_refused(&cfg, DATA_TEST, "t10k-labels|sample 0: expected 0 to 4, found 8");
    cfg.classes = 9;
    testing_expect_good(&cfg, DATA_TEST, 9, 9);
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
