/*
 * Stands for libnccl where there is no GPU: keeps the calls of a group and carries them out on host
 * memory at its end, as the library's documentation says, for floats and sums; or leaves it to the
 * test. ESPALIER_NCCL_DOUBLE makes a function fail.
 */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_double.h"

enum {
    MAX_RANKS = 16
};

/* The library's own state, which lives in its shared object. */
static struct {
    int rank[MAX_RANKS], n_ranks;
    struct nccl_double_call calls[MAX_RANKS];
    bool called[MAX_RANKS], open;
    nccl_double_group *group;
    void *ctx;
    int aborts, inits;
} state;

#define SHOW __attribute__((visibility("default")))
#define X(type, name, args) SHOW type nccl##name args;
NCCL_FUNCTIONS(X)
#undef X
SHOW nccl_double_count nccl_double_aborts, nccl_double_inits;
SHOW nccl_double_set_group nccl_double_groups;

static bool fails(const char *name)
{
    const char *which = getenv("ESPALIER_NCCL_DOUBLE");

    return which != NULL && strcmp(which, name) == 0;
}

int nccl_double_aborts(void)
{
    return state.aborts;
}

int nccl_double_inits(void)
{
    return state.inits;
}

void nccl_double_groups(nccl_double_group *fn, void *ctx)
{
    state.group = fn;
    state.ctx = ctx;
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
    state.inits += n;
    for (int r = 0; r < n; r++) {
        state.rank[r] = r;
        comms[r] = &state.rank[r];
    }
    return 0;
}

nccl_result ncclCommDestroy(nccl_comm comm)
{
    (void)comm;
    assert(state.open); /* all of one thread in one group, or the first waits for the others */
    return 0;
}

nccl_result ncclCommAbort(nccl_comm comm)
{
    (void)comm;
    assert(state.open || fails("start"));
    state.aborts++;
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
    if (fails("start")) {
        return 3;
    }
    memset(state.called, 0, sizeof state.called);
    state.open = true;
    return 0;
}

/* Halves are for tests that carry out groups themselves. */
static nccl_result keep(struct nccl_double_call c, nccl_redop r, nccl_comm comm)
{
    int rank = *(int *)comm;

    if (!state.open || state.called[rank] || r != NCCL_REDOP_SUM || fails("call") ||
        (c.dtype != NCCL_DTYPE_FLOAT32 && state.group == NULL)) {
        return 3;
    }
    state.called[rank] = true;
    state.calls[rank] = c;
    return 0;
}

nccl_result ncclAllReduce(const void *in, void *out, size_t n, nccl_dtype d, nccl_redop r,
                          nccl_comm c, nccl_stream s)
{
    return keep((struct nccl_double_call){NCCL_DOUBLE_ALLREDUCE, in, out, n, d, 0, s}, r, c);
}

nccl_result ncclReduce(const void *in, void *out, size_t n, nccl_dtype d, nccl_redop r, int root,
                       nccl_comm c, nccl_stream s)
{
    return keep((struct nccl_double_call){NCCL_DOUBLE_REDUCE, in, out, n, d, root, s}, r, c);
}

nccl_result ncclBroadcast(const void *in, void *out, size_t n, nccl_dtype d, int root, nccl_comm c,
                          nccl_stream s)
{
    return keep((struct nccl_double_call){NCCL_DOUBLE_BROADCAST, in, out, n, d, root, s},
                NCCL_REDOP_SUM, c);
}

nccl_result ncclReduceScatter(const void *in, void *out, size_t n_out, nccl_dtype d, nccl_redop r,
                              nccl_comm c, nccl_stream s)
{
    return keep((struct nccl_double_call){NCCL_DOUBLE_REDUCE_SCATTER, in, out, n_out, d, 0, s}, r,
                c);
}

nccl_result ncclAllGather(const void *in, void *out, size_t n_in, nccl_dtype d, nccl_comm c,
                          nccl_stream s)
{
    return keep((struct nccl_double_call){NCCL_DOUBLE_ALLGATHER, in, out, n_in, d, 0, s},
                NCCL_REDOP_SUM, c);
}

static float in_at(int r, size_t i)
{
    return ((const float *)state.calls[r].in)[i];
}

static float sum_at(size_t i)
{
    float sum = 0;

    for (int r = 0; r < state.n_ranks; r++) {
        sum += in_at(r, i);
    }
    return sum;
}

/* Element i of rank r's result; *n: how many it has. */
static float result(int r, size_t i, size_t *n)
{
    const struct nccl_double_call *c = &state.calls[r];
    size_t ranks = (size_t)state.n_ranks;

    *n = c->n;
    switch (c->kind) {
    case NCCL_DOUBLE_ALLREDUCE:
        break;
    case NCCL_DOUBLE_REDUCE:
        *n = r == c->root ? c->n : 0;
        break;
    case NCCL_DOUBLE_BROADCAST:
        return in_at(c->root, i);
    case NCCL_DOUBLE_REDUCE_SCATTER:
        return sum_at((size_t)r * c->n + i);
    case NCCL_DOUBLE_ALLGATHER:
        *n = ranks * c->n;
        return in_at((int)(i / c->n), i % c->n);
    }
    return sum_at(i);
}

static void carry_out(void)
{
    float *results[MAX_RANKS] = {0};
    size_t n[MAX_RANKS] = {0};

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
}

nccl_result ncclGroupEnd(void)
{
    state.open = false;
    for (int r = 0; r < state.n_ranks; r++) {
        if (!state.called[r]) {
            return 3;
        }
    }
    if (fails("end")) {
        return 3;
    }
    if (state.group != NULL) {
        state.group(state.ctx, state.calls, state.n_ranks);
    } else {
        carry_out();
    }
    return 0;
}
