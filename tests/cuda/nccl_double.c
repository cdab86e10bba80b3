/*
 * Stands for libnccl where there is no GPU: keeps the calls of a group and carries them out on host
 * memory at its end, as the library's documentation says, for floats and sums. ESPALIER_NCCL_DOUBLE
 * makes a function fail.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "comm/nccl/nccl_library.h"

enum {
    MAX_RANKS = 8
};

enum kind {
    ALLREDUCE,
    REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALLGATHER
};

struct call {
    enum kind kind;
    const float *in;
    float *out;
    size_t n;
    int root;
};

/* The library's own state, which lives in its shared object. */
static struct {
    int rank[MAX_RANKS], n_ranks;
    struct call calls[MAX_RANKS];
    bool called[MAX_RANKS], open;
} state;

#define SHOW __attribute__((visibility("default")))
#define X(type, name, args) SHOW type nccl##name args;
NCCL_FUNCTIONS(X)
#undef X
SHOW int nccl_double_aborts(void);

static int aborts;

static bool fails(const char *name)
{
    const char *which = getenv("ESPALIER_NCCL_DOUBLE");

    return which != NULL && strcmp(which, name) == 0;
}

int nccl_double_aborts(void)
{
    return aborts;
}

nccl_result ncclGetVersion(int *version)
{
    *version = fails("old") ? 2804 : 22809;
    return fails("version") ? 3 : 0;
}

const char *ncclGetErrorString(nccl_result result)
{
    return result == 3 ? "a double's error" : "another error";
}

const char *ncclGetLastError(nccl_comm comm)
{
    (void)comm;
    return "said by the double";
}

nccl_result ncclCommInitAll(nccl_comm *comms, int n, const int *devices)
{
    (void)devices;
    if (fails("init")) {
        return 3;
    }
    state.n_ranks = n;
    for (int r = 0; r < n; r++) {
        state.rank[r] = r;
        comms[r] = &state.rank[r];
    }
    return 0;
}

nccl_result ncclCommDestroy(nccl_comm comm)
{
    (void)comm;
    return 0;
}

nccl_result ncclCommAbort(nccl_comm comm)
{
    (void)comm;
    aborts++;
    return 0;
}

nccl_result ncclCommGetAsyncError(nccl_comm comm, nccl_result *result)
{
    (void)comm;
    *result = fails("async") ? 3 : 7;
    return 0;
}

nccl_result ncclGroupStart(void)
{
    memset(state.called, 0, sizeof state.called);
    state.open = true;
    return 0;
}

static nccl_result keep(struct call c, nccl_dtype d, nccl_redop r, nccl_comm comm)
{
    int rank = *(int *)comm;

    if (!state.open || state.called[rank] || d != NCCL_DTYPE_FLOAT32 || r != NCCL_REDOP_SUM ||
        fails("call")) {
        return 3;
    }
    state.called[rank] = true;
    state.calls[rank] = c;
    return 0;
}

nccl_result ncclAllReduce(const void *in, void *out, size_t n, nccl_dtype d, nccl_redop r,
                          nccl_comm c, nccl_stream s)
{
    (void)s;
    return keep((struct call){ALLREDUCE, in, out, n, 0}, d, r, c);
}

nccl_result ncclReduce(const void *in, void *out, size_t n, nccl_dtype d, nccl_redop r, int root,
                       nccl_comm c, nccl_stream s)
{
    (void)s;
    return keep((struct call){REDUCE, in, out, n, root}, d, r, c);
}

nccl_result ncclBroadcast(const void *in, void *out, size_t n, nccl_dtype d, int root, nccl_comm c,
                          nccl_stream s)
{
    (void)s;
    return keep((struct call){BROADCAST, in, out, n, root}, d, NCCL_REDOP_SUM, c);
}

nccl_result ncclReduceScatter(const void *in, void *out, size_t n_out, nccl_dtype d, nccl_redop r,
                              nccl_comm c, nccl_stream s)
{
    (void)s;
    return keep((struct call){REDUCE_SCATTER, in, out, n_out, 0}, d, r, c);
}

nccl_result ncclAllGather(const void *in, void *out, size_t n_in, nccl_dtype d, nccl_comm c,
                          nccl_stream s)
{
    (void)s;
    return keep((struct call){ALLGATHER, in, out, n_in, 0}, d, NCCL_REDOP_SUM, c);
}

static float sum_at(size_t i)
{
    float sum = 0;

    for (int r = 0; r < state.n_ranks; r++) {
        sum += state.calls[r].in[i];
    }
    return sum;
}

/* Element i of rank r's result; *n: how many it has. */
static float result(int r, size_t i, size_t *n)
{
    const struct call *c = &state.calls[r];
    size_t ranks = (size_t)state.n_ranks;

    *n = c->n;
    switch (c->kind) {
    case ALLREDUCE:
        break;
    case REDUCE:
        *n = r == c->root ? c->n : 0;
        break;
    case BROADCAST:
        return state.calls[c->root].in[i];
    case REDUCE_SCATTER:
        return sum_at((size_t)r * c->n + i);
    case ALLGATHER:
        *n = ranks * c->n;
        return state.calls[i / c->n].in[i % c->n];
    }
    return sum_at(i);
}

nccl_result ncclGroupEnd(void)
{
    float *results[MAX_RANKS] = {0};
    size_t n[MAX_RANKS] = {0};

    state.open = false;
    for (int r = 0; r < state.n_ranks; r++) {
        if (!state.called[r]) {
            return 3;
        }
    }
    for (int r = 0; r < state.n_ranks; r++) { /* in place: first all results, then write */
        n[r] = 1;
        for (size_t i = 0; state.calls[r].n > 0 && i < n[r]; i++) {
            float x = result(r, i, &n[r]);
            if (results[r] == NULL) {
                results[r] = malloc((n[r] + 1) * sizeof(float));
            }
            results[r][i] = x;
        }
    }
    for (int r = 0; r < state.n_ranks; r++) {
        if (results[r] != NULL && n[r] > 0) {
            memcpy(state.calls[r].out, results[r], n[r] * sizeof(float));
        }
        free(results[r]);
    }
    return 0;
}
