#include "device/cuda/cuda_set.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

enum {
    BLOCKS_PER_SM = 8 /* of 256 threads: all that fit */
};

enum status cuda_fail(cudaError_t e, const char *call)
{
    enum status st = e == cudaErrorMemoryAllocation ? ST_NOMEM : ST_INTERNAL;

    (void)cudaGetLastError(); /* so that no later call reports it again */
    return log_fail(st, "CUDA: %s (%s), in %s, %s", cudaGetErrorString(e), cudaGetErrorName(e),
                    call,
                    st == ST_NOMEM ? "use a smaller batch or another GPU"
                                   : "run scripts/gpu-check for the state of the GPU");
}

static enum status fail_count(cudaError_t e)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int driver = 0, runtime = 0;

    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (e == cudaErrorNoDevice) {
        return log_fail(
            ST_UNSUPPORTED,
            "[device] type = cuda: there is no GPU, CUDA_VISIBLE_DEVICES %s%s, make one "
            "visible or set [device] type = cpu",
            visible != NULL ? "= " : "is not set", visible != NULL ? visible : "");
    }
    return log_fail(
        ST_UNSUPPORTED,
        "[device] type = cuda: %s (run time CUDA %d.%d, driver for CUDA %d.%d), install "
        "a newer driver or set [device] type = cpu",
        cudaGetErrorString(e), runtime / 1000, runtime % 1000 / 10, driver / 1000,
        driver % 1000 / 10);
}

enum status cuda_set_count(int *n)
{
    int found = 0; /* without a driver the call leaves it alone */
    cudaError_t e = cudaGetDeviceCount(&found);

    (void)cudaGetLastError();
    if (e != cudaSuccess || found == 0) {
        return fail_count(e != cudaSuccess ? e : cudaErrorNoDevice);
    }
    *n = found;
    return ST_OK;
}

/* Memory stays in the pool when it is freed, so that building again is fast. */
static enum status use_pool(struct cuda_rank *r)
{
    uint64_t keep = UINT64_MAX;
    int has_pools = 0;

    CUDA_TRY(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, r->device));
    if (has_pools) {
        CUDA_TRY(cudaDeviceGetDefaultMemPool(&r->pool, r->device));
        CUDA_TRY(cudaMemPoolSetAttribute(r->pool, cudaMemPoolAttrReleaseThreshold, &keep));
    }
    return ST_OK;
}

static enum status open_rank(struct cuda_rank *r, int device)
{
    int n_sms = 0;

    r->device = device;
    CUDA_TRY(cudaSetDevice(device));
    CUDA_TRY(cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, device));
    r->n_blocks = (size_t)n_sms * BLOCKS_PER_SM;
    TRY(use_pool(r));
    CUDA_TRY(cudaStreamCreateWithFlags(&r->setup, cudaStreamNonBlocking));
    return ST_OK;
}

static enum status fill(struct cuda_set *s, const int *devices, int n_ranks)
{
    int n_devices;

    TRY(cuda_set_count(&n_devices));
    for (int r = 0; r < n_ranks; r++) {
        if (devices[r] < 0 || devices[r] >= n_devices) {
            return log_fail(ST_INPUT,
                            "there is no device cuda:%d for rank %d, %d GPU%s visible, use fewer "
                            "devices or set CUDA_VISIBLE_DEVICES",
                            devices[r], r, n_devices, n_devices == 1 ? " is" : "s are");
        }
    }
    s->ranks = mem_alloc((size_t)n_ranks, sizeof *s->ranks);
    s->reaches = mem_alloc((size_t)n_ranks * (size_t)n_ranks, sizeof *s->reaches);
    if (s->ranks == NULL || s->reaches == NULL) {
        return ST_NOMEM;
    }
    for (; s->n_ranks < n_ranks; s->n_ranks++) {
        TRY(open_rank(&s->ranks[s->n_ranks], devices[s->n_ranks]));
    }
    return cuda_peer_try_all(s);
}

enum status cuda_set_open(const int *devices, int n_ranks, void **set)
{
    struct cuda_set *s = mem_alloc(1, sizeof *s);
    enum status st;

    if (s == NULL) {
        return ST_NOMEM;
    }
    st = fill(s, devices, n_ranks);
    if (st != ST_OK) {
        cuda_set_close(s);
        return st;
    }
    *set = s;
    return ST_OK;
}

void cuda_set_close(void *set)
{
    struct cuda_set *s = set;

    if (s == NULL) {
        return;
    }
    for (int r = 0; r < s->n_ranks; r++) {
        if (cudaSetDevice(s->ranks[r].device) == cudaSuccess) {
            (void)cudaStreamSynchronize(s->ranks[r].setup);
            (void)cudaStreamDestroy(s->ranks[r].setup);
        }
    }
    mem_free(s->ranks);
    mem_free(s->reaches);
    mem_free(s);
}

enum status cuda_set_use(void *set, int rank)
{
    const struct cuda_set *s = set;

    CUDA_TRY(cudaSetDevice(s->ranks[rank].device));
    return ST_OK;
}

bool cuda_set_reaches(void *set, int rank, int peer)
{
    const struct cuda_set *s = set;

    return s->reaches[rank * s->n_ranks + peer];
}

enum status cuda_set_alloc(void *set, int rank, size_t bytes, void **p)
{
    const struct cuda_set *s = set;
    const struct cuda_rank *r = &s->ranks[rank];
    size_t size = bytes > 0 ? bytes : 1; /* 0 bytes give no address */
    cudaError_t e;
    void *got = NULL;

    CUDA_TRY(cudaSetDevice(r->device));
    e = r->pool != NULL ? cudaMallocAsync(&got, size, r->setup) : cudaMalloc(&got, size);
    if (e == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return log_fail(ST_NOMEM,
                        "cuda:%d has no %zu MiB of memory left for rank %d, use a smaller batch",
                        r->device, size >> 20, rank);
    }
    CUDA_TRY(e);
    e = cudaMemsetAsync(got, 0, size, r->setup);
    e = e == cudaSuccess ? cudaStreamSynchronize(r->setup) : e;
    if (e != cudaSuccess) {
        cuda_set_release(set, rank, got);
        return cuda_fail(e, "cudaMemsetAsync");
    }
    *p = got;
    return ST_OK;
}

void cuda_set_release(void *set, int rank, void *p)
{
    const struct cuda_set *s = set;
    const struct cuda_rank *r = &s->ranks[rank];

    if (p == NULL || cudaSetDevice(r->device) != cudaSuccess) {
        return;
    }
    (void)(r->pool != NULL ? cudaFreeAsync(p, r->setup) : cudaFree(p));
}

enum status cuda_set_alloc_host(void *set, size_t bytes, void **p)
{
    const struct cuda_set *s = set;
    unsigned char *got = NULL;

    CUDA_TRY(cudaSetDevice(s->ranks[0].device));
    CUDA_TRY(cudaHostAlloc((void **)&got, bytes > 0 ? bytes : 1,
                           cudaHostAllocPortable | cudaHostAllocMapped));
    for (size_t i = 0; i < bytes; i++) {
        got[i] = 0;
    }
    *p = got;
    return ST_OK;
}

void cuda_set_release_host(void *set, void *p)
{
    (void)set;
    if (p != NULL) {
        (void)cudaFreeHost(p);
    }
}
