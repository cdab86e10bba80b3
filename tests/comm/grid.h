#ifndef TESTS_COMM_GRID_H
#define TESTS_COMM_GRID_H

#include <criterion/criterion.h>
#include <stddef.h>

#include "comm/comm.h"
#include "comm/program.h"

/* What the tests of this folder share: rank counts, topologies and plans, buffers with guards. */
static const int grid_ranks[] = {1, 2, 3, 4, 5, 7, 8, 11, 16};

enum {
    GRID_N_RANKS = sizeof grid_ranks / sizeof *grid_ranks,
    GRID_N_COLLECTIVES = COLL_ALLGATHER + 1,
    GRID_GUARD =
        17 /* elements before and behind each buffer; odd, so that buffers are not aligned */
};

struct topo *grid_mesh(int n);

/* Devices in a row, each linked to the next both ways; and around a switch, with the latencies of
 * the links into it and out of it. */
struct topo *grid_line(int n, int64_t bytes_per_s, int64_t latency_ns);
struct topo *grid_star(int n, int64_t bytes_per_s, int64_t in_ns, int64_t out_ns);

struct plan *grid_plan(const char *backend, const struct topo *t, enum collective c, int root);
struct program *grid_program(const struct plan *p, const struct program_spec *spec);

/* The contribution of `rank` at element i: a small integer that differs by rank and element. */
float grid_value(int rank, size_t i);

/*
 * Buffers of all nodes for one program, filled with grid_value and guarded; out of place the
 * results start as garbage. Only 4-byte types.
 */
struct grid_memory {
    const struct program *p;
    float **in, **out; /* [n_ranks] with guards; the same in place */
    struct program_buffers *buffers;
    uintptr_t *bases;
};

void grid_memory_init(struct grid_memory *m, const struct program *p);
void grid_memory_fini(struct grid_memory *m);

/* Put the contributions back, after a run. */
void grid_memory_fill(struct grid_memory *m);

/* Wrong elements of all results, contributions out of place and guards. */
size_t grid_memory_wrong(const struct grid_memory *m, int root);

#endif
