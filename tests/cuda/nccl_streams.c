#include "nccl_streams.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

#include "nccl_double.h"

static struct nccl_streams *here; /* opening has no other way to it */

static void expect(enum status st)
{
    assert(st == ST_OK);
    (void)st;
}

static void make_events(struct nccl_streams *s, int n_ranks)
{
    for (int r = 0; r < n_ranks; r++) {
        if (s->come[r] == NULL) {
            expect(s->ops.event_create(s->set, r, &s->come[r]));
        }
    }
    if (s->over == NULL) {
        expect(s->ops.event_create(s->set, 0, &s->over));
    }
}

static void put_copies(const struct nccl_streams *s, const struct nccl_double_call *calls, int n)
{
    const int root = calls[0].root;
    const size_t bytes = calls[0].n * (calls[0].dtype == NCCL_DTYPE_FLOAT32 ? 4 : 2);

    for (int r = 0; r < n; r++) {
        if (calls[r].out != calls[root].in) {
            expect(s->ops.copy(s->set, calls[0].stream, calls[r].out, calls[root].in, bytes));
        }
    }
}

static void put_sum(const struct nccl_streams *s, const struct nccl_double_call *calls, int n)
{
    struct device_fold f = {.dtype =
                                calls[0].dtype == NCCL_DTYPE_FLOAT32 ? DEVICE_F32 : DEVICE_BF16,
                            .redop = DEVICE_SUM,
                            .n_src = n,
                            .n = calls[0].n};

    for (int r = 0; r < n; r++) {
        f.src[r] = calls[r].in;
        if (calls[r].kind == NCCL_DOUBLE_ALLREDUCE || r == calls[r].root) {
            f.dst[f.n_dst++] = calls[r].out;
        }
    }
    expect(s->ops.fold(s->set, calls[0].stream, &f));
}

static void put_group(void *ctx, const struct nccl_double_call *calls, int n)
{
    struct nccl_streams *s = ctx;

    make_events(s, n);
    for (int r = 1; r < n; r++) {
        expect(s->ops.record(s->set, calls[r].stream, s->come[r]));
        expect(s->ops.wait(s->set, calls[0].stream, s->come[r]));
    }
    if (calls[0].kind == NCCL_DOUBLE_BROADCAST) {
        put_copies(s, calls, n);
    } else {
        put_sum(s, calls, n);
    }
    expect(s->ops.record(s->set, calls[0].stream, s->over));
    for (int r = 1; r < n; r++) {
        expect(s->ops.wait(s->set, calls[r].stream, s->over));
    }
}

void *nccl_double_symbol(const char *name)
{
    void *handle = dlopen(NCCL_DOUBLE, RTLD_NOW | RTLD_NODELETE);
    void *symbol = handle != NULL ? dlsym(handle, name) : NULL;

    assert(symbol != NULL);
    (void)dlclose(handle);
    return symbol;
}

static void set_group(nccl_double_group *fn, void *ctx)
{
    void *symbol = nccl_double_symbol("nccl_double_groups");
    nccl_double_set_group *set;

    memcpy(&set, &symbol, sizeof set);
    set(fn, ctx);
}

static enum status (*open_devices)(const int *devices, int n_ranks, void **set);

static enum status open_and_tell(const int *devices, int n_ranks, void **set)
{
    enum status st = open_devices(devices, n_ranks, set);

    here->set = st == ST_OK ? *set : NULL;
    return st;
}

void nccl_streams_begin(struct nccl_streams *s, const struct device_ops *ops, void *set)
{
    *s = (struct nccl_streams){.ops = *ops, .set = set};
    here = s;
    open_devices = ops->open;
    s->ops.open = open_and_tell;
    set_group(put_group, s);
}

void nccl_streams_end(struct nccl_streams *s)
{
    set_group(NULL, NULL);
    for (int r = 0; r < DEVICE_MAX_REFS; r++) {
        s->ops.event_destroy(s->set, s->come[r]);
    }
    s->ops.event_destroy(s->set, s->over);
    here = NULL;
}
