/*
 * usage: device_check cpu|cuda [small]
 * What scripts/gpu-check runs on a device: its memory, streams and kernels against the same kernels
 * as C, all backends over 2 to 8 ranks of one device and of all devices, and how fast its memory
 * moves. One line for each check: <name> ok|FAILED <key>=<value> ... Ends with 1 if one failed,
 * with 77 if there is no such device. `small` leaves out the measurements, for sanitizers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/cuda/engine_cuda.h"
#include "device/device.h"
#include "device/kernels/kernel_fold.h"
#include "device/kernels/kernel_sgd.h"

enum {
    MAX_RANKS = 8,
    MAX_N = 1 << 20
};

struct check {
    const struct device_ops *d;
    void *set, *stream;
    char *host, *want;       /* of MAX_N floats, and some */
    struct device_ops alone; /* the same, but no rank reaches the memory of another */
    size_t n_wrong;
};

static void expect(enum status st, const char *what)
{
    if (st != ST_OK) {
        fprintf(stderr, "device_check: %s: %s\n", what, status_text(st));
        exit(1);
    }
}

static bool report(const char *name, const struct check *c, size_t n_cases)
{
    printf("%s %s cases=%zu wrong=%zu\n", name, c->n_wrong == 0 ? "ok" : "FAILED", n_cases,
           c->n_wrong);
    (void)fflush(stdout);
    return c->n_wrong == 0;
}

static void *device_memory(const struct check *c, int rank, size_t bytes)
{
    void *p = NULL;

    expect(c->d->alloc(c->set, rank, bytes, &p), "memory of the device");
    return p;
}

static void move(const struct check *c, void *dst, const void *src, size_t bytes)
{
    expect(c->d->copy(c->set, c->stream, dst, src, bytes), "a copy");
    expect(c->d->stream_sync(c->set, c->stream), "waiting for a copy");
}

/* --- sums --- */

static void fill(char *p, size_t bytes, uint64_t salt, enum device_dtype dtype)
{
    struct rng r = rng_make(salt, RNG_TEST, 0);

    for (size_t i = 0; i < bytes / kernel_fold_elem_bytes(dtype); i++) {
        float x = (float)(rng_u32(&r, i) % 201) - 100.0f;
        switch (dtype) {
        case DEVICE_F32:
            ((float *)(void *)p)[i] = x;
            break;
        case DEVICE_BF16:
            ((uint16_t *)(void *)p)[i] = halves_bf16_of_f32(x);
            break;
        case DEVICE_F16:
            ((uint16_t *)(void *)p)[i] = halves_f16_of_f32(x);
            break;
        case DEVICE_I32:
            ((int32_t *)(void *)p)[i] = (int32_t)x;
            break;
        }
    }
}

/* Two sources, two destinations; the second source is the first destination. */
static void try_fold(struct check *c, enum device_dtype d, enum device_redop r, size_t n,
                     size_t skew)
{
    static const struct kernel_place everything = {0, 1, 0, 1};
    size_t bytes = n * kernel_fold_elem_bytes(d);
    char *a = device_memory(c, 0, bytes + 64), *b = device_memory(c, 0, bytes + 64);
    struct device_fold f = {.dtype = d, .redop = r, .n_src = 2, .n_dst = 2, .n = n};

    f.divisor = r == DEVICE_MEAN ? 3 : 0;
    fill(c->want, bytes, 1, d);
    fill(c->host, bytes, 2, d);
    move(c, a + skew, c->want, bytes);
    move(c, b + skew, c->host, bytes);
    f.src[0] = a + skew;
    f.src[1] = b + skew;
    f.dst[0] = b + skew;
    f.dst[1] = a + skew;
    expect(c->d->fold(c->set, c->stream, &f), "a fold");
    f.src[0] = c->want;
    f.src[1] = c->host;
    f.dst[0] = c->want;
    f.n_dst = 1;
    kernel_fold(everything, &f, d, r);
    move(c, c->host, a + skew, bytes);
    c->n_wrong += memcmp(c->host, c->want, bytes) != 0;
    move(c, c->host, b + skew, bytes);
    c->n_wrong += memcmp(c->host, c->want, bytes) != 0;
    c->d->release(c->set, 0, a);
    c->d->release(c->set, 0, b);
}

static bool check_folds(struct check *c)
{
    static const size_t sizes[] = {1, 3, 4, 1000, 8191, MAX_N};
    size_t n_cases = 0;

    c->n_wrong = 0;
    for (int d = DEVICE_F32; d <= DEVICE_I32; d++) {
        for (int r = DEVICE_SUM; r <= DEVICE_MIN; r++) {
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++, n_cases++) {
                try_fold(c, (enum device_dtype)d, (enum device_redop)r, sizes[k], k % 2 * 4);
            }
        }
    }
    return report("kernels_fold", c, n_cases);
}

/* --- SGD --- */

static bool check_sgd(struct check *c)
{
    struct device_range ranges[] = {{.offset = 0, .n = 5000, .weight_decay = 0.5f},
                                    {.offset = 5008, .n = 100, .weight_decay = 0},
                                    {.offset = 5120, .n = 20000, .weight_decay = 0.25f}};
    const size_t n = 32768, bytes = n * sizeof(float);
    char *w = device_memory(c, 0, bytes), *v = device_memory(c, 0, bytes);
    char *g = device_memory(c, 0, bytes), *r = device_memory(c, 0, sizeof ranges);
    struct device_sgd s = {.n_tiles = device_tile(ranges, 3),
                           .n_ranges = 3,
                           .lr = 0.5f,
                           .momentum = 0.5f,
                           .unscale = 2.0f,
                           .nesterov = true};
    const struct kernel_place everything = {0, 1, 0, 1};
    static _Alignas(16) float hw[32768], hv[32768], hg[32768];

    fill((char *)hw, bytes, 3, DEVICE_F32);
    fill((char *)hv, bytes, 4, DEVICE_F32);
    fill((char *)hg, bytes, 5, DEVICE_F32);
    move(c, w, hw, bytes);
    move(c, v, hv, bytes);
    move(c, g, hg, bytes);
    move(c, r, ranges, sizeof ranges);
    s.w = (float *)(void *)w;
    s.v = (float *)(void *)v;
    s.g = (const float *)(const void *)g;
    s.ranges = (const struct device_range *)(const void *)r;
    expect(c->d->sgd(c->set, c->stream, &s), "an update");
    s.w = hw;
    s.v = hv;
    s.g = hg;
    s.ranges = ranges;
    kernel_sgd(everything, &s); /* multiples of 1/8: exact in any order and with any rounding */
    c->n_wrong = 0;
    move(c, c->host, w, bytes);
    c->n_wrong += memcmp(c->host, hw, bytes) != 0;
    move(c, c->host, v, bytes);
    c->n_wrong += memcmp(c->host, hv, bytes) != 0;
    c->d->release(c->set, 0, w);
    c->d->release(c->set, 0, v);
    c->d->release(c->set, 0, g);
    c->d->release(c->set, 0, r);
    return report("kernels_sgd", c, 2);
}

/* --- conversions, and numbers that are not finite --- */

static void try_convert(struct check *c, enum device_dtype half, size_t n)
{
    char *wide = device_memory(c, 0, n * sizeof(float));
    char *narrow = device_memory(c, 0, n * sizeof(uint16_t));
    struct device_convert down = {.src = wide, .dst = narrow, .n = n, .half = half};
    struct device_convert up = {.src = narrow, .dst = wide, .n = n, .half = half, .widen = true};
    float *x = (float *)(void *)c->host;

    for (size_t i = 0; i < n; i++) {
        x[i] = ((float)i - 700.0f) * 1.001f; /* of more digits than 16 bits hold */
    }
    memcpy(c->want, x, n * sizeof *x);
    move(c, wide, x, n * sizeof *x);
    expect(c->d->convert(c->set, c->stream, &down), "a conversion");
    expect(c->d->convert(c->set, c->stream, &up), "a conversion back");
    move(c, x, wide, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        float once = ((const float *)(const void *)c->want)[i];
        c->n_wrong += x[i] != (half == DEVICE_BF16 ? halves_f32_of_bf16(halves_bf16_of_f32(once))
                                                   : halves_f32_of_f16(halves_f16_of_f32(once)));
    }
    c->d->release(c->set, 0, wide);
    c->d->release(c->set, 0, narrow);
}

/* With number `bad` infinite; n: none is. */
static void try_finite(struct check *c, size_t n, size_t bad)
{
    char *x = device_memory(c, 0, n * sizeof(float));
    uint32_t *flag = device_memory(c, 0, sizeof *flag), found;
    struct device_finite f = {.x = (const float *)(const void *)x, .n = n, .flag = flag};

    fill(c->host, n * sizeof(float), 6, DEVICE_F32);
    if (bad < n) {
        ((float *)(void *)c->host)[bad] = INFINITY;
    }
    move(c, x, c->host, n * sizeof(float));
    expect(c->d->finite(c->set, c->stream, &f), "a search");
    move(c, &found, flag, sizeof found);
    c->n_wrong += found != (bad < n);
    expect(c->d->clear(c->set, c->stream, flag, sizeof *flag), "a clearing");
    move(c, &found, flag, sizeof found);
    c->n_wrong += found != 0;
    c->d->release(c->set, 0, x);
    c->d->release(c->set, 0, flag);
}

static void try_store(struct check *c)
{
    unsigned char *p = device_memory(c, 0, 2 * DEVICE_STORE_BYTES);
    struct device_store s = {.dst = p + 1, .n = DEVICE_STORE_BYTES};

    for (size_t i = 0; i < s.n; i++) {
        s.bytes[i] = (unsigned char)(i + 1);
    }
    expect(c->d->store(c->set, c->stream, &s), "a store");
    move(c, c->host, p, 2 * DEVICE_STORE_BYTES);
    for (size_t i = 0; i < 2 * DEVICE_STORE_BYTES; i++) {
        c->n_wrong += (unsigned char)c->host[i] != (i <= s.n ? i : 0);
    }
    c->d->release(c->set, 0, p);
}

static bool check_numbers(struct check *c)
{
    static const size_t sizes[] = {1, 3, 1000, 8191};
    size_t n_cases = 0;

    c->n_wrong = 0;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        try_convert(c, DEVICE_BF16, sizes[k]);
        try_convert(c, DEVICE_F16, sizes[k]);
        try_finite(c, sizes[k], sizes[k]);
        try_finite(c, sizes[k], 0);
        try_finite(c, sizes[k], sizes[k] - 1);
        n_cases += 5;
    }
    try_store(c);
    n_cases++;
    return report("kernels_numbers", c, n_cases);
}

/* --- collectives --- */

struct run {
    struct topo *topo;
    struct plan *plan;
    struct program *program;
    struct program_buffers buffers[MAX_RANKS + 1];
    struct engine_cuda *engine;
    void *streams[MAX_RANKS];
    int n_ranks;
    size_t n;
};

/* How a program is run. */
enum way {
    ISSUED,
    AS_GRAPH,
    STAGED, /* as where devices do not reach each other */
    WAYS
};

static bool reaches_itself(void *set, int rank, int peer)
{
    (void)set;
    return rank == peer;
}

static void run_begin(const struct check *c, struct run *r, const char *backend, int n_ranks,
                      size_t n, enum way way)
{
    struct plan_request q = {.collective = COLL_ALLREDUCE, .n_ranks = n_ranks, .root = -1};
    struct program_spec spec = {.in_place = true, .n = n};
    struct engine_cuda_options opt = {.device = way == STAGED ? &c->alone : c->d,
                                      .set = c->set,
                                      .n_ranks = n_ranks,
                                      .timeout_s = 20,
                                      .graphs = way == AS_GRAPH};
    struct engine_job job = {.buffers = r->buffers, .what = "allreduce", .label = backend};

    *r = (struct run){.n_ranks = n_ranks, .n = n};
    expect(topo_mesh(n_ranks, 1000000000, 1000, &r->topo), "a topology");
    q.n_bytes = n * sizeof(float);
    expect(plan_create(backend, r->topo, &q, &r->plan), "a plan");
    expect(program_create(r->plan, &spec, &r->program), "a program");
    for (int k = 0; k < n_ranks; k++) {
        r->buffers[k].out = device_memory(c, k, n * sizeof(float));
        r->buffers[k].in = r->buffers[k].out;
        expect(c->d->stream_create(c->set, k, &r->streams[k]), "a stream");
    }
    job.program = r->program;
    expect(engine_cuda_create(&opt, &job, 1, &r->engine), "an engine");
}

static void run_once(struct run *r)
{
    for (int k = 0; k < r->n_ranks; k++) {
        expect(engine_cuda_post(r->engine, k, 0, r->streams[k]), "a post");
    }
    for (int k = 0; k < r->n_ranks; k++) {
        expect(engine_cuda_wait(r->engine, k, 0, r->streams[k]), "a wait");
    }
}

static void run_end(const struct check *c, struct run *r)
{
    for (int k = 0; k < r->n_ranks; k++) {
        expect(c->d->stream_sync(c->set, r->streams[k]), "the end");
    }
    engine_cuda_destroy(r->engine);
    for (int k = 0; k < r->n_ranks; k++) {
        c->d->stream_destroy(c->set, r->streams[k]);
        c->d->release(c->set, k, r->buffers[k].out);
    }
    program_destroy(r->program);
    plan_destroy(r->plan);
    topo_destroy(r->topo);
}

static float value(int rank, size_t i)
{
    return (float)((size_t)(rank + 1) * 5 + i % 251);
}

static void try_allreduce(struct check *c, const char *backend, int n_ranks, size_t n, enum way way)
{
    float *host = (float *)(void *)c->host;
    struct run r;

    run_begin(c, &r, backend, n_ranks, n, way);
    for (int turn = 0; turn < 2; turn++) { /* a graph is used again */
        for (int k = 0; k < n_ranks; k++) {
            for (size_t i = 0; i < n; i++) {
                host[i] = value(k + turn, i);
            }
            move(c, r.buffers[k].out, host, n * sizeof *host);
        }
        run_once(&r);
        for (int k = 0; k < n_ranks; k++) {
            expect(c->d->copy(c->set, r.streams[k], host, r.buffers[k].out, n * sizeof *host),
                   "a copy");
            expect(c->d->stream_sync(c->set, r.streams[k]), "waiting for a sum");
            for (size_t i = 0; i < n; i++) {
                float sum = 0;
                for (int q = 0; q < n_ranks; q++) {
                    sum += value(q + turn, i);
                }
                c->n_wrong += host[i] != sum;
            }
        }
    }
    run_end(c, &r);
}

static bool check_collectives(const char *name, struct check *c, bool small)
{
    static const size_t sizes[] = {1, 1000, 100003};
    const size_t n_sizes = small ? 2 : 3;
    size_t n_cases = 0;

    c->n_wrong = 0;
    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int p = 2; p <= MAX_RANKS; p += small ? 3 : 1) {
            for (size_t k = 0; k < n_sizes; k++, n_cases++) {
                size_t way = n_cases / n_sizes + k; /* every size takes turns */
                try_allreduce(c, planner_at(b)->name, p, sizes[k], (enum way)(way % WAYS));
            }
        }
    }
    return report(name, c, n_cases);
}

/* --- measurements --- */

/* Seconds of `n` copies of `bytes`, or sums into one of two. */
static double time_memory(const struct check *c, bool fold, void *a, void *b, size_t bytes, int n)
{
    struct device_fold f = {
        .src = {a, b}, .dst = {b}, .n_src = 2, .n_dst = 1, .n = bytes / sizeof(float)};
    double begin;

    expect(c->d->stream_sync(c->set, c->stream), "waiting");
    begin = clock_now_s();
    for (int i = 0; i < n; i++) {
        expect(fold ? c->d->fold(c->set, c->stream, &f)
                    : c->d->copy(c->set, c->stream, b, a, bytes),
               "moving memory");
    }
    expect(c->d->stream_sync(c->set, c->stream), "waiting");
    return clock_now_s() - begin;
}

static void measure_memory(const struct check *c, size_t bytes)
{
    void *a = device_memory(c, 0, bytes), *b = device_memory(c, 0, bytes);
    double copy_s, fold_s;
    int n = 20;

    (void)time_memory(c, false, a, b, bytes, 2);
    (void)time_memory(c, true, a, b, bytes, 2);
    copy_s = time_memory(c, false, a, b, bytes, n) / n;
    fold_s = time_memory(c, true, a, b, bytes, n) / n;
    printf("memory ok copy_gbs=%.1f fold_gbs=%.1f ratio=%.3f\n", 2e-9 * (double)bytes / copy_s,
           3e-9 * (double)bytes / fold_s, 1.5 * copy_s / fold_s);
    c->d->release(c->set, 0, a);
    c->d->release(c->set, 0, b);
}

/* Of 8 ranks on one device: a sum of 8 reads and writes of each rank's memory at least. */
static void measure_allreduce(const struct check *c, const char *name, size_t bytes)
{
    struct run r;
    double begin = 0;
    int n = bytes < 1 << 20 ? 1000 : 10;

    run_begin(c, &r, "onehop", MAX_RANKS, bytes / sizeof(float), AS_GRAPH);
    for (int i = -2; i < n; i++) {
        if (i == 0) {
            expect(c->d->stream_sync(c->set, r.streams[0]), "waiting");
            begin = clock_now_s();
        }
        run_once(&r);
    }
    for (int k = 0; k < MAX_RANKS; k++) {
        expect(c->d->stream_sync(c->set, r.streams[k]), "waiting");
    }
    begin = (clock_now_s() - begin) / n;
    printf("%s ok ranks=%d bytes=%zu us=%.1f algbw_gbs=%.2f\n", name, MAX_RANKS, bytes, begin * 1e6,
           1e-9 * (double)bytes / begin);
    run_end(c, &r);
}

/* Ranks on one device after the other, where there are several. */
static bool check_devices(const struct check *one, int n_devices, bool small)
{
    struct check c = *one;
    int devices[MAX_RANKS];
    bool ok;

    c.n_wrong = 0;
    if (n_devices < 2) {
        return report("collectives_devices", &c, 0);
    }
    for (int r = 0; r < MAX_RANKS; r++) {
        devices[r] = r % n_devices;
    }
    expect(c.d->open(devices, MAX_RANKS, &c.set), "opening all devices");
    expect(c.d->stream_create(c.set, 0, &c.stream), "a stream");
    ok = check_collectives("collectives_devices", &c, small);
    c.d->stream_destroy(c.set, c.stream);
    c.d->close(c.set);
    return ok;
}

int main(int argc, char **argv)
{
    const int devices[MAX_RANKS] = {0};
    struct check c = {0};
    bool small = argc > 2 && strcmp(argv[2], "small") == 0, ok;
    void *host = NULL, *want = NULL;
    int n;

    if (argc < 2) {
        fprintf(stderr, "usage: device_check cpu|cuda [small]\n");
        return 2;
    }
    if (device_find(argv[1], &c.d) != ST_OK || c.d->count(&n) != ST_OK) {
        return 77;
    }
    c.alone = *c.d;
    c.alone.reaches = reaches_itself;
    expect(c.d->open(devices, MAX_RANKS, &c.set), "opening the device");
    expect(c.d->stream_create(c.set, 0, &c.stream), "a stream");
    expect(c.d->alloc_host(c.set, MAX_N * sizeof(float) + 64, &host), "memory of the host");
    expect(c.d->alloc_host(c.set, MAX_N * sizeof(float) + 64, &want), "memory of the host");
    c.host = host;
    c.want = want;
    printf("device ok count=%d version=%s\n", n, c.d->version());
    ok = check_folds(&c);
    ok = check_sgd(&c) && ok;
    ok = check_numbers(&c) && ok;
    ok = check_collectives("collectives", &c, small) && ok;
    ok = check_devices(&c, n, small) && ok;
    if (!small) {
        measure_memory(&c, strcmp(argv[1], "cpu") == 0 ? 16 << 20 : (size_t)1 << 30);
        measure_allreduce(&c, "allreduce_small", 8);
        measure_allreduce(&c, "allreduce_large", strcmp(argv[1], "cpu") == 0 ? 4 << 20 : 256 << 20);
    }
    c.d->release_host(c.set, host);
    c.d->release_host(c.set, want);
    c.d->stream_destroy(c.set, c.stream);
    c.d->close(c.set);
    return ok ? 0 : 1;
}
