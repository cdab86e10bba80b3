#ifndef TESTS_CUDA_NCCL_DOUBLE_H
#define TESTS_CUDA_NCCL_DOUBLE_H

#include <stddef.h>

#include "comm/nccl/nccl_library.h"

/* What nccl_double.so has besides NCCL's functions; found with dlsym. */
enum nccl_double_kind {
    NCCL_DOUBLE_ALLREDUCE,
    NCCL_DOUBLE_REDUCE,
    NCCL_DOUBLE_BROADCAST,
    NCCL_DOUBLE_REDUCE_SCATTER,
    NCCL_DOUBLE_ALLGATHER
};

struct nccl_double_call { /* of a rank */
    enum nccl_double_kind kind;
    const void *in;
    void *out;
    size_t n;
    nccl_dtype dtype;
    int root;
    nccl_stream stream;
};

/* Carries out a group, the calls of all ranks, instead of the double, which does it at once. */
typedef void nccl_double_group(void *ctx, const struct nccl_double_call *calls, int n_ranks);
typedef void nccl_double_set_group(nccl_double_group *fn, void *ctx); /* "nccl_double_groups" */

/* "nccl_double_aborts", "nccl_double_inits": communicators that were aborted, and made. */
typedef int nccl_double_count(void);

#endif
