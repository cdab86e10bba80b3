#ifndef DATA_DATA_H
#define DATA_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "config/config.h"

/* --- dataset: immutable, shared by all ranks
 * ------------------------------------------------------------------ */

struct dataset;

enum data_split {
    DATA_TRAIN,
    DATA_TEST
};

/*
 * Open one split of the configured dataset and check it whole: file lengths against headers, images
 * against labels, labels against the class count, test images against the shape of the training
 * images. `cfg` is not needed afterwards.
 *
 * Files may be compressed with gzip whatever their names are. `idx` takes images [n, h, w] and
 * [n, c, h, w]; with data.classes = 0 it has as many classes as its training labels show. Where
 * data.mean and data.std are empty, `idx` uses 0.5 and 0.5. Padding of pad_to and crop_pad is
 * pixels of value 0 before normalisation, and pad_to keeps the image in the middle. A synthetic
 * sample is a function of (seed, split, index), its class is index mod classes; unless given there
 * are 10 classes, 2048 and 512 samples of 3x32x32.
 *
 * Errors: ST_INPUT naming file, field, expected and found value and the remedy; ST_IO when the disk
 * fails; ST_NOMEM.
 */
MUST_CHECK enum status dataset_open(const struct config_data *cfg, enum data_split split,
                                    uint64_t seed, struct dataset **out);
void dataset_close(struct dataset *d); /* takes NULL */

size_t dataset_n(const struct dataset *d);
int dataset_classes(const struct dataset *d);

/* Shape [C, H, W] of one sample as the network sees it (after pad_to). */
void dataset_shape(const struct dataset *d, size_t shape[3]);

/* --- which samples: pure functions
 * ---------------------------------------------------------------------------- */

/*
 * Who gets which samples. In an epoch the `n` samples are permuted by (seed, epoch); step s takes
 * the next P·batch·accum of them as one global batch, whose samples are dealt to the ranks in
 * contiguous runs as equal as possible (sizes differ by at most one; the first ranks get the larger
 * ones) and each rank's run is cut into micro-batches likewise. A last, smaller global batch is
 * trained too unless drop_last.
 */
struct schedule {
    size_t n, batch, accum; /* samples; per rank and micro-batch; micro-batches per step */
    int n_ranks;
    bool drop_last;
};

struct slice {
    size_t first, n; /* positions in the epoch's order */
    size_t n_global; /* samples of the whole step over all ranks and micro-batches */
};

size_t schedule_steps(const struct schedule *s);
struct slice schedule_slice(const struct schedule *s, size_t step, int rank, size_t micro);

/* Write the epoch's order of [0, n): a permutation by (seed, epoch), or the identity without
 * shuffle. */
void schedule_order(size_t n, bool shuffle, uint64_t seed, uint64_t epoch, uint32_t *order);

/* --- loader: one per rank, with a thread of its own
 * ----------------------------------------------------------- */

struct loader;

struct batch {
    const float *x; /* [n, C, H, W], ready for the net; valid until loader_next or loader_start */
    const int32_t *labels; /* [n] */
    size_t n;              /* may be 0 in an epoch's last step */
    size_t n_global;       /* samples of the whole step */
    size_t step, micro;    /* in the epoch */
};

struct loader_args {
    const struct dataset *dataset; /* must outlive the loader */
    const struct config_data *cfg;
    struct schedule schedule;
    int rank;
    uint64_t seed;
    bool training; /* shuffle and augment */
};

/* Errors: ST_NOMEM, ST_INTERNAL (no thread). */
MUST_CHECK enum status loader_create(const struct loader_args *args, struct loader **out);
void loader_destroy(struct loader *l); /* takes NULL; also in mid-epoch */

/* Begin epoch `epoch` at step `first_step`: the thread starts to fill batches. Abandons an
 * unfinished one. */
void loader_start(struct loader *l, uint64_t epoch, size_t first_step);

/*
 * The next micro-batch of the epoch, in order. Waits for the thread if it is behind. Returns false
 * past the end.
 */
bool loader_next(struct loader *l, struct batch *out);

#endif
