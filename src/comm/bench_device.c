#include "comm/bench_device.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/bench_data.h"
#include "comm/bench_program.h"
#include "comm/cuda/engine_cuda.h"
#include "comm/nccl/nccl.h"

enum {
    MAX_ITERATIONS = 20000
};

static const double target_s = 0.1; /* of a measurement whose number of calls is chosen */

struct rank {
    void *in, *out; /* the same in place; of the device */
    size_t in_bytes, out_bytes;
    void *stream, *done;
};

struct bench {
    const struct bench_spec *spec;
    const struct bench_devices *where;
    const struct device_ops *d;
    int n_ranks, *devices;
    void *set;
    struct bench_program made; /* nccl: only for the ranges of the ranks */
    struct program_buffers *buffers;
    struct rank *ranks;
    struct engine_cuda *engine;
    struct nccl_library *library;
    struct nccl *nccl;
    const void **in; /* [n_ranks] nccl */
    void **out, **streams, **events;
    void *host; /* for checks */
};

static bool is_nccl(const struct bench *b)
{
    return strcmp(b->spec->backend, "nccl") == 0 && b->spec->plan == NULL;
}

/* --- making --- */

static enum status make_program(struct bench *b)
{
    struct bench_spec s = *b->spec;
    struct cost_model model = {
        .topo = s.topo, .scale = 1, .startup_s = cost_launch_s, .n_cores = cost_cores()};

    s.backend = is_nccl(b) ? "onehop" : s.backend;
    return bench_program_init(&b->made, &s, &model);
}

static enum status open_devices(struct bench *b)
{
    int n;

    TRY(b->d->count(&n));
    if (b->n_ranks > n && !b->where->oversubscribe) {
        return log_fail(ST_INPUT,
                        "there are %d devices of type %s and %d ranks, use fewer or let them share "
                        "with --oversubscribe",
                        n, b->d->type, b->n_ranks);
    }
    b->devices = mem_alloc((size_t)b->n_ranks, sizeof *b->devices);
    if (b->devices == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < b->n_ranks; r++) {
        b->devices[r] = r % n;
    }
    return b->d->open(b->devices, b->n_ranks, &b->set);
}

static enum status make_rank(struct bench *b, int r)
{
    const struct bench_spec *s = b->spec;
    const size_t elem = dtype_bytes(s->dtype);
    struct rank *k = &b->ranks[r];
    size_t n_in, n_out;

    (void)program_in_range(b->made.program, r, &n_in);
    (void)program_out_range(b->made.program, r, &n_out);
    k->in_bytes = (s->in_place ? s->n : n_in) * elem;
    k->out_bytes = (s->in_place ? s->n : n_out) * elem;
    TRY(b->d->alloc(b->set, r, k->in_bytes, &k->in));
    if (s->in_place) {
        k->out = k->in;
    } else {
        TRY(b->d->alloc(b->set, r, k->out_bytes, &k->out));
    }
    TRY(b->d->stream_create(b->set, r, &k->stream));
    TRY(b->d->event_create(b->set, r, &k->done));
    b->buffers[r] = (struct program_buffers){.in = k->in, .out = k->out};
    return ST_OK;
}

static enum status make_ranks(struct bench *b)
{
    const size_t n = (size_t)b->n_ranks;

    b->buffers = mem_alloc((size_t)b->made.plan->n_nodes, sizeof *b->buffers);
    b->ranks = mem_alloc(n, sizeof *b->ranks);
    b->in = mem_alloc(n, sizeof(void *));
    b->out = mem_alloc(n, sizeof(void *));
    b->streams = mem_alloc(n, sizeof(void *));
    b->events = mem_alloc(n, sizeof(void *));
    b->host = mem_alloc(b->spec->n, dtype_bytes(b->spec->dtype));
    if (b->buffers == NULL || b->ranks == NULL || b->in == NULL || b->out == NULL ||
        b->streams == NULL || b->events == NULL || b->host == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < b->n_ranks; r++) {
        TRY(make_rank(b, r));
    }
    return ST_OK;
}

/* A rank's part of a whole message, in place. */
static size_t shift(const struct bench *b, size_t first)
{
    return b->spec->in_place ? first * dtype_bytes(b->spec->dtype) : 0;
}

static enum status start_nccl(struct bench *b)
{
    size_t n;

    TRY(nccl_load(b->where->nccl, &b->library));
    for (int r = 0; r < b->n_ranks; r++) {
        b->in[r] = (char *)b->ranks[r].in + shift(b, program_in_range(b->made.program, r, &n));
        b->out[r] = (char *)b->ranks[r].out + shift(b, program_out_range(b->made.program, r, &n));
        b->streams[r] = b->ranks[r].stream;
        b->events[r] = b->ranks[r].done;
    }
    return nccl_create(&(struct nccl_args){.lib = b->library,
                                           .device = b->d,
                                           .set = b->set,
                                           .devices = b->devices,
                                           .n_ranks = b->n_ranks,
                                           .timeout_s = b->spec->timeout_s,
                                           .log_path = b->where->nccl_log},
                       &b->nccl);
}

static enum status start(struct bench *b)
{
    struct engine_cuda_options opt = {.device = b->d,
                                      .set = b->set,
                                      .n_ranks = b->n_ranks,
                                      .timeout_s = b->spec->timeout_s,
                                      .graphs = true};
    struct engine_job job = {b->made.program, b->buffers, collective_name(b->spec->collective),
                             "benchmark"};

    return is_nccl(b) ? start_nccl(b) : engine_cuda_create(&opt, &job, 1, &b->engine);
}

/* --- running --- */

static enum status call(struct bench *b)
{
    const struct bench_spec *s = b->spec;

    if (b->nccl != NULL) {
        return nccl_start(b->nccl, &(struct nccl_call){.collective = s->collective,
                                                       .dtype = s->dtype,
                                                       .redop = s->redop,
                                                       .n = s->n,
                                                       .root = s->root,
                                                       .in = b->in,
                                                       .out = b->out,
                                                       .streams = b->streams});
    }
    for (int r = 0; r < b->n_ranks; r++) {
        TRY(engine_cuda_post(b->engine, r, 0, b->ranks[r].stream));
    }
    for (int r = 0; r < b->n_ranks; r++) {
        TRY(engine_cuda_wait(b->engine, r, 0, b->ranks[r].stream));
    }
    return ST_OK;
}

static enum status finish(struct bench *b)
{
    for (int r = 0; r < b->n_ranks; r++) {
        TRY(b->d->record(b->set, b->ranks[r].stream, b->ranks[r].done));
    }
    if (b->nccl != NULL) {
        return nccl_wait(b->nccl, b->events); /* an abort ends what never would */
    }
    for (int r = 0; r < b->n_ranks; r++) {
        TRY(b->d->event_sync(b->set, b->ranks[r].done));
    }
    return ST_OK;
}

static enum status call_many(struct bench *b, size_t n, double *each_s)
{
    double begin = clock_now_s();

    for (size_t i = 0; i < n; i++) {
        TRY(call(b));
    }
    TRY(finish(b));
    *each_s = n > 0 ? (clock_now_s() - begin) / (double)n : 0;
    return ST_OK;
}

static enum status move(struct bench *b, int r, void *dst, const void *src, size_t bytes)
{
    TRY(b->d->copy(b->set, b->ranks[r].stream, dst, src, bytes));
    return b->d->stream_sync(b->set, b->ranks[r].stream);
}

/* One call on known data; counts what is wrong. */
static enum status check(struct bench *b, size_t *wrong)
{
    const struct bench_spec *s = b->spec;
    const size_t elem = dtype_bytes(s->dtype);
    size_t first, n;
    double each_s;

    *wrong = 0;
    for (int r = 0; r < b->n_ranks; r++) {
        first = program_in_range(b->made.program, r, &n);
        bench_data_fill(s->dtype, r, b->host, first, n);
        TRY(move(b, r, (char *)b->ranks[r].in + shift(b, first), b->host, n * elem));
    }
    TRY(call_many(b, 1, &each_s));
    for (int r = 0; r < b->n_ranks; r++) {
        if (s->collective == COLL_REDUCE && r != s->root) {
            continue;
        }
        first = program_out_range(b->made.program, r, &n);
        TRY(move(b, r, b->host, (char *)b->ranks[r].out + shift(b, first), n * elem));
        *wrong += bench_data_wrong(b->made.program, s->root, b->host, first, n);
    }
    return ST_OK;
}

static enum status measure(struct bench *b, struct bench_result *out)
{
    const struct bench_spec *s = b->spec;
    double warm_s, n;

    if (s->check) {
        TRY(check(b, &out->wrong));
    }
    TRY(call_many(b, s->n_warmup > 0 ? s->n_warmup : 1, &warm_s));
    n = warm_s > 0 ? target_s / warm_s : MAX_ITERATIONS;
    out->n_iterations = s->n_iterations != 0 ? s->n_iterations
                        : n < 5              ? 5
                        : n > MAX_ITERATIONS ? MAX_ITERATIONS
                                             : (size_t)n;
    TRY(call_many(b, out->n_iterations, &out->time_s));
    out->algbw_gbs =
        out->time_s > 0 ? (double)s->n * (double)dtype_bytes(s->dtype) / out->time_s * 1e-9 : 0;
    out->busbw_gbs = out->algbw_gbs * bench_bus_factor(s->collective, b->n_ranks);
    out->predicted_s = is_nccl(b) ? 0 : b->made.predicted_s;
    strcpy(out->backend, is_nccl(b) ? "nccl" : b->made.plan->backend);
    return ST_OK;
}

static void fini(struct bench *b)
{
    for (int r = 0; b->ranks != NULL && r < b->n_ranks; r++) {
        if (b->ranks[r].stream != NULL && (b->engine != NULL || b->nccl != NULL)) {
            (void)!b->d->stream_sync(b->set, b->ranks[r].stream);
        }
    }
    engine_cuda_destroy(b->engine);
    nccl_destroy(b->nccl);
    nccl_unload(b->library);
    for (int r = 0; b->ranks != NULL && r < b->n_ranks; r++) {
        struct rank *k = &b->ranks[r];
        b->d->event_destroy(b->set, k->done);
        b->d->stream_destroy(b->set, k->stream);
        if (k->out != k->in) {
            b->d->release(b->set, r, k->out);
        }
        b->d->release(b->set, r, k->in);
    }
    if (b->set != NULL) {
        b->d->close(b->set);
    }
    mem_free(b->devices);
    mem_free(b->ranks);
    mem_free(b->buffers);
    mem_free(b->in);
    mem_free(b->out);
    mem_free(b->streams);
    mem_free(b->events);
    mem_free(b->host);
    bench_program_fini(&b->made);
}

enum status bench_device_run(const struct bench_spec *spec, const struct bench_devices *where,
                             struct bench_result *out)
{
    struct bench b = {
        .spec = spec, .where = where, .d = where->device, .n_ranks = spec->topo->n_devices};
    struct bench_result result = {.wrong = 0};
    enum status st = make_program(&b);

    st = st == ST_OK ? open_devices(&b) : st;
    st = st == ST_OK ? make_ranks(&b) : st;
    st = st == ST_OK ? start(&b) : st;
    st = st == ST_OK ? measure(&b, &result) : st;
    fini(&b);
    if (st == ST_OK) {
        *out = result;
    }
    return st;
}
