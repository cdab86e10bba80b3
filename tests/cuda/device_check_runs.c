#include "device_check.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "comm/cuda/engine_cuda.h"

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

static void run_begin(const struct check *c, struct run *r, const char *backend, int n_ranks,
                      size_t n, enum way way, bool timed)
{
    struct plan_request q = {.collective = COLL_ALLREDUCE, .n_ranks = n_ranks, .root = -1};
    struct program_spec spec = {.in_place = true, .n = n};
    struct engine_cuda_options opt = {.device = way == STAGED ? &c->alone : c->d,
                                      .set = c->set,
                                      .n_ranks = n_ranks,
                                      .timeout_s = 20,
                                      .graphs = way == AS_GRAPH,
                                      .timed = timed,
                                      .last_first = timed};
    struct engine_job job = {.buffers = r->buffers, .what = "allreduce", .label = backend};

    *r = (struct run){.n_ranks = n_ranks, .n = n};
    check_expect(topo_mesh(n_ranks, 1000000000, 1000, &r->topo), "a topology");
    q.n_bytes = n * sizeof(float);
    check_expect(plan_create(backend, r->topo, &q, &r->plan), "a plan");
    check_expect(program_create(r->plan, &spec, &r->program), "a program");
    for (int k = 0; k < n_ranks; k++) {
        r->buffers[k].out = check_memory(c, k, n * sizeof(float));
        r->buffers[k].in = r->buffers[k].out;
        check_expect(c->d->stream_create(c->set, k, &r->streams[k]), "a stream");
    }
    job.program = r->program;
    check_expect(engine_cuda_create(&opt, &job, 1, &r->engine), "an engine");
}

static void run_once(struct run *r)
{
    for (int k = 0; k < r->n_ranks; k++) {
        check_expect(engine_cuda_post(r->engine, k, 0, r->streams[k]), "a post");
    }
    for (int k = 0; k < r->n_ranks; k++) {
        check_expect(engine_cuda_wait(r->engine, k, 0, r->streams[k]), "a wait");
    }
}

static void run_end(const struct check *c, struct run *r)
{
    for (int k = 0; k < r->n_ranks; k++) {
        check_expect(c->d->stream_sync(c->set, r->streams[k]), "the end");
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

    run_begin(c, &r, backend, n_ranks, n, way, false);
    for (int turn = 0; turn < 2; turn++) { /* a graph is used again */
        for (int k = 0; k < n_ranks; k++) {
            for (size_t i = 0; i < n; i++) {
                host[i] = value(k + turn, i);
            }
            check_move(c, r.buffers[k].out, host, n * sizeof *host);
        }
        run_once(&r);
        for (int k = 0; k < n_ranks; k++) {
            check_expect(c->d->copy(c->set, r.streams[k], host, r.buffers[k].out, n * sizeof *host),
                         "a copy");
            check_expect(c->d->stream_sync(c->set, r.streams[k]), "waiting for a sum");
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

bool check_collectives(const char *name, struct check *c, bool small)
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
    return check_report(name, c, n_cases);
}

/* --- times, by timing events on urgent streams --- */

static const double NEAR_S = 0.002; /* two clocks, and a device that is looked at now and then */

static void try_times(struct check *c, int n_ranks, enum way way)
{
    struct run r;

    run_begin(c, &r, "onehop", n_ranks, 1000, way, true);
    for (size_t use = 0; use < 3; use++) {
        const double begin_s = clock_now_s();
        double end_s;
        run_once(&r);
        for (int k = 0; k < n_ranks; k++) {
            check_expect(c->d->stream_sync(c->set, r.streams[k]), "waiting");
        }
        end_s = clock_now_s();
        for (int k = 0; k < n_ranks; k++) {
            struct device_times t;
            if (!engine_cuda_times(r.engine, k, 0, use, &t)) {
                c->n_wrong++;
                continue;
            }
            c->n_wrong += t.posted_s < begin_s - NEAR_S || t.posted_s > t.started_s + NEAR_S ||
                          t.started_s > t.done_s + NEAR_S || t.done_s > end_s + NEAR_S ||
                          t.waited_s < t.posted_s || t.waited_s > end_s + NEAR_S;
        }
    }
    run_end(c, &r);
}

bool check_times(struct check *c)
{
    size_t n_cases = 0;

    c->n_wrong = 0;
    for (int p = 2; p <= MAX_RANKS; p += 3) {
        for (int way = ISSUED; way < WAYS; way++, n_cases++) {
            try_times(c, p, (enum way)way);
        }
    }
    return check_report("times", c, n_cases);
}

/* Of 8 ranks on one device: a sum of 8 reads and writes of each rank's memory at least. */
void measure_allreduce(const struct check *c, const char *name, size_t bytes)
{
    struct run r;
    double begin = 0;
    int n = bytes < 1 << 20 ? 1000 : 10;

    run_begin(c, &r, "onehop", MAX_RANKS, bytes / sizeof(float), AS_GRAPH, false);
    for (int i = -2; i < n; i++) {
        if (i == 0) {
            check_expect(c->d->stream_sync(c->set, r.streams[0]), "waiting");
            begin = clock_now_s();
        }
        run_once(&r);
    }
    for (int k = 0; k < MAX_RANKS; k++) {
        check_expect(c->d->stream_sync(c->set, r.streams[k]), "waiting");
    }
    begin = (clock_now_s() - begin) / n;
    printf("%s ok ranks=%d bytes=%zu us=%.1f algbw_gbs=%.2f\n", name, MAX_RANKS, bytes, begin * 1e6,
           1e-9 * (double)bytes / begin);
    run_end(c, &r);
}
