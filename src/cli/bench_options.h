#ifndef CLI_BENCH_OPTIONS_H
#define CLI_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "comm/dtype.h"
#include "comm/plan.h"

enum {
    BENCH_MAX_BACKENDS = 32
};

/* The command line of `commbench`. */
struct bench_options {
    const char *backends[BENCH_MAX_BACKENDS]; /* registered planners, auto or nccl */
    size_t n_backends;
    enum collective collective;
    enum dtype dtype;
    enum redop redop;
    int root, n_devices, n_workers; /* n_devices 0: all of the topology, or 2 */
    uint64_t begin, end, factor, chunk_bytes;
    size_t n_iterations, n_warmup;
    bool check, out_of_place, in_place, emulate, cuda, oversubscribe, help, version;
    double timeout_s, scale, startup_us;
    const char *topology, *out; /* "" if not given; point into argv */
    const char *plan;           /* NULL if not given */
    const char *peer;           /* NULL if not given */
    const char *nccl_log;       /* NULL if not given */
};

/* Errors: ST_BADARG, logged. */
MUST_CHECK enum status bench_options_parse(int argc, const char *const *argv,
                                           struct bench_options *o);

/* From one size to the next, with one element after 0; false after the last one. */
bool bench_options_next(const struct bench_options *o, uint64_t *bytes);

/* What --help says about the flags. */
void bench_options_print(FILE *out);

#endif
