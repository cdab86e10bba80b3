/* The CUDA engine when ranks are missing or give up, memory is short, and on the CPU device. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#include "base/mem.h"
#include "engine_world.h"

Test(engine_cuda, a_missing_rank_is_named, .init = cr_redirect_stderr)
{
    struct setup s = world_basic("ring", 3, 16);
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
    struct setup s = world_basic("be", 2, 16);
    struct world w;

    world_init(&w, &s);
    cr_assert_eq(engine_cuda_post(w.engine, 0, 0, w.streams[0]), ST_OK);
    cr_assert(engine_cuda_abort(w.engine, 1, ST_INPUT));
    cr_assert_not(engine_cuda_abort(w.engine, 0, ST_INTERNAL), "only the first one is the cause");
    cr_assert_eq(engine_cuda_wait(w.engine, 0, 0, w.streams[0]), ST_PEER);
    cr_assert_eq(engine_cuda_sync(w.engine, 0, 0), ST_PEER);
    world_fini(&w);
}

Test(engine_cuda, every_failing_allocation_is_reported)
{
    struct setup s = world_basic("central-host", 3, 16);
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
        struct setup s = world_basic(planner_at(b)->name, 8, 64);
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
            world_produce(&w, r, 0);
            cr_assert_eq(engine_cuda_post(e, r, 0, stream), ST_OK);
        }
        for (int r = 0; r < 8; r++) {
            cr_assert_eq(engine_cuda_sync(e, r, 0), ST_OK);
            world_consume(&w, r, 0);
        }
        cr_assert(!world_went_wrong(&w), "%s", s.backend);
        engine_cuda_destroy(e);
        device_cpu.stream_destroy(opt.set, stream);
        device_cpu.close(opt.set);
        world_fini(&w);
    }
}
