#include "nn/onednn/od.h"

extern void omp_set_num_threads(int n);

void od_set_threads(int n)
{
    omp_set_num_threads(n);
}

void od_parallel(const struct od *lib, size_t n, void (*fn)(void *ctx, size_t i), void *ctx)
{
    if (lib->n_threads <= 1 || n <= 1) {
        for (size_t i = 0; i < n; i++) {
            fn(ctx, i);
        }
        return;
    }
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(lib->n_threads)
#endif
    for (size_t i = 0; i < n; i++) {
        fn(ctx, i);
    }
}
