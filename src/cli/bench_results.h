#ifndef CLI_BENCH_RESULTS_H
#define CLI_BENCH_RESULTS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"
#include "comm/bench.h"

/* The table on stdout and the file of --out. */
struct bench_results;

/*
 * `path` ends in .csv or .json, or is "" for no file. `add`: another program has begun the file and
 * will end it, and waits meanwhile; this one only adds its lines. What was measured is in the file
 * after each line, whatever becomes of the program. Errors: ST_IO, ST_NOMEM.
 */
MUST_CHECK enum status bench_results_open(const char *path, bool add, struct bench_results **out);

/* Begin the block of a backend in the table; its heading comes with the first line. */
void bench_results_begin(struct bench_results *r);

/* One line: `place[0]` out of place, `place[1]` in place; NULL where it was not measured. */
void bench_results_line(struct bench_results *r, const struct bench_spec *spec,
                        const struct bench_result *const place[2]);

/* Takes NULL. Errors: ST_IO if the file could not be written whole. */
MUST_CHECK enum status bench_results_close(struct bench_results *r);

#endif
