#ifndef COMM_DTYPE_H
#define COMM_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

/* Types of elements in messages. bf16 and fp16 are added in fp32 and rounded to nearest even. */
enum dtype {
    DTYPE_F32,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_I32, /* sums wrap around, means are rounded towards zero */
};

/* How contributions are combined. A mean is the sum, divided once by the number of ranks. */
enum redop {
    REDOP_SUM,
    REDOP_MEAN,
    REDOP_MAX, /* as fmax: a NaN loses against a number */
    REDOP_MIN,
};

size_t dtype_bytes(enum dtype d);

/* Names as in commands and results ("float", "bfloat16", "half", "int32"; "sum", ...). */
const char *dtype_name(enum dtype d);
bool dtype_find(const char *name, enum dtype *out);
const char *redop_name(enum redop r);
bool redop_find(const char *name, enum redop *out);

#endif
