/* The CPU device keeps the contract of device.h; a GPU would run the same body. */
#include <criterion/criterion.h>

#include "base/mem.h"
#include "device/device.h"

static void try_work(const struct device_ops *d)
{
    const int devices[] = {0, 0, 0};
    void *set = NULL, *stream = NULL, *event = NULL, *x = NULL, *y = NULL, *host = NULL;
    struct device_fold f = {.dtype = DEVICE_F32, .n_src = 2, .n_dst = 1, .n = 100};
    bool done = false;

    cr_assert_eq(d->open(devices, 3, &set), ST_OK);
    cr_assert(d->reaches(set, 0, 2));
    cr_assert_eq(d->use(set, 1), ST_OK);
    cr_assert_eq(d->alloc(set, 0, 400, &x), ST_OK);
    cr_assert_eq(d->alloc(set, 2, 400, &y), ST_OK);
    cr_assert_eq(d->alloc_host(set, 400, &host), ST_OK);
    cr_assert_eq(d->stream_create(set, 2, &stream), ST_OK);
    cr_assert_eq(d->event_create(set, 2, &event), ST_OK);
    for (int i = 0; i < 100; i++) {
        ((float *)host)[i] = (float)i;
    }
    cr_assert_eq(d->copy(set, stream, x, host, 400), ST_OK);
    f.src[0] = f.src[1] = x;
    f.dst[0] = y;
    cr_assert_eq(d->fold(set, stream, &f), ST_OK);
    cr_assert_eq(d->record(set, stream, event), ST_OK);
    cr_assert_eq(d->wait(set, stream, event), ST_OK);
    cr_assert_eq(d->copy(set, stream, host, y, 400), ST_OK);
    cr_assert_eq(d->stream_sync(set, stream), ST_OK);
    cr_assert_eq(d->done(set, event, &done), ST_OK);
    cr_assert(done);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(((float *)host)[i], (float)(2 * i));
    }
    d->event_destroy(set, event);
    d->stream_destroy(set, stream);
    d->release_host(set, host);
    d->release(set, 2, y);
    d->release(set, 0, x);
    d->close(set);
}

Test(device, cpu_works)
{
    try_work(&device_cpu);
    cr_assert_eq(mem_live(), 0);
}

Test(device, cpu_has_one_device)
{
    const int devices[] = {0, 1};
    void *set = NULL;
    int n = 0;

    cr_assert_eq(device_cpu.count(&n), ST_OK);
    cr_assert_eq(n, 1);
    cr_assert_eq(device_cpu.open(devices, 2, &set), ST_INPUT);
    cr_assert_null(set);
}

Test(device, cpu_out_of_memory)
{
    const int devices[] = {0};
    void *set = NULL, *p = NULL;

    mem_fail_at(1);
    cr_assert_eq(device_cpu.open(devices, 1, &set), ST_NOMEM);
    cr_assert_eq(device_cpu.open(devices, 1, &set), ST_OK);
    mem_fail_at(1);
    cr_assert_eq(device_cpu.alloc(set, 0, 8, &p), ST_NOMEM);
    cr_assert_null(p);
    device_cpu.close(set);
    cr_assert_eq(mem_live(), 0);
}
