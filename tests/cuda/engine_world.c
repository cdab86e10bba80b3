#include "engine_world.h"

#include <criterion/criterion.h>

#include "base/mem.h"

static float value(int rank, size_t i, int job, int run)
{
    return (float)((size_t)(rank + 1) * 3 + i * 5 % 13 + (size_t)job * 7 + (size_t)run * 11);
}

/* Before a post: the rank's contribution is written, and whatever was in its result. */
void world_produce(void *ctx, int rank, int which)
{
    struct world *w = ctx;
    int job = which / N_RUNS, run = which % N_RUNS;
    const struct program *p = w->programs[job];
    float *in = (float *)(uintptr_t)w->buffers[job][rank].in, *out = w->buffers[job][rank].out;
    size_t n_in, n_out, first = program_in_range(p, rank, &n_in);

    (void)program_out_range(p, rank, &n_out);
    for (size_t i = 0; !p->spec.in_place && i < n_out; i++) {
        out[i] = -1e6f;
    }
    for (size_t i = 0; i < n_in; i++) {
        in[i] = value(rank, first + i, job, run);
    }
}

static float expected(const struct world *w, size_t i, int job, int run)
{
    float sum = 0;

    if (w->s.collective == COLL_BROADCAST) {
        return value(w->s.root, i, job, run);
    }
    for (int r = 0; r < w->s.n_ranks; r++) {
        size_t n, first = program_in_range(w->programs[job], r, &n);
        sum += i >= first && i < first + n ? value(r, i, job, run) : 0;
    }
    return w->s.mean ? sum / (float)w->s.n_ranks : sum;
}

/* After a wait: the result is read. */
void world_consume(void *ctx, int rank, int which)
{
    struct world *w = ctx;
    int job = which / N_RUNS, run = which % N_RUNS;
    const float *out = w->buffers[job][rank].out;
    size_t n, first = program_out_range(w->programs[job], rank, &n);

    if (w->s.collective == COLL_REDUCE && rank != w->s.root) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        w->wrong += out[i] != expected(w, first + i, job, run);
    }
}

bool world_went_wrong(void *ctx)
{
    struct world *w = ctx;
    bool wrong = w->wrong > 0;

    w->wrong = 0;
    return wrong;
}

static void make_job(struct world *w, int job)
{
    struct program_spec spec = {.dtype = DTYPE_F32,
                                .redop = w->s.mean ? REDOP_MEAN : REDOP_SUM,
                                .in_place = w->s.in_place,
                                .n = w->s.n[job],
                                .chunk_bytes = w->s.chunk_bytes};
    size_t bytes = (w->s.n[job] + 1) * sizeof(float);

    w->programs[job] = grid_program(w->plan, &spec);
    w->buffers[job] = mem_alloc((size_t)w->plan->n_nodes, sizeof **w->buffers);
    for (int r = 0; r < w->s.n_ranks; r++) {
        struct program_buffers *b = &w->buffers[job][r];
        void *in, *out;
        cr_assert_eq(w->ops.alloc(w->recorder, r, bytes, &out), ST_OK);
        cr_assert_eq(w->ops.alloc(w->recorder, r, bytes, &in), ST_OK);
        b->out = out;
        b->in = w->s.in_place ? out : in;
    }
}

void world_init(struct world *w, const struct setup *s)
{
    int device_of[RECORDER_MAX_RANKS];
    struct engine_job jobs[MAX_JOBS];
    struct engine_cuda_options opt = {.device = &w->ops,
                                      .n_ranks = s->n_ranks,
                                      .timeout_s = 1,
                                      .graphs = s->graphs,
                                      .last_first = s->last_first};

    *w = (struct world){.s = *s};
    for (int r = 0; r < s->n_ranks; r++) {
        device_of[r] = r / s->ranks_per_device;
    }
    w->topo = grid_mesh(s->n_ranks);
    w->plan = grid_plan(s->backend, w->topo, s->collective, s->root);
    w->recorder = recorder_create(s->n_ranks, device_of, s->peers);
    w->ops = recorder_ops(s->graphs);
    opt.set = w->recorder;
    for (int j = 0; j < s->n_jobs; j++) {
        make_job(w, j);
        jobs[j] = (struct engine_job){w->programs[j], w->buffers[j], "a test", "job"};
    }
    cr_assert_eq(engine_cuda_create(&opt, jobs, (size_t)s->n_jobs, &w->engine), ST_OK);
    for (int r = 0; r < s->n_ranks; r++) {
        cr_assert_eq(w->ops.stream_create(w->recorder, r, &w->streams[r]), ST_OK);
    }
}

void world_fini(struct world *w)
{
    engine_cuda_destroy(w->engine);
    for (int r = 0; r < w->s.n_ranks; r++) {
        w->ops.stream_destroy(w->recorder, w->streams[r]);
    }
    cr_assert_eq(recorder_faults(w->recorder), 0);
    for (int j = 0; j < w->s.n_jobs; j++) {
        program_destroy(w->programs[j]);
        mem_free(w->buffers[j]);
    }
    recorder_destroy(w->recorder);
    plan_destroy(w->plan);
    topo_destroy(w->topo);
    cr_assert_eq(mem_live(), 0);
}

void world_issue(struct world *w)
{
    for (int run = 0; run < N_RUNS; run++) {
        for (int j = 0; j < w->s.n_jobs; j++) {
            for (int r = 0; r < w->s.n_ranks; r++) {
                recorder_call(w->recorder, w->streams[r], world_produce, w, r, j * N_RUNS + run);
                cr_assert_eq(w->ops.use(w->recorder, r), ST_OK);
                cr_assert_eq(engine_cuda_post(w->engine, r, (size_t)j, w->streams[r]), ST_OK);
                cr_assert_eq(recorder_device(w->recorder), r / w->s.ranks_per_device,
                             "a hook that posts has lost the device of its pass");
            }
        }
        for (int j = 0; j < w->s.n_jobs; j++) {
            for (int r = 0; r < w->s.n_ranks; r++) {
                cr_assert_eq(engine_cuda_wait(w->engine, r, (size_t)j, w->streams[r]), ST_OK);
                recorder_call(w->recorder, w->streams[r], world_consume, w, r, j * N_RUNS + run);
            }
        }
    }
}

struct setup world_basic(const char *backend, int n_ranks, size_t chunk_bytes)
{
    return (struct setup){.backend = backend,
                          .collective = COLL_ALLREDUCE,
                          .n_ranks = n_ranks,
                          .root = -1,
                          .chunk_bytes = chunk_bytes,
                          .in_place = true,
                          .peers = true,
                          .ranks_per_device = 1,
                          .n_jobs = 1,
                          .n = {37}};
}
