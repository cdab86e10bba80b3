#ifndef DEVICE_KERNELS_KERNEL_H
#define DEVICE_KERNELS_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/*
 * Kernels are written once, as functions that do one thread's part, in what C and CUDA C share. The
 * GPU calls them from its kernels; the CPU device, and the tests, call them in loops over all
 * threads of all blocks. So no thread may wait for another one.
 */
#ifdef __CUDACC__
#define KERNEL static __device__ __forceinline__
#define KERNEL_HOST static __host__ __device__ __forceinline__
#define HALVES_FN KERNEL
#define PHILOX_FN KERNEL
#define KERNEL_ALIGNED(bytes) __align__(bytes)
#else
#define KERNEL static inline
#define KERNEL_HOST static inline
#define KERNEL_ALIGNED(bytes) __attribute__((aligned(bytes)))
#endif

#include "base/halves.h"
#include "base/philox.h"

enum {
    KERNEL_THREADS = 256, /* of a block */
    KERNEL_VEC = 16       /* bytes of the widest access */
};

/* Which thread of a launch this is. All counts are size_t: products of them do not fit in int. */
struct kernel_place {
    size_t block, n_blocks, thread, n_threads;
};

struct KERNEL_ALIGNED(16) kernel_vec {
    uint32_t w[4];
};

/* The items of a thread are first, first + stride, ... */
KERNEL_HOST size_t kernel_first(struct kernel_place p)
{
    return p.block * p.n_threads + p.thread;
}

KERNEL_HOST size_t kernel_stride(struct kernel_place p)
{
    return p.n_blocks * p.n_threads;
}

/* Blocks for `n` items, one for each thread until there are `most` blocks; at least 1. */
KERNEL_HOST size_t kernel_blocks(size_t n, size_t most)
{
    size_t blocks = n / KERNEL_THREADS + (n % KERNEL_THREADS != 0);

    return blocks < 1 ? 1 : blocks > most ? most : blocks;
}

/* An array cut in elements before the first 16-byte boundary, whole vectors, and the rest. */
struct kernel_cut {
    size_t head, n_vec, n_single; /* n_single: head and rest together */
};

/* `misaligned`: the array's address modulo 16. */
KERNEL_HOST struct kernel_cut kernel_cut_make(size_t n, size_t misaligned, size_t elem_bytes)
{
    struct kernel_cut c;
    size_t per_vec = KERNEL_VEC / elem_bytes;

    c.head = (KERNEL_VEC - misaligned) % KERNEL_VEC / elem_bytes;
    c.head = c.head < n ? c.head : n;
    c.n_vec = (n - c.head) / per_vec;
    c.n_single = n - c.n_vec * per_vec;
    return c;
}

/* Element of vector number `i`, and of single element number `i`. */
KERNEL_HOST size_t kernel_cut_vec(const struct kernel_cut *c, size_t i, size_t elem_bytes)
{
    return c->head + i * (KERNEL_VEC / elem_bytes);
}

KERNEL_HOST size_t kernel_cut_single(const struct kernel_cut *c, size_t i, size_t elem_bytes)
{
    return i < c->head ? i : i + c->n_vec * (KERNEL_VEC / elem_bytes);
}

#endif
