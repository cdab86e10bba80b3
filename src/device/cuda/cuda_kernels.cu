#include "device/cuda/cuda_kernels.h"

#include "device/kernels/kernel_convert.h"
#include "device/kernels/kernel_finite.h"
#include "device/kernels/kernel_fold.h"
#include "device/kernels/kernel_sgd.h"
#include "device/kernels/kernel_store.h"
#include "device/kernels/kernel_vote.h"

static __device__ __forceinline__ struct kernel_place here(void)
{
    return {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x};
}

/* Sums are what training waits for; the other operations are chosen at run time. */
template <enum device_dtype D>
static __global__ void sum_kernel(const __grid_constant__ struct device_fold f)
{
    kernel_fold(here(), &f, D, DEVICE_SUM);
}

template <enum device_dtype D>
static __global__ void fold_kernel(const __grid_constant__ struct device_fold f)
{
    kernel_fold(here(), &f, D, f.redop);
}

static __global__ void store_kernel(const __grid_constant__ struct device_store s)
{
    kernel_store(here(), &s);
}

static __global__ void convert_kernel(const __grid_constant__ struct device_convert c)
{
    kernel_convert(here(), &c);
}

static __global__ void finite_kernel(const __grid_constant__ struct device_finite f)
{
    kernel_finite(here(), &f);
}

static __global__ void vote_kernel(const __grid_constant__ struct device_vote v)
{
    kernel_vote(here(), &v);
}

static __global__ void sgd_kernel(const __grid_constant__ struct device_sgd s)
{
    kernel_sgd(here(), &s);
}

template <enum device_dtype D>
static void fold_launch(cudaStream_t stream, unsigned blocks, const struct device_fold *f)
{
    if (f->redop == DEVICE_SUM || f->redop == DEVICE_MEAN) {
        sum_kernel<D><<<blocks, KERNEL_THREADS, 0, stream>>>(*f);
    } else {
        fold_kernel<D><<<blocks, KERNEL_THREADS, 0, stream>>>(*f);
    }
}

extern "C" cudaError_t cuda_kernels_fold(cudaStream_t stream, size_t n_blocks,
                                         const struct device_fold *f)
{
    struct kernel_cut cut = kernel_fold_cut(f, f->dtype);
    size_t items = cut.n_vec > cut.n_single ? cut.n_vec : cut.n_single;
    unsigned blocks = (unsigned)kernel_blocks(items, n_blocks);

    if (f->n == 0) {
        return cudaSuccess;
    }
    switch (f->dtype) {
    case DEVICE_F32:
        fold_launch<DEVICE_F32>(stream, blocks, f);
        break;
    case DEVICE_BF16:
        fold_launch<DEVICE_BF16>(stream, blocks, f);
        break;
    case DEVICE_F16:
        fold_launch<DEVICE_F16>(stream, blocks, f);
        break;
    case DEVICE_I32:
        fold_launch<DEVICE_I32>(stream, blocks, f);
        break;
    }
    return cudaGetLastError();
}

extern "C" cudaError_t cuda_kernels_store(cudaStream_t stream, const struct device_store *s)
{
    store_kernel<<<1, DEVICE_STORE_BYTES, 0, stream>>>(*s);
    return cudaGetLastError();
}

extern "C" cudaError_t cuda_kernels_convert(cudaStream_t stream, size_t n_blocks,
                                            const struct device_convert *c)
{
    if (c->n == 0) {
        return cudaSuccess;
    }
    convert_kernel<<<(unsigned)kernel_blocks(c->n, n_blocks), KERNEL_THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}

extern "C" cudaError_t cuda_kernels_finite(cudaStream_t stream, size_t n_blocks,
                                           const struct device_finite *f)
{
    struct kernel_cut cut = kernel_finite_cut(f);
    size_t items = cut.n_vec > cut.n_single ? cut.n_vec : cut.n_single;

    if (f->n == 0) {
        return cudaSuccess;
    }
    finite_kernel<<<(unsigned)kernel_blocks(items, n_blocks), KERNEL_THREADS, 0, stream>>>(*f);
    return cudaGetLastError();
}

extern "C" cudaError_t cuda_kernels_vote(cudaStream_t stream, const struct device_vote *v)
{
    vote_kernel<<<1, 1, 0, stream>>>(*v);
    return cudaGetLastError();
}

extern "C" cudaError_t cuda_kernels_sgd(cudaStream_t stream, size_t n_blocks,
                                        const struct device_sgd *s)
{
    if (s->n_tiles == 0) {
        return cudaSuccess; /* an empty grid is an error */
    }
    sgd_kernel<<<(unsigned)(s->n_tiles < n_blocks ? s->n_tiles : n_blocks), KERNEL_THREADS, 0,
                 stream>>>(*s);
    return cudaGetLastError();
}
