#ifndef CLI_BENCH_PEER_H
#define CLI_BENCH_PEER_H

#include <stdbool.h>

#include "base/status.h"

/* mpi is the library that the system prefers, openmpi and mpich are those, where both are there. */
bool bench_peer_known(const char *peer);

/*
 * Run commbench-<peer>, which stands beside this program, under the mpirun that belongs to it with
 * `n_ranks` processes and the same flags. Errors: ST_UNSUPPORTED if it was not built or there is no
 * such mpirun; ST_INTERNAL if it ended with an error.
 */
MUST_CHECK enum status bench_peer_run(const char *peer, int n_ranks, int argc, char **argv);

#endif
