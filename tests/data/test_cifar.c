#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/dataset.h"
#include "data_testing.h"

enum {
    RECORDS = 10000,
    RECORD = 3073,
    BYTES = RECORDS * RECORD,
};

TestSuite(cifar, .fini = testing_clean);

/* The pixel `k` of record `i` of file `file`: file and record can be read off the first ones. */
static uint8_t pixel(size_t file, size_t i, size_t k)
{
    return k == 0 ? (uint8_t)file : k == 1 ? (uint8_t)i : k == 2 ? (uint8_t)(i >> 8) : (uint8_t)k;
}

/* Write `n` bytes of the generated file number `file`, with room for one more record. */
static void write_file(const char *name, size_t file, size_t n, bool gzip)
{
    uint8_t *bytes = malloc(BYTES + RECORD);

    cr_assert(bytes != NULL && n <= BYTES + RECORD);
    for (size_t i = 0; i <= RECORDS; i++) {
        bytes[i * RECORD] = (uint8_t)((i + file) % 10);
        for (size_t k = 0; k < RECORD - 1; k++) {
            bytes[i * RECORD + 1 + k] = pixel(file, i, k);
        }
    }
    testing_write(name, bytes, n, gzip);
    free(bytes);
}

static void write_all(const char *folder)
{
    char name[64];

    for (size_t k = 1; k <= 5; k++) {
        (void)snprintf(name, sizeof name, "%sdata_batch_%zu.bin", folder, k);
        write_file(name, k, BYTES, true); /* compressed only to keep it small on the disk */
    }
    (void)snprintf(name, sizeof name, "%stest_batch.bin", folder);
    write_file(name, 6, BYTES, false);
}

static void check(const struct config_data *cfg, enum data_split split, size_t n, size_t first_file)
{
    struct dataset *d = NULL;
    size_t shape[3];

    cr_assert_eq(testing_open(cfg, split, &d), ST_OK, "%s", testing_message());
    dataset_shape(d, shape);
    cr_assert(shape[0] == 3 && shape[1] == 32 && shape[2] == 32);
    cr_assert(dataset_n(d) == n && dataset_classes(d) == 10);
    for (size_t i = 0; i < n; i += 7) {
        const uint8_t *x = dataset_pixels(d, i, NULL);
        size_t file = first_file + i / RECORDS, record = i % RECORDS;
        cr_assert_eq(dataset_label(d, i), (int)((record + file) % 10));
        for (size_t k = 0; k < RECORD - 1; k += 97) {
            cr_assert_eq(x[k], pixel(file, record, k));
        }
        cr_assert(x[1] == pixel(file, record, 1) && x[2] == pixel(file, record, 2));
    }
    dataset_close(d);
    cr_assert_eq(mem_live(), 0);
}

Test(cifar, both_folders_and_limits)
{
    struct config_data cfg = testing_config("cifar10");
    char inner[512];

    cr_assert_eq(mkdir(testing_path("cifar-10-batches-bin"), 0700), 0);
    write_all("cifar-10-batches-bin/");
    check(&cfg, DATA_TRAIN, 50000, 1);
    check(&cfg, DATA_TEST, 10000, 6);
    (void)snprintf(inner, sizeof inner, "%s", testing_path("cifar-10-batches-bin"));
    cfg.path = inner;
    check(&cfg, DATA_TEST, 10000, 6);
    cfg.n_train = 10001;
    cfg.n_test = 1;
    check(&cfg, DATA_TRAIN, 10001, 1);
    check(&cfg, DATA_TEST, 1, 6);
    cfg.n_test = 10001;
    testing_expect_refused(&cfg, DATA_TEST, "data.n_test = 10001|expected 0 to 10000");
    cr_assert_eq(unlink(testing_path("cifar-10-batches-bin/data_batch_3.bin")), 0);
    testing_expect_refused(&cfg, DATA_TRAIN,
                           "training batch 3|data_batch_3.bin|no such file|set data.path");
}

Test(cifar, bad_files)
{
    struct config_data cfg = testing_config("cifar10");
    static const char name[] = "test_batch.bin";
    char none[] = "";
    uint8_t *bytes;

    testing_expect_refused(&cfg, DATA_TRAIN, "data_batch_1.bin|no such file|set data.path");
    testing_expect_refused(&cfg, DATA_TEST, "test_batch.bin|no such file|cifar-10-binary.tar.gz");
    write_file(name, 6, BYTES - 1, false);
    testing_expect_refused(&cfg, DATA_TEST, "test_batch.bin|expected 30730000|found 30729999");
    write_file(name, 6, BYTES + 1, false);
    testing_expect_refused(&cfg, DATA_TEST, "expected 30730000|found 30730001");
    write_file(name, 6, BYTES - RECORD, false); /* at the border of a record */
    testing_expect_refused(&cfg, DATA_TEST, "expected 30730000|found 30726927");
    write_file(name, 6, BYTES - RECORD, true);
    testing_expect_refused(&cfg, DATA_TEST, "expected 30730000|found 30726927");
    write_file(name, 6, BYTES + 1, true);
    testing_expect_refused(&cfg, DATA_TEST, "expected 30730000|found at least 30730001");
    write_file(name, 6, 0, false);
    testing_expect_refused(&cfg, DATA_TEST, "expected 30730000|found 0");
    bytes = calloc(RECORDS, RECORD + 1); /* CIFAR-100 has two label bytes */
    testing_write(name, bytes, (size_t)RECORDS * (RECORD + 1), false);
    testing_expect_refused(&cfg, DATA_TEST, "expected 30730000|found 30740000|CIFAR-100");
    bytes[(size_t)9999 * RECORD] = 10;
    testing_write(name, bytes, BYTES, true);
    testing_expect_refused(&cfg, DATA_TEST,
                           "test_batch.bin|sample 9999: expected 0 to 9, found 10");
    bytes[0] = 255;
    testing_write(name, bytes, BYTES, false);
    testing_expect_refused(&cfg, DATA_TEST, "sample 0: expected 0 to 9, found 255");
    free(bytes);
    cr_assert_eq(unlink(testing_path(name)), 0);
    cr_assert_eq(mkdir(testing_path(name), 0700), 0);
    testing_expect_refused(&cfg, DATA_TEST, "test batch|expected a file, found a directory");
    cfg.path = none;
    testing_expect_refused(&cfg, DATA_TEST, "data.path is not given|cifar10");
}

Test(cifar, every_failed_allocation_is_reported)
{
    struct config_data cfg = testing_config("cifar10");
    enum status st = ST_NOMEM;

    cfg.n_test = 100;
    write_file("test_batch.bin", 6, BYTES, false);
    for (size_t k = 1; st != ST_OK; k++) {
        struct dataset *d = NULL;
        mem_fail_at(k);
        st = testing_open(&cfg, DATA_TEST, &d);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        dataset_close(d);
        cr_assert_eq(mem_live(), 0, "failure %zu leaks", k);
    }
}
