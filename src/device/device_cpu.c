#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "device/device.h"
#include "device/kernels/kernel_convert.h"
#include "device/kernels/kernel_finite.h"
#include "device/kernels/kernel_fold.h"
#include "device/kernels/kernel_sgd.h"
#include "device/kernels/kernel_store.h"
#include "device/kernels/kernel_vote.h"

/* Work runs when it is put on a stream, so streams and events only have to exist. */
struct cpu_set {
    int n_ranks;
};

static const char *cpu_version(void)
{
    return "the host";
}

static enum status cpu_count(int *n)
{
    *n = 1;
    return ST_OK;
}

static enum status cpu_open(const int *devices, int n_ranks, void **set)
{
    struct cpu_set *s;

    for (int r = 0; r < n_ranks; r++) {
        if (devices[r] != 0) {
            return log_fail(ST_INPUT, "there is no CPU device %d for rank %d, use device 0",
                            devices[r], r);
        }
    }
    s = mem_alloc(1, sizeof *s);
    if (s == NULL) {
        return ST_NOMEM;
    }
    s->n_ranks = n_ranks;
    *set = s;
    return ST_OK;
}

static void cpu_close(void *set)
{
    mem_free(set);
}

static enum status cpu_use(void *set, int rank)
{
    (void)set;
    (void)rank;
    return ST_OK;
}

static bool cpu_reaches(void *set, int rank, int peer)
{
    const struct cpu_set *s = set;

    return rank < s->n_ranks && peer < s->n_ranks;
}

static enum status cpu_alloc_host(void *set, size_t bytes, void **p)
{
    (void)set;
    *p = mem_alloc(bytes, 1);
    return *p != NULL ? ST_OK : ST_NOMEM;
}

static enum status cpu_alloc(void *set, int rank, size_t bytes, void **p)
{
    (void)rank;
    return cpu_alloc_host(set, bytes, p);
}

static void cpu_release_host(void *set, void *p)
{
    (void)set;
    mem_free(p);
}

static void cpu_release(void *set, int rank, void *p)
{
    (void)rank;
    cpu_release_host(set, p);
}

static enum status cpu_stream_create(void *set, int rank, void **stream)
{
    return cpu_alloc(set, rank, 1, stream);
}

static enum status cpu_urgent_stream_create(void *set, int rank, int urgency, void **stream)
{
    (void)urgency;
    return cpu_stream_create(set, rank, stream);
}

/* An event is the time at which it was recorded. */
static enum status cpu_event_create(void *set, int rank, void **event)
{
    return cpu_alloc(set, rank, sizeof(double), event);
}

static enum status cpu_stream_sync(void *set, void *stream)
{
    (void)set;
    (void)stream;
    return ST_OK;
}

static void *cpu_stream_native(void *set, void *stream)
{
    (void)set;
    return stream;
}

static enum status cpu_record(void *set, void *stream, void *event)
{
    (void)set;
    (void)stream;
    *(double *)event = clock_now_s();
    return ST_OK;
}

static enum status cpu_elapsed(void *set, void *from, void *to, double *s)
{
    (void)set;
    *s = *(const double *)to - *(const double *)from;
    return ST_OK;
}

static enum status cpu_wait(void *set, void *stream, void *event)
{
    (void)set;
    (void)stream;
    (void)event;
    return ST_OK;
}

static enum status cpu_done(void *set, void *event, bool *out)
{
    (void)set;
    (void)event;
    *out = true;
    return ST_OK;
}

static enum status cpu_event_sync(void *set, void *event)
{
    (void)set;
    (void)event;
    return ST_OK;
}

static enum status cpu_copy(void *set, void *stream, void *dst, const void *src, size_t bytes)
{
    (void)set;
    (void)stream;
    memmove(dst, src, bytes);
    return ST_OK;
}

static enum status cpu_clear(void *set, void *stream, void *p, size_t bytes)
{
    (void)set;
    (void)stream;
    memset(p, 0, bytes);
    return ST_OK;
}

/* One thread does the work of a whole launch. */
static const struct kernel_place everything = {
    .block = 0, .n_blocks = 1, .thread = 0, .n_threads = 1};

static enum status cpu_store(void *set, void *stream, const struct device_store *s)
{
    (void)set;
    (void)stream;
    kernel_store(everything, s);
    return ST_OK;
}

static enum status cpu_convert(void *set, void *stream, const struct device_convert *c)
{
    (void)set;
    (void)stream;
    kernel_convert(everything, c);
    return ST_OK;
}

static enum status cpu_finite(void *set, void *stream, const struct device_finite *f)
{
    (void)set;
    (void)stream;
    kernel_finite(everything, f);
    return ST_OK;
}

static enum status cpu_vote(void *set, void *stream, const struct device_vote *v)
{
    (void)set;
    (void)stream;
    kernel_vote(everything, v);
    return ST_OK;
}

static enum status cpu_fold(void *set, void *stream, const struct device_fold *f)
{
    (void)set;
    (void)stream;
    kernel_fold(everything, f, f->dtype, f->redop);
    return ST_OK;
}

static enum status cpu_sgd(void *set, void *stream, const struct device_sgd *s)
{
    (void)set;
    (void)stream;
    kernel_sgd(everything, s);
    return ST_OK;
}

const struct device_ops device_cpu = {
    .type = "cpu",
    .align = 64,
    .version = cpu_version,
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .use = cpu_use,
    .reaches = cpu_reaches,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .alloc_host = cpu_alloc_host,
    .release_host = cpu_release_host,
    .stream_create = cpu_stream_create,
    .urgent_stream_create = cpu_urgent_stream_create,
    .stream_destroy = cpu_release_host,
    .stream_sync = cpu_stream_sync,
    .stream_native = cpu_stream_native,
    .event_create = cpu_event_create,
    .timer_create = cpu_event_create,
    .event_destroy = cpu_release_host,
    .record = cpu_record,
    .wait = cpu_wait,
    .done = cpu_done,
    .event_sync = cpu_event_sync,
    .elapsed = cpu_elapsed,
    .copy = cpu_copy,
    .clear = cpu_clear,
    .store = cpu_store,
    .convert = cpu_convert,
    .finite = cpu_finite,
    .vote = cpu_vote,
    .fold = cpu_fold,
    .sgd = cpu_sgd,
};
