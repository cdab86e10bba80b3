#ifndef TESTS_CUDA_ENGINE_WORLD_H
#define TESTS_CUDA_ENGINE_WORLD_H

/* The CUDA engine on recorded devices, with ranks that write, post, wait and read. */

#include "comm/cuda/engine_cuda.h"
#include "comm/program.h"
#include "grid.h"
#include "recorder.h"

enum {
    MAX_JOBS = 3,
    N_RUNS = 2
};

struct setup {
    const char *backend;
    enum collective collective;
    int n_ranks, root;
    size_t chunk_bytes;
    bool in_place, peers, graphs, mean, last_first;
    int ranks_per_device;
    int n_jobs;
    size_t n[MAX_JOBS];
};

struct world {
    struct setup s;
    struct topo *topo;
    struct plan *plan;
    struct recorder *recorder;
    struct device_ops ops;
    struct engine_cuda *engine;
    struct program *programs[MAX_JOBS];
    struct program_buffers *buffers[MAX_JOBS];
    void *streams[RECORDER_MAX_RANKS];
    size_t wrong;
};

/* An allreduce in place of one job of 37 elements, on devices that reach each other. */
struct setup world_basic(const char *backend, int n_ranks, size_t chunk_bytes);

void world_init(struct world *w, const struct setup *s);
void world_fini(struct world *w); /* no rule may have been broken */

/* All ranks write, post, wait for and read every job, N_RUNS times. */
void world_issue(struct world *w);

/* What a rank does before a post and after a wait; which = job * N_RUNS + run. */
void world_produce(void *world, int rank, int which);
void world_consume(void *world, int rank, int which);

/* Has anybody read a wrong result, since the last call? */
bool world_went_wrong(void *world);

#endif
