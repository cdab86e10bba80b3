#ifndef COMM_NCCL_NCCL_H
#define COMM_NCCL_NCCL_H

#include <stddef.h>

#include "base/status.h"
#include "comm/dtype.h"
#include "comm/plan.h"
#include "device/device.h"

/*
 * NVIDIA's library of collectives, for comparison: the one backend that is no forest. It is loaded
 * at run time, so that nothing needs it to start, and declared here as far as it is used, so that
 * nothing needs it to build.
 */
struct nccl_library;

/* Load the shared object of that name or path; NULL: libnccl.so.2 where the loader, CUDA_HOME or
 * /usr/local/cuda has it. Errors: ST_UNSUPPORTED, with what is missing: the library or a function;
 * ST_NOMEM. */
MUST_CHECK enum status nccl_load(const char *path, struct nccl_library **out);
void nccl_unload(struct nccl_library *lib); /* takes NULL; it stays loaded */

/* "NCCL 2.28.9" */
const char *nccl_version(const struct nccl_library *lib);

/* Say why it cannot be used with memory of the host: the library is missing, or it moves memory of
 * GPUs only. Returns ST_UNSUPPORTED. */
MUST_CHECK enum status nccl_refuse(void);

/* A communicator for each rank of this process. */
struct nccl;

struct nccl_args {
    const struct nccl_library *lib; /* must outlive the communicators */
    const struct device_ops *device;
    void *set;
    const int *devices; /* [n_ranks], of the set */
    int n_ranks;
    double timeout_s;
    const char *log_path; /* where the library writes what it chose; NULL: nowhere, unless
                             NCCL_DEBUG is set */
};

/* Errors: ST_INPUT (two ranks on one device, which the library would wait for forever);
 * ST_UNSUPPORTED with the library's own reason; ST_NOMEM. */
MUST_CHECK enum status nccl_create(const struct nccl_args *args, struct nccl **out);
void nccl_destroy(struct nccl *n); /* takes NULL */

struct nccl_call {
    enum collective collective;
    enum dtype dtype;
    enum redop redop;
    size_t n; /* elements of the whole message */
    int root;
    const void *const *in; /* [n_ranks] as in comm/program.h: an allgather's has n / n_ranks */
    void *const *out;      /* [n_ranks]; a reduce-scatter's has n / n_ranks */
    void *const *streams;  /* [n_ranks] */
};

/* Put a collective of all ranks on their streams. Errors: ST_UNSUPPORTED (a number of elements that
 * it cannot divide); ST_INTERNAL with the library's reason, everything is then aborted; ST_PEER
 * after an abort. */
MUST_CHECK enum status nccl_start(struct nccl *n, const struct nccl_call *call);

/* Until the events, one for each rank, are done. Errors: ST_TIMEOUT after timeout_s, ST_INTERNAL
 * with the library's reason; everything is then aborted, and `n` can only be destroyed. */
MUST_CHECK enum status nccl_wait(struct nccl *n, void *const *events);

/* Has an error shown since? Errors: ST_INTERNAL with the library's reason. */
MUST_CHECK enum status nccl_check(struct nccl *n);

/* End what is under way, whose kernels would wait for each other forever; `n` can only be destroyed
 * then. */
void nccl_abort(struct nccl *n);

#endif
