#ifndef CLI_BENCH_PEER_H
#define CLI_BENCH_PEER_H

#include "base/status.h"

/*
 * Run commbench-mpi, which stands beside this program, under mpirun with `n_ranks` processes and
 * the same flags. Errors: ST_UNSUPPORTED if it was not built or there is no mpirun; ST_INTERNAL if
 * it ended with an error.
 */
MUST_CHECK enum status bench_peer_run(int n_ranks, int argc, char **argv);

#endif
