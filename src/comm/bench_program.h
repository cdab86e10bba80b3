#ifndef COMM_BENCH_PROGRAM_H
#define COMM_BENCH_PROGRAM_H

#include "comm/bench.h"
#include "comm/cost.h"
#include "comm/program.h"

/* The plan and the program of what is measured. */
struct bench_program {
    struct plan *plan;
    struct program *program;
    double predicted_s;
};

/* Errors: as bench_run. `out` may then only be released. */
MUST_CHECK enum status bench_program_init(struct bench_program *out, const struct bench_spec *s,
                                          const struct cost_model *m);
void bench_program_fini(struct bench_program *p); /* takes zeroed and half-built ones */

#endif
