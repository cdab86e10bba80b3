#include <stdint.h>

#include "base/log.h"
#include "device/cuda/cuda_set.h"

/*
 * Whether a GPU reaches the memory of another one is not taken on trust: an IOMMU in the way makes
 * accesses that the driver allows read or write the wrong bytes. So a kernel on the one copies a
 * pattern out of the other's memory, and another pattern into it, and the host compares.
 */
enum {
    PATTERN_N = 1 << 18 /* words */
};

struct peer_try {
    struct cuda_set *set;
    int a, b;                /* does rank a's device reach rank b's memory? */
    uint32_t *mine, *theirs; /* on a, on b */
    uint32_t *host;
};

static uint32_t pattern(const struct peer_try *t, uint32_t salt, size_t i)
{
    return (uint32_t)i * 2654435761u + salt + (uint32_t)(t->a * 64 + t->b) * 97u;
}

static void write_pattern(const struct peer_try *t, uint32_t salt)
{
    for (size_t i = 0; i < PATTERN_N; i++) {
        t->host[i] = pattern(t, salt, i);
    }
}

static bool has_pattern(const struct peer_try *t, uint32_t salt)
{
    for (size_t i = 0; i < PATTERN_N; i++) {
        if (t->host[i] != pattern(t, salt, i)) {
            return false;
        }
    }
    return true;
}

/* Put a pattern at `src`, let a kernel on a copy it to `dst`, fetch it from there. */
static enum status carry(const struct peer_try *t, uint32_t salt, uint32_t *src, uint32_t *dst,
                         bool *right)
{
    const struct cuda_rank *r = &t->set->ranks[t->a];
    struct cuda_stream on = {r->setup, r};
    struct device_fold f = {.dtype = DEVICE_I32,
                            .redop = DEVICE_SUM,
                            .src = {src},
                            .dst = {dst},
                            .n_src = 1,
                            .n_dst = 1,
                            .n = PATTERN_N};

    write_pattern(t, salt);
    TRY(cuda_stream_copy(t->set, &on, src, t->host, PATTERN_N * sizeof *src));
    TRY(cuda_stream_fold(t->set, &on, &f));
    CUDA_TRY(cudaStreamSynchronize(r->setup));
    write_pattern(t, ~salt); /* what comes back must come from there */
    TRY(cuda_stream_copy(t->set, &on, t->host, dst, PATTERN_N * sizeof *dst));
    CUDA_TRY(cudaStreamSynchronize(r->setup));
    *right = has_pattern(t, salt);
    return ST_OK;
}

static enum status try_pattern(struct cuda_set *set, int a, int b, bool *out)
{
    struct peer_try t = {.set = set, .a = a, .b = b};
    bool reads = false, writes = false;
    void *mine = NULL, *theirs = NULL, *host = NULL;
    enum status st = cuda_set_alloc(set, a, PATTERN_N * sizeof *t.mine, &mine);

    st = st == ST_OK ? cuda_set_alloc(set, b, PATTERN_N * sizeof *t.theirs, &theirs) : st;
    st = st == ST_OK ? cuda_set_alloc_host(set, PATTERN_N * sizeof *t.host, &host) : st;
    t.mine = mine;
    t.theirs = theirs;
    t.host = host;
    st = st == ST_OK ? carry(&t, 1, t.theirs, t.mine, &reads) : st;
    st = st == ST_OK ? carry(&t, 2, t.mine, t.theirs, &writes) : st;
    cuda_set_release(set, a, mine);
    cuda_set_release(set, b, theirs);
    cuda_set_release_host(set, host);
    *out = reads && writes;
    return st;
}

/* Pools have an access of their own. */
static enum status set_pool_access(const struct cuda_rank *to, const struct cuda_rank *of,
                                   enum cudaMemAccessFlags flags)
{
    struct cudaMemAccessDesc desc = {
        .location = {.type = cudaMemLocationTypeDevice, .id = to->device}, .flags = flags};

    if (of->pool != NULL) {
        CUDA_TRY(cudaMemPoolSetAccess(of->pool, &desc, 1));
    }
    return ST_OK;
}

/* Open b's memory to a, as far as the driver allows it. */
static enum status open_pair(const struct cuda_set *set, int a, int b, bool *allowed)
{
    const struct cuda_rank *ra = &set->ranks[a], *rb = &set->ranks[b];
    int can = 0;
    cudaError_t e;

    CUDA_TRY(cudaDeviceCanAccessPeer(&can, ra->device, rb->device));
    *allowed = can != 0;
    if (!can) {
        return ST_OK;
    }
    CUDA_TRY(cudaSetDevice(ra->device));
    e = cudaDeviceEnablePeerAccess(rb->device, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
    } else {
        CUDA_TRY(e);
    }
    return set_pool_access(ra, rb, cudaMemAccessFlagsProtReadWrite);
}

/* While it is open, the driver would not take copies through the host. */
static enum status shut_pair(const struct cuda_set *set, int a, int b)
{
    const struct cuda_rank *ra = &set->ranks[a], *rb = &set->ranks[b];

    CUDA_TRY(cudaSetDevice(ra->device));
    CUDA_TRY(cudaDeviceDisablePeerAccess(rb->device));
    return set_pool_access(ra, rb, cudaMemAccessFlagsProtNone);
}

static enum status try_pair(struct cuda_set *set, int a, int b, bool *out)
{
    bool allowed = false;

    *out = set->ranks[a].device == set->ranks[b].device;
    if (*out) {
        return ST_OK;
    }
    TRY(open_pair(set, a, b, &allowed));
    if (!allowed) {
        return ST_OK;
    }
    TRY(try_pattern(set, a, b, out));
    if (!*out) {
        log_warn("cuda:%d does not reach the memory of cuda:%d rightly although the driver allows "
                 "it, copies between them go through the host; look for an IOMMU in the firmware",
                 set->ranks[a].device, set->ranks[b].device);
        TRY(shut_pair(set, a, b));
    }
    return ST_OK;
}

/* Ranks that share devices share the answer. */
static bool known(const struct cuda_set *set, int a, int b, bool *out)
{
    int n = set->n_ranks;

    for (int k = 0; k < a * n + b; k++) {
        if (set->ranks[k / n].device == set->ranks[a].device &&
            set->ranks[k % n].device == set->ranks[b].device) {
            *out = set->reaches[k];
            return true;
        }
    }
    return false;
}

enum status cuda_peer_try_all(struct cuda_set *set)
{
    for (int a = 0; a < set->n_ranks; a++) {
        for (int b = 0; b < set->n_ranks; b++) {
            bool *out = &set->reaches[a * set->n_ranks + b];
            if (!known(set, a, b, out)) {
                TRY(try_pair(set, a, b, out));
            }
        }
    }
    return ST_OK;
}
