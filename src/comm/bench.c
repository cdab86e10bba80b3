#include "comm/bench.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/bench_data.h"
#include "comm/bench_program.h"
#include "comm/engine/engine.h"

enum {
    FIRST_ITERATIONS = 5,
    MAX_ITERATIONS = 1000000
};

static const double target_s = 0.1; /* of a measurement whose number of calls is chosen */

struct bench;

struct rank {
    struct bench *bench;
    int rank;
    void *in, *out; /* the same in place */
    double begin_s, end_s;
    size_t wrong;
    enum status st;
    pthread_t thread;
};

struct bench {
    const struct bench_spec *spec;
    struct bench_program made;
    struct fabric_model fabric;
    struct program_buffers *buffers;
    struct engine *engine;
    struct rank *ranks;
    pthread_barrier_t barrier;
    bool has_barrier;
    size_t n_iterations; /* written, as go_on, by rank 0 between two barriers */
    bool go_on;
    pthread_mutex_t hold; /* held until all threads exist */
    bool go;
};

double bench_bus_factor(enum collective c, int n_ranks)
{
    double p = n_ranks;

    switch (c) {
    case COLL_ALLREDUCE:
        return 2 * (p - 1) / p;
    case COLL_REDUCE_SCATTER:
    case COLL_ALLGATHER:
        return (p - 1) / p;
    default:
        return 1;
    }
}

size_t bench_more(size_t n, double took_s)
{
    double want = (double)n * target_s / took_s;

    if (n == 0) {
        return FIRST_ITERATIONS;
    }
    if (took_s >= target_s / 2 || n >= MAX_ITERATIONS) {
        return n;
    }
    want = want < 16 * (double)n ? want : 16 * (double)n; /* the first calls may be slow */
    return want < (double)n + 1 ? n + 1 : want > MAX_ITERATIONS ? MAX_ITERATIONS : (size_t)want;
}

static enum status call(struct rank *r)
{
    TRY(engine_post(r->bench->engine, r->rank, 0));
    return engine_wait(r->bench->engine, r->rank, 0);
}

/* All ranks together call `n` times; writes when this rank began and ended. A rank that has failed
 * comes to every barrier too, as those that are through their calls wait there. */
static void call_many(struct rank *r, size_t n)
{
    (void)pthread_barrier_wait(&r->bench->barrier);
    r->begin_s = clock_now_s();
    for (size_t i = 0; r->st == ST_OK && i < n; i++) {
        r->st = call(r);
    }
    r->end_s = clock_now_s();
}

/* From the first begin to the last end. */
static double span_s(const struct bench *b)
{
    double begin = b->ranks[0].begin_s, end = b->ranks[0].end_s;

    for (int i = 1; i < b->spec->topo->n_devices; i++) {
        begin = b->ranks[i].begin_s < begin ? b->ranks[i].begin_s : begin;
        end = b->ranks[i].end_s > end ? b->ranks[i].end_s : end;
    }
    return end - begin;
}

static bool gets_result(const struct bench_spec *s, int rank)
{
    return s->collective != COLL_REDUCE || rank == s->root;
}

/* One call on known data. */
static enum status check(struct rank *r)
{
    const struct bench_spec *s = r->bench->spec;
    const struct program *p = r->bench->made.program;
    size_t in_n, out_n, in = program_in_range(p, r->rank, &in_n);
    size_t out = program_out_range(p, r->rank, &out_n), elem = dtype_bytes(s->dtype);
    char *in_at = (char *)r->in + (s->in_place ? in * elem : 0);
    char *out_at = (char *)r->out + (s->in_place ? out * elem : 0);

    bench_data_fill(s->dtype, r->rank, in_at, in, in_n);
    (void)pthread_barrier_wait(&r->bench->barrier);
    TRY(call(r));
    if (gets_result(s, r->rank)) {
        r->wrong += bench_data_wrong(p, s->root, out_at, out, out_n);
    }
    if (!s->in_place) { /* the contribution must be as it was */
        struct program copy = *p;
        copy.collective = COLL_BROADCAST;
        r->wrong += bench_data_wrong(&copy, r->rank, in_at, in, in_n);
    }
    return ST_OK;
}

/* After a measurement, by rank 0: was it long enough? If not, how many calls would be? */
static bool enough(struct bench *b)
{
    size_t n = b->n_iterations;

    for (int i = 0; i < b->spec->topo->n_devices; i++) {
        if (b->ranks[i].st != ST_OK) {
            return true;
        }
    }
    b->n_iterations = b->spec->n_iterations != 0 ? n : bench_more(n, span_s(b));
    return b->n_iterations == n;
}

static void measure(struct rank *r)
{
    struct bench *b = r->bench;
    bool go_on = true;

    if (b->spec->check) {
        r->st = check(r);
    }
    call_many(r, b->spec->n_warmup);
    while (go_on) {
        call_many(r, b->n_iterations);
        (void)pthread_barrier_wait(&b->barrier);
        if (r->rank == 0) {
            b->go_on = !enough(b);
        }
        (void)pthread_barrier_wait(&b->barrier);
        go_on = b->go_on;
    }
}

/* Each rank on a core of its own, where there are enough; it is no error if that is not allowed. */
static void pin(const struct rank *r)
{
    cpu_set_t allowed, one;
    int core = -1;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
        CPU_COUNT(&allowed) < r->bench->spec->topo->n_devices) {
        return;
    }
    for (int k = 0; k <= r->rank; k++) {
        do {
            core++;
        } while (!CPU_ISSET(core, &allowed));
    }
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;

    (void)pthread_mutex_lock(&r->bench->hold);
    r->st = r->bench->go ? ST_OK : ST_INTERNAL;
    (void)pthread_mutex_unlock(&r->bench->hold);
    if (r->st == ST_OK) {
        pin(r);
        measure(r);
    }
    return NULL;
}

/* --- Life --- */

static enum status make_program(struct bench *b)
{
    const struct bench_spec *s = b->spec;
    struct cost_model model = {.topo = s->emulate ? s->topo : NULL,
                               .scale = s->scale,
                               .startup_s = s->startup_s,
                               .n_cores = cost_cores()};

    return bench_program_init(&b->made, s, &model);
}

static enum status make_buffers(struct bench *b)
{
    const struct bench_spec *s = b->spec;
    size_t elem = dtype_bytes(s->dtype), n_in, n_out;

    b->ranks = mem_alloc((size_t)s->topo->n_devices, sizeof *b->ranks);
    b->buffers = mem_alloc((size_t)b->made.plan->n_nodes, sizeof *b->buffers);
    if (b->ranks == NULL || b->buffers == NULL) {
        return ST_NOMEM;
    }
    for (int i = 0; i < s->topo->n_devices; i++) {
        struct rank *r = &b->ranks[i];
        r->bench = b;
        r->rank = i;
        (void)program_in_range(b->made.program, i, &n_in);
        (void)program_out_range(b->made.program, i, &n_out);
        r->in = mem_alloc(s->in_place ? s->n : n_in, elem);
        r->out = s->in_place ? r->in : mem_alloc(n_out, elem);
        if (r->in == NULL || r->out == NULL) {
            return ST_NOMEM;
        }
        b->buffers[i] = (struct program_buffers){.in = r->in, .out = r->out};
    }
    return ST_OK;
}

static enum status start(struct bench *b)
{
    const struct bench_spec *s = b->spec;
    struct engine_options opt = {.n_ranks = s->topo->n_devices,
                                 .n_workers = s->n_workers,
                                 .fabric = s->emulate ? &b->fabric : NULL,
                                 .timeout_s = s->timeout_s};
    struct engine_job job = {b->made.program, b->buffers, collective_name(s->collective),
                             "benchmark"};

    b->fabric =
        (struct fabric_model){.topo = s->topo, .scale = s->scale, .startup_s = s->startup_s};
    TRY(engine_create(&opt, &job, 1, &b->engine));
    if (pthread_barrier_init(&b->barrier, NULL, (unsigned)opt.n_ranks) != 0) {
        return log_fail(ST_INTERNAL, "cannot make a barrier for %d ranks", opt.n_ranks);
    }
    b->has_barrier = true;
    return ST_OK;
}

static enum status run(struct bench *b)
{
    int n_ranks = b->spec->topo->n_devices, n = 0, err = 0;
    enum status st = ST_OK;

    (void)pthread_mutex_lock(&b->hold);
    for (; n < n_ranks && err == 0; n += err == 0) {
        err = pthread_create(&b->ranks[n].thread, NULL, rank_main, &b->ranks[n]);
    }
    b->go = err == 0;
    (void)pthread_mutex_unlock(&b->hold);
    if (err != 0) {
        st =
            log_fail(ST_INTERNAL, "cannot start the thread of rank %d of %d, %s, use fewer devices",
                     n, n_ranks, strerror(err));
    }
    for (int i = 0; i < n; i++) {
        (void)pthread_join(b->ranks[i].thread, NULL);
        st = st == ST_OK ? b->ranks[i].st : st;
    }
    return st;
}

static void fini(struct bench *b)
{
    engine_destroy(b->engine);
    if (b->has_barrier) {
        (void)pthread_barrier_destroy(&b->barrier);
    }
    for (int i = 0; b->ranks != NULL && i < b->spec->topo->n_devices; i++) {
        if (b->ranks[i].out != b->ranks[i].in) {
            mem_free(b->ranks[i].out);
        }
        mem_free(b->ranks[i].in);
    }
    mem_free(b->ranks);
    mem_free(b->buffers);
    bench_program_fini(&b->made);
}

static struct bench_result result_of(const struct bench *b)
{
    const struct bench_spec *s = b->spec;
    struct bench_result r = {.n_iterations = b->n_iterations, .predicted_s = b->made.predicted_s};
    double bytes = (double)s->n * (double)dtype_bytes(s->dtype);

    strcpy(r.backend, b->made.plan->backend);
    r.time_s = span_s(b) / (double)b->n_iterations;
    r.algbw_gbs = r.time_s > 0 ? bytes / r.time_s * 1e-9 : 0;
    r.busbw_gbs = r.algbw_gbs * bench_bus_factor(s->collective, s->topo->n_devices);
    for (int i = 0; i < s->topo->n_devices; i++) {
        r.wrong += b->ranks[i].wrong;
    }
    return r;
}

enum status bench_run(const struct bench_spec *spec, struct bench_result *out)
{
    struct bench b = {.spec = spec,
                      .hold = PTHREAD_MUTEX_INITIALIZER,
                      .n_iterations =
                          spec->n_iterations != 0 ? spec->n_iterations : bench_more(0, 0)};
    enum status st = make_program(&b);

    st = st == ST_OK ? make_buffers(&b) : st;
    st = st == ST_OK ? start(&b) : st;
    st = st == ST_OK ? run(&b) : st;
    if (st == ST_OK) {
        *out = result_of(&b);
    }
    fini(&b);
    return st;
}
