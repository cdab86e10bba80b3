/*
 * What two cores of this machine can do just now, one line of JSON:
 *
 *   line_ns        time that a cache line takes from one core to the other
 *   read_gbs       bandwidth of reading main memory, each core while both read
 *   read_one_gbs   the same of one core alone
 *   clock_ghz      multiplications in sequence that finish in 3 cycles each, both cores at once:
 * less than the machine's clock means that something else runs
 *
 * On virtual machines these figures change from minute to minute, so experiments print them beside
 * whatever two cores measure. Usage: espalier-probe [cpu cpu]; without arguments the first two.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    ROUND_TRIPS = 50000,
    BATCHES = 5,
    WORDS = 16 << 20, /* 128 MiB per core */
    CHAIN = 20 << 20,
    CHAIN_CYCLES = 3, /* latency of a 64-bit multiplication on the processors of the last decade */
};

struct probe {
    int cpus[2];
    _Alignas(64) atomic_int turn;    /* the line that travels */
    _Alignas(64) atomic_int arrived; /* the line of the barrier */
    _Alignas(64) atomic_bool cancelled;
    int n_cores;
    double line_ns[BATCHES], read_gbs[2], clock_ghz[2];
    uint64_t *words[2];
    uint64_t sink[2]; /* results, so that the work is not optimised away */
};

struct side {
    struct probe *p;
    int core;
    void (*work)(struct probe *p, int core);
};

/* Wait for the other core; `arrived` only grows. */
static void meet(struct probe *p)
{
    int n = atomic_fetch_add(&p->arrived, 1);
    int goal = (n / p->n_cores + 1) * p->n_cores;

    while (atomic_load(&p->arrived) < goal && !atomic_load(&p->cancelled)) {
    }
}

static void ping_pong(struct probe *p, int core)
{
    for (int b = 0; b < BATCHES; b++) {
        int64_t start;

        meet(p);
        start = clock_now_ns();
        for (int i = 0; i < ROUND_TRIPS; i++) {
            while (atomic_load_explicit(&p->turn, memory_order_acquire) != core &&
                   !atomic_load_explicit(&p->cancelled, memory_order_relaxed)) {
            }
            atomic_store_explicit(&p->turn, 1 - core, memory_order_release);
        }
        if (core == 0) {
            p->line_ns[b] = (double)(clock_now_ns() - start) / (2.0 * ROUND_TRIPS);
        }
    }
}

static void read_memory(struct probe *p, int core)
{
    const uint64_t *w = p->words[core];
    uint64_t sum = 0;
    double best = 0.0;

    meet(p);
    for (int pass = 0; pass < 3; pass++) {
        int64_t start = clock_now_ns();
        double gbs;

        for (size_t i = 0; i < WORDS; i++) {
            sum += w[i];
        }
        p->sink[core] += sum; /* here, so that every pass reads */
        atomic_signal_fence(memory_order_seq_cst);
        gbs = (double)WORDS * sizeof *w / (double)(clock_now_ns() - start);
        best = gbs > best ? gbs : best;
    }
    p->read_gbs[core] = best;
}

static void multiply(struct probe *p, int core)
{
    uint64_t x = 3;
    int64_t start;

    meet(p);
    start = clock_now_ns();
    for (int i = 0; i < CHAIN; i++) {
        x *= 0x9E3779B97F4A7C15u;
        __asm__ volatile("" : "+r"(x)); /* one multiplication after the other, none folded */
    }
    p->clock_ghz[core] = (double)CHAIN * CHAIN_CYCLES / (double)(clock_now_ns() - start);
    p->sink[core] += x;
}

static void *side_run(void *arg)
{
    struct side *s = arg;

    s->work(s->p, s->core);
    return NULL;
}

/*
 * A thread that is on its cpu from the start. If it moved there by itself it could wait for ever
 * for the cpu it was born on, where the other side spins: so with real-time priorities.
 */
static enum status start(struct side *s, pthread_t *thread)
{
    pthread_attr_t attr;
    cpu_set_t set;
    int error;

    CPU_ZERO(&set);
    CPU_SET(s->p->cpus[s->core], &set);
    if (pthread_attr_init(&attr) != 0) {
        return log_fail(ST_NOMEM, "cannot start a thread on cpu %d", s->p->cpus[s->core]);
    }
    error = pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    if (error == 0) {
        error = pthread_create(thread, &attr, side_run, s);
    }
    pthread_attr_destroy(&attr);
    return error == 0 ? ST_OK
                      : log_fail(ST_UNSUPPORTED, "cannot start a thread on cpu %d, %s",
                                 s->p->cpus[s->core], strerror(error));
}

/* Do `work` on the first `n_cores` cores at once. */
static enum status on_cores(struct probe *p, int n_cores, void (*work)(struct probe *, int))
{
    struct side sides[2] = {{p, 0, work}, {p, 1, work}};
    pthread_t threads[2];
    enum status st = ST_OK;
    int n = 0;

    p->n_cores = n_cores;
    atomic_store(&p->arrived, 0);
    while (n < n_cores && st == ST_OK) {
        st = start(&sides[n], &threads[n]);
        n += st == ST_OK;
    }
    if (st != ST_OK) {
        atomic_store(&p->cancelled, true); /* let go those that wait for the missing one */
    }
    while (n > 0) {
        pthread_join(threads[--n], NULL);
    }
    return st;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static enum status choose_cpus(int argc, char **argv, int cpus[2])
{
    cpu_set_t set;
    int64_t v[2];
    int n = 0;

    if (argc == 3 && text_to_i64(argv[1], &v[0]) && text_to_i64(argv[2], &v[1]) && v[0] >= 0 &&
        v[1] >= 0 && v[0] < CPU_SETSIZE && v[1] < CPU_SETSIZE && v[0] != v[1]) {
        cpus[0] = (int)v[0];
        cpus[1] = (int)v[1];
        return ST_OK;
    }
    if (argc != 1) {
        return log_fail(ST_INPUT, "usage: espalier-probe [cpu cpu], with two different numbers");
    }
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        for (int i = 0; i < CPU_SETSIZE && n < 2; i++) {
            if (CPU_ISSET(i, &set)) {
                cpus[n++] = i;
            }
        }
    }
    return n == 2 ? ST_OK : log_fail(ST_UNSUPPORTED, "the probe needs two cores, there is %d", n);
}

static enum status measure(struct probe *p)
{
    double alone;

    for (int i = 0; i < 2; i++) {
        p->words[i] = mem_alloc(WORDS, sizeof *p->words[i]);
        if (p->words[i] == NULL) {
            return log_fail(ST_NOMEM, "no memory for %zu bytes", WORDS * sizeof *p->words[i]);
        }
        memset(p->words[i], 1,
               WORDS * sizeof *p->words[i]); /* pages of their own, not zero pages */
    }
    TRY(on_cores(p, 2, ping_pong));
    qsort(p->line_ns, BATCHES, sizeof p->line_ns[0], compare);
    TRY(on_cores(p, 1, read_memory));
    alone = p->read_gbs[0];
    TRY(on_cores(p, 2, read_memory));
    TRY(on_cores(p, 2, multiply));
    printf("{\"cpus\": [%d, %d], \"line_ns\": %.0f, \"read_gbs\": [%.1f, %.1f], "
           "\"read_one_gbs\": %.1f, \"clock_ghz\": [%.2f, %.2f]}\n",
           p->cpus[0], p->cpus[1], p->line_ns[BATCHES / 2], p->read_gbs[0], p->read_gbs[1], alone,
           p->clock_ghz[0], p->clock_ghz[1]);
    return fflush(stdout) == 0 ? ST_OK : log_fail(ST_IO, "cannot write the result");
}

int main(int argc, char **argv)
{
    struct probe p = {0};
    enum status st = choose_cpus(argc, argv, p.cpus);

    alarm(60); /* whatever happens, never hold a core for longer */
    if (st == ST_OK) {
        st = measure(&p);
    }
    mem_free(p.words[0]);
    mem_free(p.words[1]);
    return status_exit_code(st);
}
