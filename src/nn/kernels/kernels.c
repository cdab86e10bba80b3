#include "nn/kernels/kernels.h"
#include "nn/kernels/stem.h"
#include "nn/kernels/winograd.h"

extern const struct kernels kernels_generic;

#ifdef __x86_64__
#include <cpuid.h>

extern const struct kernels kernels_avx2, kernels_avx512, kernels_bf16;
extern const struct winograd_kernels winograd_bf16;
extern const struct stem_kernels stem_bf16;

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

const struct kernels *kernels_at(size_t i)
{
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const struct kernels *all[] = {&kernels_generic, avx2 ? &kernels_avx2 : NULL,
                                   avx2 && has_avx512() ? &kernels_avx512 : NULL};

    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

static const struct kernels *bf16_kernels(void)
{
    return has_avx512() && has_avx512_bf16() ? &kernels_bf16 : NULL;
}

const struct winograd_kernels *winograd_find(void)
{
    return bf16_kernels() != NULL ? &winograd_bf16 : NULL;
}

const struct stem_kernels *stem_find(void)
{
    return bf16_kernels() != NULL ? &stem_bf16 : NULL;
}
#else
const struct kernels *kernels_at(size_t i)
{
    return i == 0 ? &kernels_generic : NULL;
}

static const struct kernels *bf16_kernels(void)
{
    return NULL;
}

const struct winograd_kernels *winograd_find(void)
{
    return NULL;
}

const struct stem_kernels *stem_find(void)
{
    return NULL;
}
#endif

const struct kernels *kernels_find(bool bf16)
{
    size_t n = 0;

    while (kernels_at(n) != NULL) {
        n++;
    }
    return bf16 ? bf16_kernels() : kernels_at(n - 1);
}
