#ifndef NN_CUDNN_CD_LAUNCH_H
#define NN_CUDNN_CD_LAUNCH_H

#include <cuda_runtime_api.h>

#include "nn/cudnn/cd_args.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Put a kernel over `n` items on a stream of the current device; n may be 0. */
cudaError_t cd_launch(cudaStream_t stream, enum cd_kernel kernel, size_t n,
                      const struct cd_args *args);

#ifdef __cplusplus
}
#endif

#endif
