/*
 * Ranks that post in orders of their own on the CPU as a machine with several devices, by the
 * engine's own streams and by NCCL's double, whose work a thread watches; they read the times of
 * their buckets, and one of them aborts: a driver for ThreadSanitizer, which a test framework's
 * processes do not start under. Exits with 0 if every sum was right.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "comm/comm.h"

enum {
    N_RANKS = 4,
    N_BUCKETS = 3,
    STEPS = 60
};

static const size_t sizes[N_BUCKETS] = {3000, 3, 500};

struct rank {
    struct comm *comm;
    const struct comm_bucket *buckets;
    float *arena;
    int rank, abort_at;
    size_t wrong;
    enum status st;
};

static enum status count_all(int *n)
{
    *n = N_RANKS;
    return ST_OK;
}

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
        struct comm_times t;
        TRY(comm_wait(r->comm, r->rank, b));
        for (size_t e = 0; e < r->buckets[b].n; e++) {
            size_t sum = N_RANKS * ((size_t)k + e % 100) + N_RANKS * (N_RANKS - 1) / 2;
            r->wrong += r->arena[r->buckets[b].offset + e] != (float)sum;
        }
        r->wrong += !comm_device_times(r->comm, r->rank, b, (size_t)k, &t);
    }
    return ST_OK;
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;

    for (int k = 0; r->st == ST_OK && k < STEPS; k++) {
        if (k == r->abort_at) {
            comm_abort(r->comm, r->rank, ST_CANCELLED);
        }
        r->st = step(r, k);
    }
    return NULL;
}

/* Returns the number of failures. */
static size_t run_ranks(const struct comm_args *args, int abort_at)
{
    struct rank ranks[N_RANKS] = {0};
    pthread_t threads[N_RANKS];
    struct comm *comm;
    size_t failures = 0;

    if (comm_create(args, &comm) != ST_OK) {
        return 1;
    }
    for (int r = 0; r < N_RANKS; r++) {
        ranks[r] = (struct rank){.comm = comm,
                                 .buckets = args->buckets,
                                 .arena = args->arenas[r],
                                 .rank = r,
                                 .abort_at = r == 1 ? abort_at : -1,
                                 .st = ST_OK};
        if (pthread_create(&threads[r], NULL, rank_main, &ranks[r]) != 0) {
            return 1;
        }
    }
    for (int r = 0; r < N_RANKS; r++) {
        (void)pthread_join(threads[r], NULL);
        failures += ranks[r].wrong + (ranks[r].st != (abort_at < 0 ? ST_OK : ST_PEER));
    }
    comm_destroy(comm);
    return failures;
}

static size_t run(const char *backend, int abort_at)
{
    static const int devices[N_RANKS] = {0};
    struct config_comm cfg = {.backend = (char *)(uintptr_t)backend,
                              .nccl = (char *)TEST_BINARY_DIR "/lib/tests/nccl_double.so",
                              .nccl_log = (char *)"",
                              .chunk_bytes = 1024,
                              .chunks = (char *)"",
                              .timeout_s = 300,
                              .plan = (char *)"",
                              .treepack = (char *)"exact",
                              .wire = (char *)"fp32",
                              .fabric = (char *)"memory",
                              .order = (char *)"fifo",
                              .sync = (char *)"allreduce"};
    struct comm_bucket buckets[N_BUCKETS];
    struct device_place places[N_RANKS];
    struct device_ops device = device_cpu;
    float *arenas[N_RANKS];
    struct topo *topo;
    void *set;
    struct comm_args args = {.cfg = &cfg,
                             .n_ranks = N_RANKS,
                             .arenas = arenas,
                             .places = places,
                             .buckets = buckets,
                             .n_buckets = N_BUCKETS,
                             .timed = true};
    size_t n = 0, failures;

    device.count = count_all;
    if (topo_mesh(N_RANKS, 1000, 5, &topo) != ST_OK ||
        device.open(devices, N_RANKS, &set) != ST_OK) {
        return 1;
    }
    args.topo = topo;
    for (size_t b = 0; b < N_BUCKETS; b++) {
        buckets[b] = (struct comm_bucket){n, sizes[b], "layer"};
        n += sizes[b];
    }
    for (int r = 0; r < N_RANKS; r++) {
        arenas[r] = mem_alloc(n, sizeof(float));
        places[r] = (struct device_place){.ops = &device, .set = set, .rank = r, .device = r};
        if (device.stream_create(set, r, &places[r].stream) != ST_OK) {
            return 1;
        }
    }
    failures = run_ranks(&args, abort_at);
    for (int r = 0; r < N_RANKS; r++) {
        device.stream_destroy(set, places[r].stream);
        mem_free(arenas[r]);
    }
    device.close(set);
    topo_destroy(topo);
    return failures;
}

int main(void)
{
    static const char *const backends[] = {"onehop", "ring", "nccl"};
    size_t failures = 0;

    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        failures += run(backends[i], -1) + run(backends[i], STEPS / 2);
    }
    printf("race_device: %zu failures\n", failures);
    return failures == 0 && mem_live() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
