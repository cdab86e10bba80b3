#ifndef COMM_COST_H
#define COMM_COST_H

#include <stddef.h>

#include "base/status.h"
#include "comm/plan.h"
#include "comm/program.h"

/*
 * How long a collective takes: the program is played in virtual time, all ranks posting at 0.
 *
 * Over links it is the a-b-c model of fabric.h, so that for a uniform chain, a binomial tree and an
 * exchange the known formulas come out: (P-2+n/k)(a+k b+k c) in blocks of k bytes, ceil(log2 P)(a +
 * n b + n c), 2 log2 P a + (P-1)/P (2 n b + n c). In shared memory (topo NULL) an operation takes a
 * fixed time and then so long for every byte that it reads or writes, on one of `n_cores` cores.
 */
struct cost_model {
    const struct topo *topo;
    double scale;             /* of link times */
    double startup_s;         /* a: of every message, in which it keeps its links */
    double reduce_s_per_byte; /* c, on top of the transfer */
    int n_cores;
};

/* Errors: ST_NOMEM. */
MUST_CHECK enum status cost_predict(const struct program *p, const struct cost_model *m,
                                    double *time_s);

/*
 * The chunk size, a power of two, for messages of spec->n elements: the largest one that is as
 * good as the best; `spec->chunk_bytes` is ignored. For plans that are not pipelined 0. Errors:
 * ST_NOMEM.
 */
MUST_CHECK enum status cost_best_chunk(const struct plan *plan, const struct program_spec *spec,
                                       const struct cost_model *m, size_t *chunk_bytes);

/* What starting a copy or a kernel on a device costs: the start-up of its messages. */
extern const double cost_launch_s;

/* The number of cores this process may use. */
int cost_cores(void);

#endif
