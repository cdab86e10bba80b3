#include "comm/nccl/nccl.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/nccl/nccl_library.h"

struct nccl {
    struct nccl_args args;
    nccl_comm *comms; /* [n_ranks] */
    int n_comms;
};

/* The library's last error says more than the result; it is of the calling thread. */
static enum status fail(const struct nccl_library *lib, enum status st, nccl_result result,
                        const char *what)
{
    const char *more = lib->GetLastError(NULL);

    return log_fail(st, "%s: %s failed, %s%s%s, set NCCL_DEBUG=INFO to see why", lib->version, what,
                    lib->GetErrorString(result), more != NULL && more[0] != '\0' ? ", " : "",
                    more != NULL ? more : "");
}

static enum status check_devices(const struct nccl_args *a)
{
    int n_devices;

    TRY(a->device->count(&n_devices));
    for (int r = 0; r < a->n_ranks; r++) {
        if (a->devices[r] < 0 || a->devices[r] >= n_devices) {
            return log_fail(ST_INPUT,
                            "[comm] backend = nccl: there is no device %s:%d for rank %d, %d are "
                            "visible, use fewer ranks",
                            a->device->type, a->devices[r], r, n_devices);
        }
        for (int q = 0; q < r; q++) {
            if (a->devices[q] == a->devices[r]) {
                return log_fail(ST_INPUT,
                                "[comm] backend = nccl: ranks %d and %d are both on %s:%d, but it "
                                "wants a device for each rank, use fewer ranks or another backend",
                                q, r, a->device->type, a->devices[r]);
            }
        }
    }
    return ST_OK;
}

/* A user's own settings come first. */
static void ask_for_log(const char *path)
{
    if (path != NULL && getenv("NCCL_DEBUG") == NULL) {
        (void)setenv("NCCL_DEBUG", "INFO", 0);
        (void)setenv("NCCL_DEBUG_SUBSYS", "INIT,GRAPH,TUNING", 0);
        (void)setenv("NCCL_DEBUG_FILE", path, 0);
    }
}

static enum status make(struct nccl *n, const struct nccl_args *a)
{
    nccl_result result;

    n->args = *a;
    TRY(check_devices(a));
    n->comms = mem_alloc((size_t)a->n_ranks, sizeof *n->comms);
    if (n->comms == NULL) {
        return ST_NOMEM;
    }
    ask_for_log(a->log_path);
    result = a->lib->CommInitAll(n->comms, a->n_ranks, a->devices);
    if (result != NCCL_RESULT_OK) {
        return fail(a->lib, ST_UNSUPPORTED, result, "ncclCommInitAll");
    }
    n->n_comms = a->n_ranks;
    return ST_OK;
}

enum status nccl_create(const struct nccl_args *args, struct nccl **out)
{
    struct nccl *n = mem_alloc(1, sizeof *n);
    enum status st;

    if (n == NULL) {
        return ST_NOMEM;
    }
    st = make(n, args);
    if (st != ST_OK) {
        nccl_destroy(n);
        return st;
    }
    *out = n;
    return ST_OK;
}

/* The communicators of a process end together: alone in a thread, one might wait for the next. */
static void end_all(struct nccl *n, nccl_result (*end)(nccl_comm comm))
{
    const struct nccl_library *lib = n->args.lib;
    const bool grouped = n->n_comms > 0 && lib->GroupStart() == NCCL_RESULT_OK;

    for (int r = 0; r < n->n_comms; r++) {
        (void)end(n->comms[r]);
    }
    if (grouped) {
        (void)lib->GroupEnd();
    }
    n->n_comms = 0;
}

void nccl_destroy(struct nccl *n)
{
    if (n == NULL) {
        return;
    }
    end_all(n, n->args.lib->CommDestroy);
    mem_free(n->comms);
    mem_free(n);
}

void nccl_abort(struct nccl *n)
{
    end_all(n, n->args.lib->CommAbort);
}

static nccl_dtype dtype_of(enum dtype d)
{
    static const nccl_dtype all[] = {[DTYPE_F32] = NCCL_DTYPE_FLOAT32,
                                     [DTYPE_BF16] = NCCL_DTYPE_BFLOAT16,
                                     [DTYPE_F16] = NCCL_DTYPE_FLOAT16,
                                     [DTYPE_I32] = NCCL_DTYPE_INT32};

    return all[d];
}

static nccl_redop redop_of(enum redop r)
{
    static const nccl_redop all[] = {[REDOP_SUM] = NCCL_REDOP_SUM,
                                     [REDOP_MEAN] = NCCL_REDOP_AVG,
                                     [REDOP_MAX] = NCCL_REDOP_MAX,
                                     [REDOP_MIN] = NCCL_REDOP_MIN};

    return all[r];
}

static nccl_result start_rank(const struct nccl *n, const struct nccl_call *c, int r)
{
    const struct nccl_library *lib = n->args.lib;
    nccl_stream s = n->args.device->stream_native(n->args.set, c->streams[r]);
    nccl_dtype d = dtype_of(c->dtype);
    nccl_redop o = redop_of(c->redop);
    size_t block = c->n / (size_t)n->args.n_ranks;

    switch (c->collective) {
    case COLL_BROADCAST:
        return lib->Broadcast(c->in[r], c->out[r], c->n, d, c->root, n->comms[r], s);
    case COLL_REDUCE:
        return lib->Reduce(c->in[r], c->out[r], c->n, d, o, c->root, n->comms[r], s);
    case COLL_ALLREDUCE:
        return lib->AllReduce(c->in[r], c->out[r], c->n, d, o, n->comms[r], s);
    case COLL_REDUCE_SCATTER:
        return lib->ReduceScatter(c->in[r], c->out[r], block, d, o, n->comms[r], s);
    case COLL_ALLGATHER:
        break;
    }
    return lib->AllGather(c->in[r], c->out[r], block, d, n->comms[r], s);
}

/* A group that was begun must be ended; parts of it that have started wait for the others forever.
 */
static enum status start_all(struct nccl *n, const struct nccl_call *call)
{
    const struct nccl_library *lib = n->args.lib;
    nccl_result result = lib->GroupStart(), end;

    if (result != NCCL_RESULT_OK) {
        return fail(lib, ST_INTERNAL, result, "ncclGroupStart");
    }
    for (int r = 0; result == NCCL_RESULT_OK && r < n->args.n_ranks; r++) {
        result = start_rank(n, call, r);
    }
    end = lib->GroupEnd();
    result = result != NCCL_RESULT_OK ? result : end;
    return result == NCCL_RESULT_OK
               ? ST_OK
               : fail(lib, ST_INTERNAL, result, collective_name(call->collective));
}

enum status nccl_start(struct nccl *n, const struct nccl_call *call)
{
    bool blocks = call->collective == COLL_REDUCE_SCATTER || call->collective == COLL_ALLGATHER;
    enum status st;

    if (n->n_comms == 0) {
        return ST_PEER; /* aborted before */
    }
    if (blocks && call->n % (size_t)n->args.n_ranks != 0) {
        return log_fail(
            ST_UNSUPPORTED,
            "[comm] backend = nccl: %s of %zu elements does not divide by %d ranks, use "
            "a multiple or another backend",
            collective_name(call->collective), call->n, n->args.n_ranks);
    }
    st = start_all(n, call);
    if (st != ST_OK) {
        nccl_abort(n);
    }
    return st;
}

enum status nccl_check(struct nccl *n)
{
    for (int r = 0; r < n->n_comms; r++) {
        nccl_result async = NCCL_RESULT_OK, result;
        result = n->args.lib->CommGetAsyncError(n->comms[r], &async);
        result = result != NCCL_RESULT_OK ? result : async;
        if (result != NCCL_RESULT_OK && result != NCCL_RESULT_IN_PROGRESS) {
            return fail(n->args.lib, ST_INTERNAL, result, "a collective");
        }
    }
    return ST_OK;
}

static enum status all_done(const struct nccl *n, void *const *events, bool *out)
{
    *out = true;
    for (int r = 0; *out && r < n->args.n_ranks; r++) {
        TRY(n->args.device->done(n->args.set, events[r], out));
    }
    return ST_OK;
}

enum status nccl_wait(struct nccl *n, void *const *events)
{
    double begin = clock_now_s();
    enum status st = ST_OK;
    bool done = false;

    if (n->n_comms == 0) {
        return ST_PEER; /* aborted before */
    }
    for (;;) {
        st = all_done(n, events, &done);
        if (st != ST_OK || done) {
            break;
        }
        st = nccl_check(n);
        if (st == ST_OK && clock_now_s() - begin > n->args.timeout_s) {
            st = log_fail(ST_TIMEOUT,
                          "%s: a collective of %d ranks timed out after %g s, find out which rank "
                          "did not start it or raise [comm] timeout_s",
                          n->args.lib->version, n->args.n_ranks, n->args.timeout_s);
        }
        if (st != ST_OK) {
            break;
        }
        (void)sched_yield();
    }
    if (st != ST_OK) {
        nccl_abort(n);
    }
    return st;
}
