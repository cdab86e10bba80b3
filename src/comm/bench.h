#ifndef COMM_BENCH_H
#define COMM_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"
#include "comm/dtype.h"
#include "comm/plan.h"

/* One collective to be measured. */
struct bench_spec {
    const struct topo *topo; /* a device for each rank */
    const char *backend;     /* or "auto" */
    const char *plan;        /* a plan file to run instead, or NULL */
    enum collective collective;
    enum dtype dtype;
    enum redop redop;
    int root;
    size_t n; /* elements: of the message; of the whole result for allgather and reduce-scatter */
    bool in_place;
    bool check;
    size_t chunk_bytes; /* 0: chosen */
    bool emulate;       /* keep to the links of the topology, `scale` times slower */
    double scale, startup_s;
    int n_workers;
    size_t n_warmup, n_iterations; /* n_iterations 0: chosen by time */
    double timeout_s;
};

struct bench_result {
    double time_s; /* of one call: the slowest rank's time for all calls, divided by their number */
    double algbw_gbs, busbw_gbs;
    double predicted_s; /* by the cost model */
    char backend[32];   /* the one that ran */
    size_t n_iterations;
    size_t wrong; /* elements over all ranks, 0 if not checked */
};

/*
 * Run the collective on threads that stand for the ranks, all calls back to back, after one run on
 * data that differ by rank and element whose every result is compared. Errors: ST_INPUT, ST_NOMEM,
 * ST_TIMEOUT, ST_INTERNAL.
 */
MUST_CHECK enum status bench_run(const struct bench_spec *spec, struct bench_result *out);

/*
 * How many calls to measure after a measurement of `n` calls that took `took_s`: `n` if it was long
 * enough, about 0.1 s; after none, a first number.
 */
size_t bench_more(size_t n, double took_s);

/* busbw / algbw, as the field defines it. */
double bench_bus_factor(enum collective c, int n_ranks);

#endif
