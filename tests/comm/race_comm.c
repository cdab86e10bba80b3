/*
 * Ranks that post and wait in orders of their own, step after step, with and without workers, and
 * an abort in the middle: a driver for ThreadSanitizer, which a test framework's processes do not
 * start under. Exits with 0 if every sum was right.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "comm/comm.h"

enum {
    N_RANKS = 4,
    N_BUCKETS = 3,
    STEPS = 100
};

static const size_t sizes[N_BUCKETS] = {30000, 3, 5000};

struct rank {
    struct comm *comm;
    const struct comm_bucket *buckets;
    float *arena;
    int rank, abort_at;
    size_t wrong;
    enum status st;
};

static enum status step(struct rank *r, int k)
{
    for (size_t i = 0; i < N_BUCKETS; i++) {
        size_t b = (i + (size_t)r->rank) % N_BUCKETS;
        for (size_t e = 0; e < r->buckets[b].n; e++) {
            r->arena[r->buckets[b].offset + e] = (float)((size_t)(r->rank + k) + e % 100);
        }
        TRY(comm_post(r->comm, r->rank, b));
    }
    for (size_t b = 0; b < N_BUCKETS; b++) {
        TRY(comm_wait(r->comm, r->rank, b));
        for (size_t e = 0; e < r->buckets[b].n; e++) {
            size_t sum = N_RANKS * ((size_t)k + e % 100) + N_RANKS * (N_RANKS - 1) / 2;
            r->wrong += r->arena[r->buckets[b].offset + e] != (float)sum;
        }
    }
    return ST_OK;
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;

    for (int k = 0; r->st == ST_OK && k < STEPS; k++) {
        if (k == r->abort_at) {
            (void)comm_abort(r->comm, r->rank, ST_CANCELLED);
        }
        r->st = step(r, k);
    }
    return NULL;
}

/* Returns the number of failures. */
static size_t run(const char *backend, int64_t workers, int abort_at, const char *fabric)
{
    struct config_comm cfg = {.backend = (char *)(uintptr_t)backend,
                              .chunk_bytes = 8192,
                              .chunks = (char *)(uintptr_t) "",
                              .timeout_s = 300,
                              .topology = (char *)(uintptr_t) "",
                              .plan = (char *)(uintptr_t) "",
                              .treepack = (char *)(uintptr_t) "exact",
                              .wire = (char *)"fp32",
                              .fabric = (char *)(uintptr_t)fabric,
                              .fabric_scale = 1e-7,
                              .workers = workers,
                              .order = (char *)(uintptr_t) "fifo",
                              .buckets = (char *)(uintptr_t) "size",
                              .sync = (char *)(uintptr_t) "allreduce"};
    struct comm_bucket buckets[N_BUCKETS];
    struct rank ranks[N_RANKS] = {0};
    float *arenas[N_RANKS];
    pthread_t threads[N_RANKS];
    struct topo *topo;
    struct comm *comm;
    size_t n = 0, failures = 0;
    struct comm_args args = {.cfg = &cfg,
                             .n_ranks = N_RANKS,
                             .arenas = arenas,
                             .buckets = buckets,
                             .n_buckets = N_BUCKETS};

    for (size_t b = 0; b < N_BUCKETS; b++) {
        buckets[b] = (struct comm_bucket){n, sizes[b], "layer"};
        n += sizes[b];
    }
    for (int r = 0; r < N_RANKS; r++) {
        arenas[r] = mem_alloc(n, sizeof(float));
    }
    if (topo_mesh(N_RANKS, 1000, 5, &topo) != ST_OK) {
        return 1;
    }
    args.topo = topo;
    if (comm_create(&args, &comm) != ST_OK) {
        return 1;
    }
    for (int r = 0; r < N_RANKS; r++) {
        ranks[r] = (struct rank){comm, buckets, arenas[r], r, r == 1 ? abort_at : -1, 0, ST_OK};
        if (pthread_create(&threads[r], NULL, rank_main, &ranks[r]) != 0) {
            return 1;
        }
    }
    for (int r = 0; r < N_RANKS; r++) {
        enum status want = abort_at < 0 ? ST_OK : ST_PEER;
        (void)pthread_join(threads[r], NULL);
        failures += ranks[r].wrong + (ranks[r].st != want);
    }
    comm_destroy(comm);
    topo_destroy(topo);
    for (int r = 0; r < N_RANKS; r++) {
        mem_free(arenas[r]);
    }
    return failures;
}

int main(void)
{
    size_t failures = 0;

    for (size_t i = 0; planner_at(i) != NULL; i++) {
        const char *backend = planner_at(i)->name;
        failures += run(backend, 0, -1, "memory") + run(backend, 2, -1, "memory");
        failures += run(backend, 1, STEPS / 2, "memory") + run(backend, 0, -1, "emulate");
    }
    printf("race_comm: %zu failures\n", failures);
    return failures == 0 && mem_live() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
