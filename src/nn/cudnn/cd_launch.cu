#include "nn/cudnn/cd_launch.h"

#include "nn/cudnn/cd_kernel.h"

enum {
    MAX_BLOCKS = 4096 /* more threads than any device runs at once */
};

#define X(name)                                                                                    \
    static __global__ void name##_kernel(const __grid_constant__ struct cd_args args, size_t n)    \
    {                                                                                              \
        struct kernel_place p = {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x};                  \
        for (size_t i = kernel_first(p); i < n; i += kernel_stride(p)) {                           \
            cd_##name(&args, i);                                                                   \
        }                                                                                          \
    }
CD_KERNELS(X)
#undef X

extern "C" cudaError_t cd_launch(cudaStream_t stream, enum cd_kernel kernel, size_t n,
                                 const struct cd_args *args)
{
    unsigned blocks = (unsigned)kernel_blocks(n, MAX_BLOCKS);

    if (n == 0) {
        return cudaSuccess; /* an empty grid is an error */
    }
    switch (kernel) {
#define X(name)                                                                                    \
    case CD_KERNEL_##name:                                                                         \
        name##_kernel<<<blocks, KERNEL_THREADS, 0, stream>>>(*args, n);                            \
        break;
        CD_KERNELS(X)
#undef X
    }
    return cudaGetLastError();
}
