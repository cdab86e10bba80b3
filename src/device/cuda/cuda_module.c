/* What the module shows; see device/module.h. */
#include <cudnn.h>

#include "device/cuda/cuda_set.h"
#include "device/module.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define BUILT_WITH                                                                                 \
    "CUDA " ESPALIER_CUDA_VERSION                                                                  \
    ", cuDNN " TEXT(CUDNN_MAJOR) "." TEXT(CUDNN_MINOR) "." TEXT(CUDNN_PATCHLEVEL)

extern MODULE_SHOW const struct module_info espalier_module;
extern MODULE_SHOW const struct device_ops espalier_cuda_device;

static const char *version(void)
{
    return BUILT_WITH;
}

const struct module_info espalier_module = {.abi = MODULE_ABI, .built_with = BUILT_WITH};

const struct device_ops espalier_cuda_device = {
    .type = "cuda",
    .align = 256,
    .version = version,
    .count = cuda_set_count,
    .open = cuda_set_open,
    .close = cuda_set_close,
    .use = cuda_set_use,
    .reaches = cuda_set_reaches,
    .alloc = cuda_set_alloc,
    .release = cuda_set_release,
    .alloc_host = cuda_set_alloc_host,
    .release_host = cuda_set_release_host,
    .stream_create = cuda_stream_create,
    .urgent_stream_create = cuda_stream_create_urgent,
    .stream_destroy = cuda_stream_destroy,
    .stream_sync = cuda_stream_sync,
    .stream_native = cuda_stream_native,
    .event_create = cuda_stream_event_create,
    .timer_create = cuda_stream_timer_create,
    .event_destroy = cuda_stream_event_destroy,
    .record = cuda_stream_record,
    .wait = cuda_stream_wait,
    .done = cuda_stream_done,
    .event_sync = cuda_stream_event_sync,
    .elapsed = cuda_stream_elapsed,
    .copy = cuda_stream_copy,
    .clear = cuda_stream_clear,
    .store = cuda_stream_store,
    .convert = cuda_stream_convert,
    .finite = cuda_stream_finite,
    .vote = cuda_stream_vote,
    .fold = cuda_stream_fold,
    .sgd = cuda_stream_sgd,
    .capture_begin = cuda_stream_capture_begin,
    .capture_end = cuda_stream_capture_end,
    .graph_launch = cuda_stream_graph_launch,
    .graph_destroy = cuda_stream_graph_destroy,
};
