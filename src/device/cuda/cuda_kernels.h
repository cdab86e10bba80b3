#ifndef DEVICE_CUDA_CUDA_KERNELS_H
#define DEVICE_CUDA_CUDA_KERNELS_H

#include <cuda_runtime_api.h>

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Put the kernel on a stream of the current device. `n_blocks`: what the device runs at once. */
cudaError_t cuda_kernels_fold(cudaStream_t stream, size_t n_blocks, const struct device_fold *f);
cudaError_t cuda_kernels_vote(cudaStream_t stream, const struct device_vote *v);
cudaError_t cuda_kernels_store(cudaStream_t stream, const struct device_store *s);
cudaError_t cuda_kernels_convert(cudaStream_t stream, size_t n_blocks,
                                 const struct device_convert *c);
cudaError_t cuda_kernels_finite(cudaStream_t stream, size_t n_blocks,
                                const struct device_finite *f);
cudaError_t cuda_kernels_sgd(cudaStream_t stream, size_t n_blocks, const struct device_sgd *s);

#ifdef __cplusplus
}
#endif

#endif
