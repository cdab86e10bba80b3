#ifndef TRAIN_TRACE_NAMES_H
#define TRAIN_TRACE_NAMES_H

#include <stddef.h>

#include "base/status.h"

/* Names as they stand inside JSON's strings; bytes that are no character of UTF-8 become question
 * marks. */
struct trace_names {
    char **texts; /* [n] */
    size_t n;
    size_t longest; /* bytes of the longest */
};

/* Of `names` [n], copied. `t` is zeroed before. Errors: ST_NOMEM; call fini all the same. */
MUST_CHECK enum status trace_names_init(struct trace_names *t, const char *const *names, size_t n);
void trace_names_fini(struct trace_names *t);

#endif
