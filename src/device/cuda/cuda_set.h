#ifndef DEVICE_CUDA_CUDA_SET_H
#define DEVICE_CUDA_CUDA_SET_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "device/device.h"

/* What is called here is the same in 12 and 13: what they changed (cudaDeviceProp, prefetching,
 * edges of graphs) is not used. */
#if CUDART_VERSION < 12000
#error "CUDA 12 or newer is needed"
#endif

/* What a rank has of its device. */
struct cuda_rank {
    int device;
    size_t n_blocks;    /* of a kernel that is bound by memory: enough to fill the device */
    cudaMemPool_t pool; /* of the device; NULL: it has none */
    cudaStream_t setup; /* memory is allocated, cleared and freed here */
};

struct cuda_set {
    int n_ranks;
    struct cuda_rank *ranks;
    bool *reaches; /* [n_ranks, n_ranks] */
};

struct cuda_stream {
    cudaStream_t handle;
    const struct cuda_rank *rank;
};

struct cuda_event {
    cudaEvent_t handle;
    const struct cuda_rank *rank;
};

/* Log that `call` failed with `e`; ST_NOMEM when memory is out, else ST_INTERNAL. */
MUST_CHECK enum status cuda_fail(cudaError_t e, const char *call);

/* Pass the failure of a call of the CUDA run time up. */
#define CUDA_TRY(call)                                                                             \
    do {                                                                                           \
        cudaError_t cuda_e_ = (call);                                                              \
        if (cuda_e_ != cudaSuccess) {                                                              \
            return cuda_fail(cuda_e_, #call);                                                      \
        }                                                                                          \
    } while (0)

/* --- cuda_set.c: slots of struct device_ops */
MUST_CHECK enum status cuda_set_count(int *n);
MUST_CHECK enum status cuda_set_open(const int *devices, int n_ranks, void **set);
void cuda_set_close(void *set);
MUST_CHECK enum status cuda_set_use(void *set, int rank);
bool cuda_set_reaches(void *set, int rank, int peer);
MUST_CHECK enum status cuda_set_alloc(void *set, int rank, size_t bytes, void **p);
void cuda_set_release(void *set, int rank, void *p);
MUST_CHECK enum status cuda_set_alloc_host(void *set, size_t bytes, void **p);
void cuda_set_release_host(void *set, void *p);

/* --- cuda_peer.c: fill set->reaches by trying every pair. */
MUST_CHECK enum status cuda_peer_try_all(struct cuda_set *set);

/* --- cuda_stream.c: slots of struct device_ops */
MUST_CHECK enum status cuda_stream_create(void *set, int rank, void **stream);
MUST_CHECK enum status cuda_stream_create_urgent(void *set, int rank, int urgency, void **stream);
void cuda_stream_destroy(void *set, void *stream);
MUST_CHECK enum status cuda_stream_sync(void *set, void *stream);
void *cuda_stream_native(void *set, void *stream);
MUST_CHECK enum status cuda_stream_event_create(void *set, int rank, void **event);
MUST_CHECK enum status cuda_stream_timer_create(void *set, int rank, void **event);
void cuda_stream_event_destroy(void *set, void *event);
MUST_CHECK enum status cuda_stream_record(void *set, void *stream, void *event);
MUST_CHECK enum status cuda_stream_wait(void *set, void *stream, void *event);
MUST_CHECK enum status cuda_stream_done(void *set, void *event, bool *out);
MUST_CHECK enum status cuda_stream_elapsed(void *set, void *from, void *to, double *s);
MUST_CHECK enum status cuda_stream_copy(void *set, void *stream, void *dst, const void *src,
                                        size_t bytes);
MUST_CHECK enum status cuda_stream_event_sync(void *set, void *event);
MUST_CHECK enum status cuda_stream_clear(void *set, void *stream, void *p, size_t bytes);
MUST_CHECK enum status cuda_stream_vote(void *set, void *stream, const struct device_vote *v);
MUST_CHECK enum status cuda_stream_store(void *set, void *stream, const struct device_store *s);
MUST_CHECK enum status cuda_stream_convert(void *set, void *stream, const struct device_convert *c);
MUST_CHECK enum status cuda_stream_finite(void *set, void *stream, const struct device_finite *f);
MUST_CHECK enum status cuda_stream_fold(void *set, void *stream, const struct device_fold *f);
MUST_CHECK enum status cuda_stream_sgd(void *set, void *stream, const struct device_sgd *s);
MUST_CHECK enum status cuda_stream_capture_begin(void *set, void *stream);
MUST_CHECK enum status cuda_stream_capture_end(void *set, void *stream, void **graph);
MUST_CHECK enum status cuda_stream_graph_launch(void *set, void *graph, void *stream);
void cuda_stream_graph_destroy(void *set, void *graph);

#endif
