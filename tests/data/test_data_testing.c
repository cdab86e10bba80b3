#include "data_testing.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "data/dataset.h"
#include "tests/caught.h"

enum {
    SIDE = 8,
    PIXELS = SIDE * SIDE,
    PATHS = 4,
    PATH_BYTES = 512,
    MESSAGE_BYTES = 1 << 14,
};

static char folder[64], message[MESSAGE_BYTES];

const char *testing_folder(void)
{
    if (folder[0] == '\0') {
        (void)snprintf(folder, sizeof folder, "%s/espalier-data-%c%c%c%c%c%c", P_tmpdir, 'X', 'X',
                       'X', 'X', 'X', 'X'); /* mkdtemp replaces them */
        cr_assert_not_null(mkdtemp(folder));
    }
    return folder;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

void testing_clean(void)
{
    if (folder[0] != '\0') {
        (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        folder[0] = '\0';
    }
}

const char *testing_path(const char *name)
{
    static char paths[PATHS][PATH_BYTES];
    static size_t next;
    char *path = paths[next++ % PATHS];

    (void)snprintf(path, PATH_BYTES, "%s/%s", testing_folder(), name);
    return path;
}

void testing_move(const char *from, const char *to)
{
    cr_assert_eq(rename(testing_path(from), testing_path(to)), 0);
}

void testing_write(const char *name, const void *bytes, size_t n, bool gzip)
{
    gzFile f = gzopen(testing_path(name), gzip ? "wb1" : "wbT");

    cr_assert_not_null(f);
    cr_assert_eq(gzwrite(f, bytes, (unsigned)n), (int)n);
    cr_assert_eq(gzclose(f), Z_OK);
}

void testing_write_idx(const char *name, size_t n_dims, const uint32_t *dims, const uint8_t *data,
                       bool gzip)
{
    size_t n = 1, header = 4 + 4 * n_dims;
    uint8_t *file;

    for (size_t i = 0; i < n_dims; i++) {
        n *= dims[i];
    }
    file = malloc(header + n);
    cr_assert_not_null(file);
    file[0] = file[1] = 0;
    file[2] = 8;
    file[3] = (uint8_t)n_dims;
    for (size_t i = 0; i < 4 * n_dims; i++) {
        file[4 + i] = (uint8_t)(dims[i / 4] >> (24 - 8 * (i % 4)));
    }
    memcpy(file + header, data, n);
    testing_write(name, file, header + n, gzip);
    free(file);
}

uint8_t testing_pixel(size_t i, size_t k)
{
    return (uint8_t)((i + 1) * (k * 7919 + 13) % 251 + i % 5);
}

uint8_t testing_label(size_t i, int classes)
{
    return (uint8_t)((size_t)classes - 1 - i % (size_t)classes);
}

const char testing_train_images[] = "train-images-idx3-ubyte";
const char testing_train_labels[] = "train-labels-idx1-ubyte";
const char testing_test_images[] = "t10k-images-idx3-ubyte";
const char testing_test_labels[] = "t10k-labels-idx1-ubyte";

void testing_write_pair(enum data_split split, size_t n, int classes, bool gzip)
{
    bool train = split == DATA_TRAIN;
    uint32_t dims[] = {(uint32_t)n, SIDE, SIDE};
    uint8_t *pixels = malloc(n * PIXELS), *labels = malloc(n);

    cr_assert(pixels != NULL && labels != NULL);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < PIXELS; k++) {
            pixels[i * PIXELS + k] = testing_pixel(i, k);
        }
        labels[i] = testing_label(i, classes);
    }
    testing_write_idx(train ? testing_train_images : testing_test_images, 3, dims, pixels, gzip);
    testing_write_idx(train ? testing_train_labels : testing_test_labels, 1, dims, labels, gzip);
    free(pixels);
    free(labels);
}

struct config_data testing_config(const char *dataset)
{
    static char names[32], none[] = "";
    struct config_data cfg = {0};

    (void)snprintf(names, sizeof names, "%s", dataset);
    cfg.dataset = names;
    cfg.path = (char *)testing_folder();
    cfg.train_images = cfg.train_labels = cfg.test_images = cfg.test_labels = none;
    cfg.prefetch = 2;
    return cfg;
}

enum status testing_open(const struct config_data *cfg, enum data_split split, struct dataset **out)
{
    struct caught c = caught_begin(STDERR_FILENO);
    enum status st = dataset_open(cfg, split, 1, out);

    caught_end(c, message, sizeof message);
    return st;
}

const char *testing_message(void)
{
    return message;
}

void testing_check_contents(const struct dataset *d, size_t n, int classes)
{
    cr_assert_eq(dataset_n(d), n);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *x = dataset_pixels(d, i, NULL);
        cr_assert_eq(dataset_label(d, i), testing_label(i, classes));
        for (size_t k = 0; k < PIXELS; k++) {
            cr_assert_eq(x[k], testing_pixel(i, k));
        }
    }
}

void testing_expect_good(const struct config_data *cfg, enum data_split split, size_t n,
                         int classes)
{
    struct dataset *d = NULL;
    size_t shape[3];

    cr_assert_eq(testing_open(cfg, split, &d), ST_OK, "%s", testing_message());
    cr_assert_str_eq(testing_message(), "");
    dataset_shape(d, shape);
    cr_assert(shape[0] == 1 && shape[1] == SIDE && shape[2] == SIDE);
    testing_check_contents(d, n, classes);
    dataset_close(d);
    cr_assert_eq(mem_live(), 0);
}

void testing_expect_refused(const struct config_data *cfg, enum data_split split, const char *texts)
{
    struct dataset *d = NULL;
    size_t live = mem_live();
    enum status st = testing_open(cfg, split, &d);
    char copy[512], *rest = copy, *text;

    cr_assert_eq(st, ST_INPUT, "'%s' gives %s", texts, status_text(st));
    cr_assert_null(d);
    cr_assert_eq(mem_live(), live, "'%s' leaks", texts);
    cr_assert(strchr(message, '\n') == message + strlen(message) - 1, "not one line: %s", message);
    (void)snprintf(copy, sizeof copy, "%s", texts);
    while ((text = strsep(&rest, "|")) != NULL) {
        cr_assert_not_null(strstr(message, text), "'%s' is not in: %s", text, message);
    }
}
