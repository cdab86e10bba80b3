#include "nn/kernels/kernels.h"

extern const struct kernels kernels_generic;

#ifdef __x86_64__
#include <cpuid.h>

extern const struct kernels kernels_avx2, kernels_avx512, kernels_bf16;

/* CPUID leaf 7, subleaf 1, EAX bit 5. The compilers' own queries do not all know this name. */
static bool has_avx512_bf16(void)
{
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5)) != 0;
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

const struct kernels *kernels_find(bool bf16)
{
    if (bf16) {
        return has_avx512() && has_avx512_bf16() ? &kernels_bf16 : NULL;
    }
    if (has_avx512()) {
        return &kernels_avx512;
    }
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernels_avx2
                                                                           : &kernels_generic;
}
#else
const struct kernels *kernels_find(bool bf16)
{
    return bf16 ? NULL : &kernels_generic;
}
#endif
