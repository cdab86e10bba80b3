#include "comm/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [DTYPE_F32] = {"float", 4},
    [DTYPE_BF16] = {"bfloat16", 2},
    [DTYPE_F16] = {"half", 2},
    [DTYPE_I32] = {"int32", 4},
};

static const char *const redops[] = {
    [REDOP_SUM] = "sum",
    [REDOP_MEAN] = "mean",
    [REDOP_MAX] = "max",
    [REDOP_MIN] = "min",
};

size_t dtype_bytes(enum dtype d)
{
    return dtypes[d].bytes;
}

const char *dtype_name(enum dtype d)
{
    return dtypes[d].name;
}

bool dtype_find(const char *name, enum dtype *out)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = (enum dtype)i;
            return true;
        }
    }
    return false;
}

const char *redop_name(enum redop r)
{
    return redops[r];
}

bool redop_find(const char *name, enum redop *out)
{
    for (size_t i = 0; i < sizeof redops / sizeof *redops; i++) {
        if (strcmp(name, redops[i]) == 0) {
            *out = (enum redop)i;
            return true;
        }
    }
    return false;
}
