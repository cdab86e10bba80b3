/*
 * In-place allreduce of floats between two threads: the engine against a kernel written by hand for
 * this one case, interleaved in one process on the same buffers.
 *
 * As in training, each thread first rewrites its own buffer, untimed. Timed: from the last thread's
 * arrival at a spinning barrier to the moment at which the last thread has its sum. The kernel by
 * hand: a barrier, as nobody may read a buffer before it is written; each thread adds one half of
 * the two buffers and writes it to both; a barrier.
 *
 * Prints CSV: bytes, rounds, hand_us, engine_us, ratio (medians; ratio of hand to engine within
 * each round). Usage: espalier-allreduce [backend [rounds]].
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "comm/comm.h"
#include "comm/fold.h"

enum {
    MAX_ROUNDS = 1001
};

/* How often a side has come to the barrier; written by that side only, on lines of its own. */
struct flag {
    _Alignas(128) atomic_uint come;
};

struct bench {
    size_t n, rounds;
    float *arenas[2];
    struct comm *comm;
    fold_fn *sum;
    struct flag flags[2];
    _Alignas(128) double begin_s[2], end_s[2];
    double hand_s[MAX_ROUNDS], engine_s[MAX_ROUNDS];
    enum status st[2];
};

struct side {
    struct bench *b;
    int rank;
};

/* The fastest barrier of two: one line goes each way, and nothing is read, changed and written. */
static void meet(struct bench *b, int rank)
{
    unsigned time = atomic_load_explicit(&b->flags[rank].come, memory_order_relaxed) + 1;

    atomic_store_explicit(&b->flags[rank].come, time, memory_order_release);
    while (atomic_load_explicit(&b->flags[1 - rank].come, memory_order_acquire) < time) {
    }
}

static void by_hand(struct bench *b, int rank)
{
    uintptr_t both[2] = {(uintptr_t)b->arenas[0], (uintptr_t)b->arenas[1]};
    size_t half = b->n / 2 / 16 * 16, first = rank == 0 ? 0 : half;
    struct fold_args a = {both, both, 2, 2, first, rank == 0 ? half : b->n - half, 0, false};

    meet(b, rank);
    b->sum(&a);
    meet(b, rank);
}

static enum status by_engine(struct bench *b, int rank)
{
    TRY(comm_post(b->comm, rank, 0));
    return comm_wait(b->comm, rank, 0);
}

static void rewrite(struct bench *b, int rank, size_t round)
{
    for (size_t i = 0; i < b->n; i++) {
        b->arenas[rank][i] = (float)((i + round) % 64) + (float)rank;
    }
}

static double span(const struct bench *b)
{
    double begin = b->begin_s[0] < b->begin_s[1] ? b->begin_s[0] : b->begin_s[1];
    double end = b->end_s[0] > b->end_s[1] ? b->end_s[0] : b->end_s[1];

    return end - begin;
}

static void *side_main(void *arg)
{
    struct side *s = arg;
    struct bench *b = s->b;
    enum status st = ST_OK;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(s->rank, &one);
    (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    for (size_t k = 0; k < 2 * b->rounds && st == ST_OK; k++) {
        bool hand = (k ^ (k >> 1)) % 2 == 0; /* hand engine engine hand */
        rewrite(b, s->rank, k);
        meet(b, s->rank);
        b->begin_s[s->rank] = clock_now_s();
        if (hand) {
            by_hand(b, s->rank);
        } else {
            st = by_engine(b, s->rank);
        }
        b->end_s[s->rank] = clock_now_s();
        meet(b, s->rank);
        if (s->rank == 0) {
            *(hand ? &b->hand_s[k / 2] : &b->engine_s[k / 2]) = span(b);
        }
        for (size_t i = 0; i < b->n; i += 4097) {
            if (b->arenas[s->rank][i] != (float)((i + k) % 64) * 2 + 1) {
                st = log_fail(ST_INTERNAL, "wrong sum, element %zu", i);
            }
        }
        meet(b, s->rank);
    }
    b->st[s->rank] = st;
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_value);
    return x[n / 2];
}

static void report(struct bench *b)
{
    double ratio[MAX_ROUNDS], hand, engine;

    for (size_t k = 0; k < b->rounds; k++) {
        ratio[k] = b->hand_s[k] / b->engine_s[k];
    }
    hand = median(b->hand_s, b->rounds);
    engine = median(b->engine_s, b->rounds);
    printf("%zu,%zu,%.2f,%.2f,%.3f\n", b->n * sizeof(float), b->rounds, hand * 1e6, engine * 1e6,
           median(ratio, b->rounds));
    (void)fflush(stdout);
}

static enum status measure(struct bench *b)
{
    struct side sides[2] = {{b, 0}, {b, 1}};
    pthread_t other;
    cpu_set_t cores;

    (void)sched_getaffinity(0, sizeof cores, &cores);
    if (pthread_create(&other, NULL, side_main, &sides[1]) != 0) {
        return log_fail(ST_INTERNAL, "cannot start a second thread");
    }
    (void)side_main(&sides[0]);
    (void)pthread_join(other, NULL);
    /* The sides have pinned themselves, and an engine counts the cores of who creates it. */
    (void)sched_setaffinity(0, sizeof cores, &cores);
    TRY(b->st[0]);
    TRY(b->st[1]);
    report(b);
    return ST_OK;
}

static enum status bench_size(const char *backend, size_t bytes, size_t rounds)
{
    struct config_comm cfg = {.backend = (char *)(uintptr_t)backend,
                              .timeout_s = 60,
                              .plan = (char *)(uintptr_t) "",
                              .wire = (char *)(uintptr_t) "fp32",
                              .fabric = (char *)(uintptr_t) "memory",
                              .workers = -1,
                              .order = (char *)(uintptr_t) "fifo",
                              .buckets = (char *)(uintptr_t) "size",
                              .sync = (char *)(uintptr_t) "allreduce"};
    struct bench *b = mem_alloc(1, sizeof *b);
    struct comm_bucket bucket = {0, bytes / sizeof(float), "all"};
    struct topo *topo = NULL;
    struct comm_args args = {.cfg = &cfg, .n_ranks = 2, .buckets = &bucket, .n_buckets = 1};
    enum status st = b == NULL ? ST_NOMEM : topo_mesh(2, 10000000000, 200, &topo);

    if (st == ST_OK) {
        b->n = bucket.n;
        b->rounds = rounds;
        b->sum = fold_select(DTYPE_F32, REDOP_SUM);
        b->arenas[0] = mem_alloc(b->n, sizeof(float));
        b->arenas[1] = mem_alloc(b->n, sizeof(float));
        args.topo = topo;
        args.arenas = b->arenas;
        st = b->arenas[0] == NULL || b->arenas[1] == NULL ? ST_NOMEM : comm_create(&args, &b->comm);
        st = st == ST_OK ? measure(b) : st;
        comm_destroy(b->comm);
        mem_free(b->arenas[0]);
        mem_free(b->arenas[1]);
    }
    topo_destroy(topo);
    mem_free(b);
    return st;
}

int main(int argc, char **argv)
{
    const char *backend = argc > 1 ? argv[1] : "onehop";
    int64_t rounds = 0;
    enum status st = ST_OK;

    if (argc > 3 ||
        (argc > 2 && (!text_to_i64(argv[2], &rounds) || rounds < 1 || rounds > MAX_ROUNDS))) {
        log_error("usage: espalier-allreduce [backend [rounds, at most %d]]", MAX_ROUNDS);
        return 2;
    }
    printf("bytes,rounds,hand_us,engine_us,ratio\n");
    for (size_t bytes = 4096; st == ST_OK && bytes <= (size_t)256 << 20; bytes *= 4) {
        size_t some = bytes <= (1 << 20) ? 501 : bytes <= (16 << 20) ? 101 : 21;
        st = bench_size(backend, bytes, rounds > 0 ? (size_t)rounds : some);
    }
    return status_exit_code(st);
}
