#include "rank_race.h"

#include <pthread.h>

#include "base/mem.h"

struct rank {
    struct comm *comm;
    const struct comm_args *args;
    int rank, steps, abort_at;
    size_t wrong;
    enum status st;
};

static float *at(const struct rank *r, size_t b)
{
    return r->args->arenas[r->rank] + r->args->buckets[b].offset;
}

static enum status step(struct rank *r, int k)
{
    for (size_t i = 0; i < RACE_BUCKETS; i++) {
        size_t b = (i + (size_t)r->rank) % RACE_BUCKETS;
        for (size_t e = 0; e < r->args->buckets[b].n; e++) {
            at(r, b)[e] = (float)((size_t)(r->rank + k) + e % 100);
        }
        TRY(comm_post(r->comm, r->rank, b));
    }
    for (size_t b = 0; b < RACE_BUCKETS; b++) {
        struct comm_times t;
        TRY(comm_wait(r->comm, r->rank, b));
        for (size_t e = 0; e < r->args->buckets[b].n; e++) {
            size_t sum = RACE_RANKS * ((size_t)k + e % 100) + RACE_RANKS * (RACE_RANKS - 1) / 2;
            r->wrong += at(r, b)[e] != (float)sum;
        }
        r->wrong +=
            r->args->places != NULL && !comm_device_times(r->comm, r->rank, b, (size_t)k, &t);
    }
    return ST_OK;
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;

    for (int k = 0; r->st == ST_OK && k < r->steps; k++) {
        if (k == r->abort_at) {
            (void)comm_abort(r->comm, r->rank, ST_CANCELLED);
        }
        r->st = step(r, k);
    }
    return NULL;
}

static size_t run_ranks(const struct comm_args *args, int steps, int abort_at)
{
    struct rank ranks[RACE_RANKS];
    pthread_t threads[RACE_RANKS];
    struct comm *comm;
    size_t failures = 0;

    if (comm_create(args, &comm) != ST_OK) {
        return 1;
    }
    for (int r = 0; r < RACE_RANKS; r++) {
        ranks[r] = (struct rank){.comm = comm,
                                 .args = args,
                                 .rank = r,
                                 .steps = steps,
                                 .abort_at = r == 1 ? abort_at : -1,
                                 .st = ST_OK};
        if (pthread_create(&threads[r], NULL, rank_main, &ranks[r]) != 0) {
            return 1;
        }
    }
    for (int r = 0; r < RACE_RANKS; r++) {
        (void)pthread_join(threads[r], NULL);
        failures += ranks[r].wrong + (ranks[r].st != (abort_at < 0 ? ST_OK : ST_PEER));
    }
    comm_destroy(comm);
    return failures;
}

size_t rank_race(struct comm_args args, const size_t sizes[RACE_BUCKETS], int steps, int abort_at)
{
    struct comm_bucket buckets[RACE_BUCKETS];
    float *arenas[RACE_RANKS];
    struct topo *topo;
    size_t n = 0, failures;

    if (topo_mesh(RACE_RANKS, 1000, 5, &topo) != ST_OK) {
        return 1;
    }
    for (size_t b = 0; b < RACE_BUCKETS; b++) {
        buckets[b] = (struct comm_bucket){n, sizes[b], "layer"};
        n += sizes[b];
    }
    for (int r = 0; r < RACE_RANKS; r++) {
        arenas[r] = mem_alloc(n, sizeof(float));
    }
    args.topo = topo;
    args.n_ranks = RACE_RANKS;
    args.arenas = arenas;
    args.buckets = buckets;
    args.n_buckets = RACE_BUCKETS;
    failures = run_ranks(&args, steps, abort_at);
    for (int r = 0; r < RACE_RANKS; r++) {
        mem_free(arenas[r]);
    }
    topo_destroy(topo);
    return failures;
}
