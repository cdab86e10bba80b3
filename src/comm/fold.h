#ifndef COMM_FOLD_H
#define COMM_FOLD_H

#include <stddef.h>
#include <stdint.h>

#include "comm/dtype.h"

/* What one fold works on: elements [first, first + n) relative to the address of each buffer. */
struct fold_args {
    const uintptr_t *src, *dst;
    int n_src, n_dst;
    size_t first, n;
    int divisor; /* 0: none */
    bool stream; /* the results will not be read from a cache: write around it; no buffer is both
                    source and destination */
};

/*
 * dst[m][i] = ((src[0][i] op src[1][i]) op src[2][i]) ... / divisor, for every i and m; one source
 * is a copy. Buffers are either the same or do not overlap. The result does not depend on how the
 * range is cut or on the processor.
 */
typedef void fold_fn(const struct fold_args *a);

/* The fastest one for this processor; never NULL. */
fold_fn *fold_select(enum dtype d, enum redop r);

/* Copy the only source to every destination, bit by bit. */
void fold_copy(const struct fold_args *a, size_t elem_bytes);

#endif
