#ifndef DATA_DATASET_H
#define DATA_DATASET_H

/* What the files of this module share: the fields of a dataset, and how one is filled. */

#include "data/data.h"

struct synthetic;

struct dataset {
    size_t n, c, h, w;   /* samples as they are stored or made: pixels[n, c, h, w] */
    size_t out_h, out_w; /* as the network sees them */
    int classes;
    uint8_t *pixels, *labels;    /* NULL for a synthetic dataset */
    struct synthetic *synthetic; /* NULL for one from files */
    float *scale, *bias;         /* [c]: the network sees pixel * scale + bias */
};

struct dataset_request;

/* One row of the table of datasets. */
struct dataset_source {
    const char *name; /* value of data.dataset */
    const char
        *folder; /* where the files are when data.path is empty; NULL = data.path is needed */
    const char *remedy; /* what to do when a file is missing */
    int classes;        /* 0 = the labels or data.classes tell */
    size_t n_norm;      /* entries of mean and std; 1 = the same for every channel */
    double mean[3], std[3];

    /* Fill n, c, h, w, classes and the samples of a zeroed dataset; errors as dataset_open. */
    enum status (*open)(const struct dataset_request *q, struct dataset *d);
};

struct dataset_request {
    const struct config_data *cfg;
    const struct dataset_source *source;
    const char *folder; /* data.path or the source's own */
    enum data_split split;
    uint64_t seed;
};

/* "train" or "test". */
const char *dataset_split_name(enum data_split split);

/*
 * How many of the `available` samples of `path` are used: all, or the first n_train or n_test.
 * Errors: ST_INPUT when more are wanted than there are.
 */
MUST_CHECK enum status dataset_limit(const struct dataset_request *q, const char *path,
                                     size_t available, size_t *n);

/*
 * Check the label number `index` of file `path` against [0, classes). Errors: ST_INPUT.
 */
MUST_CHECK enum status dataset_check_label(const char *path, size_t index, unsigned label,
                                           int classes);

/* Bytes of scratch that dataset_pixels needs. */
size_t dataset_scratch_bytes(const struct dataset *d);

/* The pixels[c, h, w] of sample `id`: stored ones, or made in `scratch`. */
const uint8_t *dataset_pixels(const struct dataset *d, size_t id, uint8_t *scratch);

int32_t dataset_label(const struct dataset *d, size_t id);

#endif
