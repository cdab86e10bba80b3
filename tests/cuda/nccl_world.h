#ifndef TESTS_CUDA_NCCL_WORLD_H
#define TESTS_CUDA_NCCL_WORLD_H

/* A communicator that leaves its buckets to NCCL's double, on the host as a machine with eight
 * devices. */

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdatomic.h>

#include "comm/comm.h"
#include "nccl_streams.h"

enum {
    MAX_RANKS = 8,
    N_BUCKETS = 4
};

struct nccl_world {
    struct device_ops device;
    void *set;
    struct device_place places[MAX_RANKS];
    struct config_comm cfg;
    struct topo *topo;
    struct comm_bucket buckets[N_BUCKETS];
    float *arenas[MAX_RANKS];
    struct comm_args args;
    struct comm *comm;
    size_t n;
    int n_ranks;
};

/* While it is set, nothing on a stream is ever done. */
extern atomic_bool nccl_world_stuck;

/* Everything but the communicator, with ranks on devices of their own. */
void nccl_world_init(struct nccl_world *w, int n_ranks);
void nccl_world_fini(struct nccl_world *w);

/* stderr, which is redirected, has all the words, of an array that ends with NULL. */
void nccl_world_message(const char *const *words);

#define MESSAGE(...) nccl_world_message((const char *const[]){__VA_ARGS__, NULL})

#endif
