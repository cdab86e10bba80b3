#ifndef NN_CUDNN_CD_CONTEST_H
#define NN_CUDNN_CD_CONTEST_H

#include "nn/cudnn/cd.h"
#include "nn/tuning_table.h"

/* One of the algorithms for a call. */
struct cd_candidate {
    int algorithm;
    size_t work_bytes;
};

/* What a call is, and how it is made with an algorithm on memory of any content. */
struct cd_contest {
    const struct cd *lib;
    const struct op_env *env;
    char key[TUNING_KEY_BYTES - 32]; /* names pass, shapes and type */
    size_t bytes[3];                 /* of x, w and y or their gradients */
    cudnnStatus_t (*run)(const void *ctx, int algorithm, void *const memory[3], void *work,
                         size_t work_bytes);
    const void *ctx;
};

enum {
    CD_CANDIDATES = 16
};

/*
 * The fastest of `n` candidates, an index. Times come from the tuning, and what is missing there is
 * measured and entered, so that it is measured once for each kind of GPU. Without a place to keep
 * times, or without the memory to measure, it is the first. Errors: ST_NOMEM.
 */
MUST_CHECK enum status cd_contest_best(const struct cd_contest *c, const struct cd_candidate *all,
                                       int n, int *best);

#endif
