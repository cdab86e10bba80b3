#ifndef COMM_NCCL_NCCL_LIBRARY_H
#define COMM_NCCL_NCCL_LIBRARY_H

#include <stddef.h>

/* What is used of the library's interface, which has been the same since 2.13; test_nccl.c compares
 * it with the library's header where that is installed. */
typedef void *nccl_comm;
typedef int nccl_result; /* 0: success */
typedef int nccl_dtype;
typedef int nccl_redop;
typedef void *nccl_stream;

enum {
    NCCL_RESULT_OK = 0,
    NCCL_RESULT_IN_PROGRESS = 7,
    NCCL_DTYPE_INT32 = 2,
    NCCL_DTYPE_FLOAT16 = 6,
    NCCL_DTYPE_FLOAT32 = 7,
    NCCL_DTYPE_BFLOAT16 = 9,
    NCCL_REDOP_SUM = 0,
    NCCL_REDOP_MAX = 2,
    NCCL_REDOP_MIN = 3,
    NCCL_REDOP_AVG = 4,
};

#define NCCL_FUNCTIONS(X)                                                                          \
    X(nccl_result, GetVersion, (int *version))                                                     \
    X(const char *, GetErrorString, (nccl_result result))                                          \
    X(const char *, GetLastError, (nccl_comm comm))                                                \
    X(nccl_result, CommInitAll, (nccl_comm * comms, int n, const int *devices))                    \
    X(nccl_result, CommDestroy, (nccl_comm comm))                                                  \
    X(nccl_result, CommAbort, (nccl_comm comm))                                                    \
    X(nccl_result, CommGetAsyncError, (nccl_comm comm, nccl_result * result))                      \
    X(nccl_result, GroupStart, (void))                                                             \
    X(nccl_result, GroupEnd, (void))                                                               \
    X(nccl_result, AllReduce,                                                                      \
      (const void *in, void *out, size_t n, nccl_dtype d, nccl_redop r, nccl_comm c,               \
       nccl_stream s))                                                                             \
    X(nccl_result, Reduce,                                                                         \
      (const void *in, void *out, size_t n, nccl_dtype d, nccl_redop r, int root, nccl_comm c,     \
       nccl_stream s))                                                                             \
    X(nccl_result, Broadcast,                                                                      \
      (const void *in, void *out, size_t n, nccl_dtype d, int root, nccl_comm c, nccl_stream s))   \
    X(nccl_result, ReduceScatter,                                                                  \
      (const void *in, void *out, size_t n_out, nccl_dtype d, nccl_redop r, nccl_comm c,           \
       nccl_stream s))                                                                             \
    X(nccl_result, AllGather,                                                                      \
      (const void *in, void *out, size_t n_in, nccl_dtype d, nccl_comm c, nccl_stream s))

/* clang-format off */
struct nccl_library {
#define X(type, name, args) type(*name) args;
    NCCL_FUNCTIONS(X)
#undef X
    char version[32];
};
/* clang-format on */

#endif
