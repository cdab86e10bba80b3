/*
 * What the CUDA engine puts on streams gives the right sums in every order that streams and events
 * allow, for all backends; and no wait can be left out.
 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#include "base/mem.h"
#include "comm/cuda/engine_cuda.h"
#include "comm/cuda/itinerary.h"
#include "grid.h"
#include "recorder.h"

enum {
    MAX_JOBS = 3,
    N_RUNS = 2
};

static const int all_ranks[] = {1, 2, 3, 4, 5, 7, 8, 11, 16};
#define N_ALL_RANKS (sizeof all_ranks / sizeof *all_ranks)

struct setup {
    const char *backend;
    enum collective collective;
    int n_ranks, root;
    size_t chunk_bytes;
    bool in_place, peers, graphs, mean;
    int ranks_per_device;
    int n_jobs;
    size_t n[MAX_JOBS];
};

struct world {
    struct setup s;
    struct topo *topo;
    struct plan *plan;
    struct recorder *recorder;
    struct device_ops ops;
    struct engine_cuda *engine;
    struct program *programs[MAX_JOBS];
    struct program_buffers *buffers[MAX_JOBS];
    void *streams[RECORDER_MAX_RANKS];
    size_t wrong;
};

static float value(int rank, size_t i, int job, int run)
{
    return (float)((size_t)(rank + 1) * 3 + i * 5 % 13 + (size_t)job * 7 + (size_t)run * 11);
}

/* Before a post: the rank's contribution is written, and whatever was in its result. */
static void produce(void *ctx, int rank, int which)
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
static void consume(void *ctx, int rank, int which)
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

static bool went_wrong(void *ctx)
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

static void world_init(struct world *w, const struct setup *s)
{
    int device_of[RECORDER_MAX_RANKS];
    struct engine_job jobs[MAX_JOBS];
    struct engine_cuda_options opt = {
        .device = &w->ops, .n_ranks = s->n_ranks, .timeout_s = 1, .graphs = s->graphs};

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

static void world_fini(struct world *w)
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

/* All ranks write, post, wait for and read every job, N_RUNS times. */
static void world_issue(struct world *w)
{
    for (int run = 0; run < N_RUNS; run++) {
        for (int j = 0; j < w->s.n_jobs; j++) {
            for (int r = 0; r < w->s.n_ranks; r++) {
                recorder_call(w->recorder, w->streams[r], produce, w, r, j * N_RUNS + run);
                cr_assert_eq(w->ops.use(w->recorder, r), ST_OK);
                cr_assert_eq(engine_cuda_post(w->engine, r, (size_t)j, w->streams[r]), ST_OK);
                cr_assert_eq(recorder_device(w->recorder), r / w->s.ranks_per_device,
                             "a hook that posts has lost the device of its pass");
            }
        }
        for (int j = 0; j < w->s.n_jobs; j++) {
            for (int r = 0; r < w->s.n_ranks; r++) {
                cr_assert_eq(engine_cuda_wait(w->engine, r, (size_t)j, w->streams[r]), ST_OK);
                recorder_call(w->recorder, w->streams[r], consume, w, r, j * N_RUNS + run);
            }
        }
    }
}

static size_t plays; /* for the report */

static void play(const struct setup *s, int n_plays)
{
    struct world w;

    world_init(&w, s);
    world_issue(&w);
    cr_assert_eq(recorder_faults(w.recorder), 0, "%s P=%d", s->backend, s->n_ranks);
    for (int k = 0; k < n_plays; k++) {
        recorder_play(w.recorder, (uint64_t)k, k % 2 == 1);
        cr_assert(!went_wrong(&w), "%s %s P=%d chunk=%zu peers=%d graphs=%d, order %d", s->backend,
                  collective_name(s->collective), s->n_ranks, s->chunk_bytes, s->peers, s->graphs,
                  k);
        plays++;
    }
    world_fini(&w);
}

static struct setup basic(const char *backend, int n_ranks, size_t chunk_bytes)
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

static const size_t chunks[] = {4, 40, 1 << 20};

/* Every backend, P and chunk size, on all kinds of machines; thousands of orders. */
static void play_backend(const char *backend)
{
    for (size_t p = 0; p < N_ALL_RANKS; p++) {
        for (size_t c = 0; c < 3; c++) {
            for (int kind = 0; kind < 4; kind++) {
                struct setup s = basic(backend, all_ranks[p], chunks[c]);
                s.graphs = kind == 1;
                s.peers = kind != 2;
                s.ranks_per_device = kind == 3 ? 3 : 1;
                s.mean = kind == 3;
                play(&s, all_ranks[p] > 8 ? 4 : 10);
            }
        }
    }
}

#define PLAY(name, backend)                                                                        \
    Test(engine_cuda, all_orders_of_##name)                                                        \
    {                                                                                              \
        play_backend(backend);                                                                     \
        cr_assert_geq(plays, 900);                                                                 \
    }

PLAY(central, "central")
PLAY(central_host, "central-host")
PLAY(onehop, "onehop")
PLAY(mst, "mst")
PLAY(be, "be")
PLAY(ring, "ring")
PLAY(lp, "lp")
PLAY(treepack, "treepack")

Test(engine_cuda, every_backend_is_played)
{
    static const char *const played[] = {"central", "central-host", "onehop", "mst",
                                         "be",      "ring",         "lp",     "treepack"};

    for (size_t i = 0; planner_at(i) != NULL; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof played / sizeof *played; k++) {
            found = found || strcmp(played[k], planner_at(i)->name) == 0;
        }
        cr_assert(found, "%s is not played", planner_at(i)->name);
    }
}

Test(engine_cuda, all_collectives_out_of_place)
{
    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int c = COLL_BROADCAST; c <= COLL_ALLGATHER; c++) {
            for (int p = 1; p <= 5; p++) {
                struct setup s = basic(planner_at(b)->name, p, 16);
                s.collective = (enum collective)c;
                s.in_place = false;
                s.peers = p % 2 == 0;
                s.root = c == COLL_BROADCAST || c == COLL_REDUCE ? p / 2 : -1;
                play(&s, 6);
            }
        }
    }
}

/* Buckets share streams and are under way together. */
Test(engine_cuda, several_jobs)
{
    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int graphs = 0; graphs < 2; graphs++) {
            struct setup s = basic(planner_at(b)->name, 4, 16);
            s.graphs = graphs != 0;
            s.n_jobs = 3;
            s.n[1] = 64;
            s.n[2] = 3;
            play(&s, 12);
        }
    }
}

Test(engine_cuda, odd_sizes)
{
    static const size_t sizes[] = {0, 1, 3, 4, 5, 257};

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (size_t k = 0; k < 6; k++) {
            struct setup s = basic(planner_at(b)->name, 4, 60);
            s.n[0] = sizes[k];
            play(&s, 4);
        }
    }
}

/* --- No wait too many, none too few --- */

/* Every `step`-th wait. */
static void mutate(const struct setup *s, size_t step, size_t *n_waits)
{
    struct world w;
    size_t n;

    world_init(&w, s);
    world_issue(&w);
    n = recorder_n_waits(w.recorder);
    for (size_t k = n % step; k < n; k += step) {
        cr_assert(recorder_play_without(w.recorder, k, went_wrong, &w),
                  "%s P=%d chunk=%zu peers=%d: nobody misses wait %zu of %zu", s->backend,
                  s->n_ranks, s->chunk_bytes, s->peers, k, n);
    }
    *n_waits += n / step;
    recorder_play(w.recorder, 1, false);
    cr_assert(!went_wrong(&w), "all are back");
    world_fini(&w);
}

/* Issued directly: the end of a graph waits for all of it, whatever joins there are in it. */
Test(engine_cuda, any_wait_that_is_dropped_is_missed)
{
    size_t n_waits = 0;

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        /* From 2: the sum of one rank's values in place is there all the time. */
        for (size_t p = 1; p < N_ALL_RANKS; p++) {
            for (size_t c = 0; c < 3; c++) {
                struct setup s = basic(planner_at(b)->name, all_ranks[p], chunks[c]);
                const size_t step = all_ranks[p] <= 8 ? 1 : 101; /* all of them take minutes */
                s.n[0] = 19;
                mutate(&s, step, &n_waits);
                s.peers = false;
                mutate(&s, step, &n_waits);
            }
        }
    }
    cr_assert_gt(n_waits, 10000, "%zu", n_waits);
}

Test(engine_cuda, any_wait_between_jobs_is_missed)
{
    size_t n_waits = 0;

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        struct setup s = basic(planner_at(b)->name, 4, 16);
        s.n_jobs = 2;
        s.n[0] = 9;
        s.n[1] = 20;
        mutate(&s, 1, &n_waits);
    }
    cr_assert_gt(n_waits, 500);
}

/* --- Itineraries --- */

static bool reaches_all(void *ctx, int rank, int node)
{
    (void)ctx;
    (void)rank;
    (void)node;
    return true;
}

static struct itinerary *itinerary_of(const char *backend, int n_ranks, size_t n,
                                      size_t chunk_bytes, struct program **program)
{
    struct program_spec spec = {.n = n, .in_place = true, .chunk_bytes = chunk_bytes};
    struct topo *t = grid_mesh(n_ranks);
    struct plan *plan = grid_plan(backend, t, COLL_ALLREDUCE, -1);
    struct itinerary *s = NULL;

    *program = grid_program(plan, &spec);
    cr_assert_eq(itinerary_create(*program, reaches_all, NULL, &s), ST_OK);
    return s; /* plan and topology live on, for the program */
}

/* One stream for each hop: a chain of P ranks has P - 1 links, used up and down. */
Test(itinerary, a_chain_has_a_stream_for_each_hop)
{
    struct program *p;
    struct itinerary *s = itinerary_of("lp", 5, 1000, 40, &p);
    size_t n_work = 0;

    cr_assert_eq(s->n_streams, 1 + 2 * 4);
    for (size_t k = 0; k < s->n_commands; k++) {
        n_work += s->commands[k].kind == COMMAND_COPY || s->commands[k].kind == COMMAND_FOLD;
    }
    cr_assert_eq(n_work, p->n_instances);
    cr_assert_leq(s->n_commands, 3 * n_work + (size_t)(2 * s->n_streams),
                  "a chunk needs a wait, the work and a record");
}

/* Two trees that meet a link at the same hop share its stream: stars of one hop do everywhere. */
Test(itinerary, trees_share_the_stream_of_the_same_hop)
{
    struct program *p;
    struct itinerary *s = itinerary_of("central", 4, 100, 16, &p);
    int n_one = s->n_streams;

    cr_assert_eq(n_one, 1 + 2 * 3);
    itinerary_destroy(s);
    program_destroy(p);
    s = itinerary_of("ring", 4, 100, 16, &p);
    for (int a = 1; a < s->n_streams; a++) {
        for (int b = 1; b < a; b++) {
            const struct itinerary_stream *x = &s->streams[a], *y = &s->streams[b];
            cr_assert(x->from != y->from || x->to != y->to || x->level != y->level);
        }
    }
}

Test(itinerary, every_failing_allocation_is_reported)
{
    struct program *p;
    struct itinerary *s = itinerary_of("ring", 4, 100, 16, &p);
    enum status st = ST_NOMEM;
    size_t live;

    itinerary_destroy(s);
    live = mem_live();
    for (size_t k = 1; st != ST_OK; k++) {
        mem_fail_at(k);
        s = NULL;
        st = itinerary_create(p, reaches_all, NULL, &s);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        itinerary_destroy(s);
        cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
    }
}

/* --- Failures --- */

Test(engine_cuda, a_missing_rank_is_named, .init = cr_redirect_stderr)
{
    struct setup s = basic("ring", 3, 16);
    struct world w;
    char text[1024] = "";

    world_init(&w, &s);
    cr_assert_eq(engine_cuda_post(w.engine, 0, 0, w.streams[0]), ST_OK);
    cr_assert_eq(engine_cuda_post(w.engine, 0, 0, w.streams[0]), ST_BADARG);
    cr_assert_eq(engine_cuda_post(w.engine, 2, 0, w.streams[2]), ST_OK);
    cr_assert_eq(engine_cuda_wait(w.engine, 0, 0, w.streams[0]), ST_TIMEOUT);
    cr_assert_eq(engine_cuda_wait(w.engine, 2, 0, w.streams[2]), ST_PEER);
    cr_assert_eq(engine_cuda_post(w.engine, 1, 0, w.streams[1]), ST_PEER);
    fflush(stderr);
    (void)!fread(text, 1, sizeof text - 1, cr_get_redirected_stderr());
    cr_assert_not_null(strstr(text, "on rank 0, waiting for rank 1,"), "%s", text);
    world_fini(&w);
}

Test(engine_cuda, an_abort_reaches_everybody, .init = cr_redirect_stderr)
{
    struct setup s = basic("be", 2, 16);
    struct world w;

    world_init(&w, &s);
    cr_assert_eq(engine_cuda_post(w.engine, 0, 0, w.streams[0]), ST_OK);
    engine_cuda_abort(w.engine, 1, ST_INPUT);
    cr_assert_eq(engine_cuda_wait(w.engine, 0, 0, w.streams[0]), ST_PEER);
    cr_assert_eq(engine_cuda_sync(w.engine, 0, 0), ST_PEER);
    world_fini(&w);
}

Test(engine_cuda, every_failing_allocation_is_reported)
{
    struct setup s = basic("central-host", 3, 16);
    struct world w;
    enum status st = ST_NOMEM;
    size_t live;

    world_init(&w, &s);
    engine_cuda_destroy(w.engine);
    w.engine = NULL;
    live = mem_live();
    for (size_t k = 1; st != ST_OK; k++) {
        struct engine_cuda_options opt = {
            .device = &w.ops, .set = w.recorder, .n_ranks = 3, .timeout_s = 1};
        struct engine_job job = {w.programs[0], w.buffers[0], "a test", "job"};
        mem_fail_at(k);
        st = engine_cuda_create(&opt, &job, 1, &w.engine);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        cr_assert(st == ST_OK || mem_live() == live, "failure %zu leaks", k);
    }
    world_fini(&w);
}

/* On the CPU device, where commands run as they come, with real threads' worth of ranks. */
Test(engine_cuda, runs_on_the_cpu_device)
{
    const int devices[8] = {0};

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        struct setup s = basic(planner_at(b)->name, 8, 64);
        struct world w;
        struct engine_cuda_options opt = {.device = &device_cpu, .n_ranks = 8, .timeout_s = 1};
        struct engine_job job;
        struct engine_cuda *e = NULL;
        void *stream = NULL;
        s.n[0] = 1000;
        world_init(&w, &s);
        cr_assert_eq(device_cpu.open(devices, 8, &opt.set), ST_OK);
        cr_assert_eq(device_cpu.stream_create(opt.set, 0, &stream), ST_OK);
        job = (struct engine_job){w.programs[0], w.buffers[0], "a test", "job"};
        cr_assert_eq(engine_cuda_create(&opt, &job, 1, &e), ST_OK);
        for (int r = 0; r < 8; r++) {
            produce(&w, r, 0);
            cr_assert_eq(engine_cuda_post(e, r, 0, stream), ST_OK);
        }
        for (int r = 0; r < 8; r++) {
            cr_assert_eq(engine_cuda_sync(e, r, 0), ST_OK);
            consume(&w, r, 0);
        }
        cr_assert(!went_wrong(&w), "%s", s.backend);
        engine_cuda_destroy(e);
        device_cpu.stream_destroy(opt.set, stream);
        device_cpu.close(opt.set);
        world_fini(&w);
    }
}
