/* Collectives measured in the memory of devices: every result is right, also NCCL's stand-in's. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "comm/bench_device.h"
#include "grid.h"

#define DOUBLE TEST_BINARY_DIR "/lib/tests/nccl_double.so"

/* The host, as a machine with eight devices. */
static enum status count_eight(int *n)
{
    *n = 8;
    return ST_OK;
}

static enum status open_any(const int *devices, int n_ranks, void **set)
{
    static const int zeros[16] = {0};

    (void)devices;
    return device_cpu.open(zeros, n_ranks, set);
}

static struct device_ops eight_devices(void)
{
    struct device_ops d = device_cpu;

    d.count = count_eight;
    d.open = open_any;
    return d;
}

static struct bench_spec spec_of(const struct topo *t, const char *backend, enum collective c)
{
    return (struct bench_spec){.topo = t,
                               .backend = backend,
                               .collective = c,
                               .dtype = DTYPE_F32,
                               .redop = REDOP_SUM,
                               .n = 1008,
                               .check = true,
                               .n_warmup = 1,
                               .n_iterations = 2,
                               .timeout_s = 5};
}

static void measure(const char *backend, enum collective c, int n_ranks, bool in_place)
{
    struct device_ops d = eight_devices();
    struct bench_devices where = {.device = &d, .nccl = DOUBLE};
    struct topo *t = grid_mesh(n_ranks);
    struct bench_spec spec = spec_of(t, backend, c);
    struct bench_result r;

    spec.in_place = in_place;
    cr_assert_eq(bench_device_run(&spec, &where, &r), ST_OK, "%s %s", backend, collective_name(c));
    cr_assert_eq(r.wrong, 0, "%s %s P=%d: %zu wrong", backend, collective_name(c), n_ranks,
                 r.wrong);
    cr_assert_eq(r.n_iterations, 2);
    cr_assert_str_eq(r.backend, backend);
    topo_destroy(t);
}

Test(bench_device, every_backend_is_right)
{
    static const int counts[] = {1, 2, 3, 4, 7, 8};
    const char *backend = "nccl";

    for (size_t b = 0; backend != NULL; b++) {
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            measure(backend, COLL_ALLREDUCE, counts[k], false);
            measure(backend, COLL_ALLREDUCE, counts[k], true);
        }
        backend = planner_at(b) != NULL ? planner_at(b)->name : NULL;
    }
    cr_assert_eq(mem_live(), 0);
}

Test(bench_device, nccl_does_every_collective)
{
    static const enum collective all[] = {COLL_BROADCAST, COLL_REDUCE, COLL_ALLREDUCE,
                                          COLL_REDUCE_SCATTER, COLL_ALLGATHER};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        measure("nccl", all[i], 4, false);
        measure("nccl", all[i], 4, true);
    }
    cr_assert_eq(mem_live(), 0);
}

Test(bench_device, too_few_devices)
{
    struct device_ops d = eight_devices();
    struct bench_devices where = {.device = &d, .nccl = DOUBLE};
    struct topo *t = grid_mesh(9);
    struct bench_spec spec = spec_of(t, "ring", COLL_ALLREDUCE);
    struct bench_result r;

    cr_assert_eq(bench_device_run(&spec, &where, &r), ST_INPUT);
    where.oversubscribe = true;
    cr_assert_eq(bench_device_run(&spec, &where, &r), ST_OK);
    cr_assert_eq(r.wrong, 0);
    spec.backend = "nccl"; /* which wants a device for each rank */
    cr_assert_eq(bench_device_run(&spec, &where, &r), ST_INPUT);
    topo_destroy(t);
}

Test(bench_device, every_failed_allocation_is_cleaned_up)
{
    static const char *const backends[] = {"ring", "nccl"};
    struct device_ops d = eight_devices();
    struct bench_devices where = {.device = &d, .nccl = DOUBLE};
    struct topo *t = grid_mesh(3);
    const size_t live = mem_live();

    for (int b = 0; b < 2; b++) {
        struct bench_spec spec = spec_of(t, backends[b], COLL_ALLREDUCE);
        enum status st = ST_NOMEM;
        for (size_t k = 1; st != ST_OK; k++) {
            struct bench_result r;
            mem_fail_at(k);
            st = bench_device_run(&spec, &where, &r);
            mem_fail_at(0);
            cr_assert(st == ST_OK || st == ST_NOMEM || st == ST_UNSUPPORTED, "%s", status_text(st));
            cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
        }
    }
    topo_destroy(t);
}
