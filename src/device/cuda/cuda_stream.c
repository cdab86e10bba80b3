#include "base/mem.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/cuda_set.h"

/* Greater priorities have lower numbers, and plain streams the least, which is 0. */
static cudaError_t priority_of(int urgency, int *out)
{
    int least = 0, greatest = 0;
    cudaError_t e = cudaDeviceGetStreamPriorityRange(&least, &greatest);

    *out = least + (greatest - least) * urgency / DEVICE_URGENCIES;
    return e;
}

enum status cuda_stream_create_urgent(void *set, int rank, int urgency, void **stream)
{
    const struct cuda_set *s = set;
    struct cuda_stream *out = mem_alloc(1, sizeof *out);
    int priority = 0;
    cudaError_t e;

    if (out == NULL) {
        return ST_NOMEM;
    }
    out->rank = &s->ranks[rank];
    e = cudaSetDevice(out->rank->device);
    e = e == cudaSuccess ? priority_of(urgency, &priority) : e;
    e = e == cudaSuccess
            ? cudaStreamCreateWithPriority(&out->handle, cudaStreamNonBlocking, priority)
            : e;
    if (e != cudaSuccess) {
        mem_free(out);
        return cuda_fail(e, "cudaStreamCreateWithPriority");
    }
    *stream = out;
    return ST_OK;
}

enum status cuda_stream_create(void *set, int rank, void **stream)
{
    return cuda_stream_create_urgent(set, rank, 0, stream);
}

void cuda_stream_destroy(void *set, void *stream)
{
    struct cuda_stream *s = stream;

    (void)set;
    if (s != NULL) {
        (void)cudaStreamDestroy(s->handle);
        mem_free(s);
    }
}

enum status cuda_stream_sync(void *set, void *stream)
{
    const struct cuda_stream *s = stream;

    (void)set;
    CUDA_TRY(cudaStreamSynchronize(s->handle));
    return ST_OK;
}

void *cuda_stream_native(void *set, void *stream)
{
    (void)set;
    return ((const struct cuda_stream *)stream)->handle;
}

static enum status create_event(void *set, int rank, unsigned flags, void **event)
{
    const struct cuda_set *s = set;
    struct cuda_event *out = mem_alloc(1, sizeof *out);
    cudaError_t e;

    if (out == NULL) {
        return ST_NOMEM;
    }
    out->rank = &s->ranks[rank];
    e = cudaSetDevice(out->rank->device);
    e = e == cudaSuccess ? cudaEventCreateWithFlags(&out->handle, flags) : e;
    if (e != cudaSuccess) {
        mem_free(out);
        return cuda_fail(e, "cudaEventCreateWithFlags");
    }
    *event = out;
    return ST_OK;
}

enum status cuda_stream_event_create(void *set, int rank, void **event)
{
    return create_event(set, rank, cudaEventDisableTiming, event);
}

enum status cuda_stream_timer_create(void *set, int rank, void **event)
{
    return create_event(set, rank, cudaEventDefault, event);
}

void cuda_stream_event_destroy(void *set, void *event)
{
    struct cuda_event *e = event;

    (void)set;
    if (e != NULL) {
        (void)cudaEventDestroy(e->handle);
        mem_free(e);
    }
}

enum status cuda_stream_record(void *set, void *stream, void *event)
{
    const struct cuda_stream *s = stream;
    const struct cuda_event *e = event;

    (void)set;
    CUDA_TRY(cudaEventRecord(e->handle, s->handle));
    return ST_OK;
}

enum status cuda_stream_wait(void *set, void *stream, void *event)
{
    const struct cuda_stream *s = stream;
    const struct cuda_event *e = event;

    (void)set;
    CUDA_TRY(cudaStreamWaitEvent(s->handle, e->handle, 0));
    return ST_OK;
}

enum status cuda_stream_done(void *set, void *event, bool *out)
{
    cudaError_t e = cudaEventQuery(((const struct cuda_event *)event)->handle);

    (void)set;
    if (e == cudaErrorNotReady) {
        (void)cudaGetLastError();
        *out = false;
        return ST_OK;
    }
    CUDA_TRY(e);
    *out = true;
    return ST_OK;
}

enum status cuda_stream_event_sync(void *set, void *event)
{
    (void)set;
    CUDA_TRY(cudaEventSynchronize(((const struct cuda_event *)event)->handle));
    return ST_OK;
}

enum status cuda_stream_elapsed(void *set, void *from, void *to, double *s)
{
    const struct cuda_event *a = from, *b = to;
    float ms = 0;

    (void)set;
    CUDA_TRY(cudaEventElapsedTime(&ms, a->handle, b->handle));
    *s = (double)ms * 1e-3;
    return ST_OK;
}

enum status cuda_stream_copy(void *set, void *stream, void *dst, const void *src, size_t bytes)
{
    const struct cuda_stream *s = stream;

    (void)set;
    if (bytes == 0) {
        return ST_OK;
    }
    CUDA_TRY(cudaSetDevice(s->rank->device));
    CUDA_TRY(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, s->handle));
    return ST_OK;
}

enum status cuda_stream_clear(void *set, void *stream, void *p, size_t bytes)
{
    const struct cuda_stream *s = stream;

    (void)set;
    if (bytes == 0) {
        return ST_OK;
    }
    CUDA_TRY(cudaSetDevice(s->rank->device));
    CUDA_TRY(cudaMemsetAsync(p, 0, bytes, s->handle));
    return ST_OK;
}

enum status cuda_stream_vote(void *set, void *stream, const struct device_vote *v)
{
    const struct cuda_stream *s = stream;

    (void)set;
    CUDA_TRY(cudaSetDevice(s->rank->device));
    CUDA_TRY(cuda_kernels_vote(s->handle, v));
    return ST_OK;
}

enum status cuda_stream_store(void *set, void *stream, const struct device_store *v)
{
    const struct cuda_stream *s = stream;

    (void)set;
    CUDA_TRY(cudaSetDevice(s->rank->device));
    CUDA_TRY(cuda_kernels_store(s->handle, v));
    return ST_OK;
}

enum status cuda_stream_convert(void *set, void *stream, const struct device_convert *c)
{
    const struct cuda_stream *s = stream;

    (void)set;
    CUDA_TRY(cudaSetDevice(s->rank->device));
    CUDA_TRY(cuda_kernels_convert(s->handle, s->rank->n_blocks, c));
    return ST_OK;
}

enum status cuda_stream_finite(void *set, void *stream, const struct device_finite *f)
{
    const struct cuda_stream *s = stream;

    (void)set;
    CUDA_TRY(cudaSetDevice(s->rank->device));
    CUDA_TRY(cuda_kernels_finite(s->handle, s->rank->n_blocks, f));
    return ST_OK;
}

enum status cuda_stream_fold(void *set, void *stream, const struct device_fold *f)
{
    const struct cuda_stream *s = stream;

    (void)set;
    CUDA_TRY(cudaSetDevice(s->rank->device));
    CUDA_TRY(cuda_kernels_fold(s->handle, s->rank->n_blocks, f));
    return ST_OK;
}

enum status cuda_stream_sgd(void *set, void *stream, const struct device_sgd *g)
{
    const struct cuda_stream *s = stream;

    (void)set;
    CUDA_TRY(cudaSetDevice(s->rank->device));
    CUDA_TRY(cuda_kernels_sgd(s->handle, s->rank->n_blocks, g));
    return ST_OK;
}

/* --- Graphs --- */

enum status cuda_stream_capture_begin(void *set, void *stream)
{
    const struct cuda_stream *s = stream;

    (void)set;
    /* Other threads of the process may go on calling what a capture does not allow. */
    CUDA_TRY(cudaStreamBeginCapture(s->handle, cudaStreamCaptureModeThreadLocal));
    return ST_OK;
}

enum status cuda_stream_capture_end(void *set, void *stream, void **graph)
{
    const struct cuda_stream *s = stream;
    cudaGraph_t captured = NULL;
    cudaGraphExec_t ready = NULL;
    cudaError_t e;

    (void)set;
    CUDA_TRY(cudaStreamEndCapture(s->handle, &captured));
    e = cudaGraphInstantiate(&ready, captured, 0);
    (void)cudaGraphDestroy(captured);
    CUDA_TRY(e);
    *graph = ready;
    return ST_OK;
}

enum status cuda_stream_graph_launch(void *set, void *graph, void *stream)
{
    const struct cuda_stream *s = stream;

    (void)set;
    CUDA_TRY(cudaGraphLaunch(graph, s->handle));
    return ST_OK;
}

void cuda_stream_graph_destroy(void *set, void *graph)
{
    (void)set;
    if (graph != NULL) {
        (void)cudaGraphExecDestroy(graph);
    }
}
