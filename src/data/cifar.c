#include "data/cifar.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/datafile.h"

enum {
    CHANNELS = 3,
    SIDE = 32,
    PIXELS = CHANNELS * SIDE * SIDE,
    RECORD = 1 + PIXELS,
    FILE_RECORDS = 10000, /* fixed by the format: the files have no header that would tell */
    FILE_BYTES = FILE_RECORDS * RECORD,
    CIFAR100_RECORD = 2 + PIXELS,
    TRAIN_FILES = 5,
    CLASSES = 10,
};

static const char contents[] = "10000 records of 3073";

/* The folder itself, or the one that unpacking the archive makes in it. */
static enum status find_folder(const struct dataset_request *q, char **out)
{
    char *sub = mem_printf("%s/cifar-10-batches-bin", q->folder);
    struct stat info;

    if (sub != NULL && (stat(sub, &info) != 0 || !S_ISDIR(info.st_mode))) {
        mem_free(sub);
        sub = mem_strdup(q->folder);
    }
    if (sub == NULL) {
        return log_fail(ST_NOMEM, "out of memory for the name of a folder, %s", q->folder);
    }
    *out = sub;
    return ST_OK;
}

static enum status check_length(const struct datafile *f)
{
    if (datafile_is_plain(f) && f->disk_bytes > 0 && f->disk_bytes % CIFAR100_RECORD == 0 &&
        f->disk_bytes % RECORD != 0) {
        return log_fail(ST_INPUT,
                        "wrong length of %s, %s, expected %d bytes for %s, found %llu, which is a "
                        "CIFAR-100 file, give CIFAR-10's binary version",
                        f->what, f->path, FILE_BYTES, contents, (unsigned long long)f->disk_bytes);
    }
    return datafile_expect(f, FILE_BYTES, contents);
}

/*
 * Read one file. Record i becomes sample `first` + i; those from d->n on are checked and dropped.
 */
static enum status read_records(struct datafile *f, struct dataset *d, size_t first)
{
    uint8_t record[RECORD];
    size_t got;

    TRY(check_length(f));
    for (size_t i = 0; i < FILE_RECORDS; i++) {
        TRY(datafile_read(f, record, RECORD, &got));
        if (got < RECORD) {
            break; /* datafile_finish reports it */
        }
        TRY(dataset_check_label(f->path, i, record[0], d->classes));
        if (first + i < d->n) {
            d->labels[first + i] = record[0];
            memcpy(d->pixels + (first + i) * PIXELS, record + 1, PIXELS);
        }
    }
    return datafile_finish(f, FILE_BYTES, contents);
}

static enum status read_file(const struct dataset_request *q, const char *folder, int k,
                             struct dataset *d)
{
    struct datafile f = {0};
    bool train = q->split == DATA_TRAIN;
    char name[32], what[32];
    enum status st;

    (void)snprintf(name, sizeof name, train ? "data_batch_%d.bin" : "test_batch.bin", k + 1);
    (void)snprintf(what, sizeof what, train ? "training batch %d" : "test batch", k + 1);
    st = datafile_open(&f, folder, name, what, q->source->remedy);
    if (st == ST_OK) {
        st = read_records(&f, d, (size_t)k * FILE_RECORDS);
    }
    datafile_close(&f);
    return st;
}

enum status cifar_open(const struct dataset_request *q, struct dataset *d)
{
    int n_files = q->split == DATA_TRAIN ? TRAIN_FILES : 1;
    char *folder = NULL;
    enum status st;

    d->c = CHANNELS;
    d->h = d->w = SIDE;
    d->classes = q->cfg->classes > 0 ? (int)q->cfg->classes : CLASSES;
    TRY(dataset_limit(q, q->folder, (size_t)n_files * FILE_RECORDS, &d->n));
    TRY(find_folder(q, &folder));
    d->pixels = mem_alloc(d->n, PIXELS);
    d->labels = mem_alloc(d->n, 1);
    st = d->pixels != NULL && d->labels != NULL
             ? ST_OK
             : log_fail(ST_NOMEM, "out of memory for %zu CIFAR-10 images, set data.n_%s", d->n,
                        dataset_split_name(q->split));
    for (int k = 0; k < n_files && st == ST_OK; k++) {
        st = read_file(q, folder, k, d);
    }
    mem_free(folder);
    return st;
}
