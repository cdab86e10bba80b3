#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data_testing.h"

TestSuite(idx_refused, .fini = testing_clean);

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

Test(idx_refused, missing_files_and_wrong_places)
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
Test(idx_refused, files_cut_short_anywhere)
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

Test(idx_refused, lengths_are_named)
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

Test(idx_refused, damaged_streams)
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

Test(idx_refused, wrong_headers)
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
Test(idx_refused, huge_counts_allocate_nothing)
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

Test(idx_refused, images_and_labels_that_do_not_belong_together)
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
Test(idx_refused, labels_out_of_range)
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
Test(idx_refused, test_label_unknown_to_training)
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
