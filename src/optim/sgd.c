/*
 * The update is bound by memory, so the plain loops below are only compiled for the widest vectors
 * that the processor has. No multiply-add is contracted (see CMakeLists.txt), and every element
 * goes through the same operations wherever it stands: vector body and tail, any cut of the arena
 * and any instruction set give the same bits.
 */
#include "optim/optim.h"

#if defined(__x86_64__)
#define WITH_X86_CLONES 1
#endif

static inline __attribute__((always_inline)) void update(const struct sgd_step *s, float decay,
                                                         bool momentum, bool nesterov,
                                                         float *restrict w, float *restrict v,
                                                         const float *restrict g, size_t n)
{
    const float lr = s->lr, m = s->momentum;

    for (size_t i = 0; i < n; i++) {
        float d = g[i] + decay * w[i];
        if (momentum) {
            float velocity = m * v[i] + d;
            v[i] = velocity;
            d = nesterov ? d + m * velocity : velocity;
        }
        w[i] -= lr * d;
    }
}

static inline __attribute__((always_inline)) void
update_any(const struct sgd_step *s, float decay, float *w, float *v, const float *g, size_t n)
{
    if (s->momentum == 0) {
        update(s, decay, false, false, w, v, g, n);
    } else if (s->nesterov) {
        update(s, decay, true, true, w, v, g, n);
    } else {
        update(s, decay, true, false, w, v, g, n);
    }
}

#ifdef WITH_X86_CLONES
__attribute__((target("avx512f"))) static void
update_avx512(const struct sgd_step *s, float decay, float *w, float *v, const float *g, size_t n)
{
    update_any(s, decay, w, v, g, n);
}

__attribute__((target("avx2"))) static void
update_avx2(const struct sgd_step *s, float decay, float *w, float *v, const float *g, size_t n)
{
    update_any(s, decay, w, v, g, n);
}
#endif

void sgd_update(const struct sgd_step *s, bool decay, float *w, float *v, const float *g, size_t n)
{
    float rate = decay ? s->weight_decay : 0;

#ifdef WITH_X86_CLONES
    if (__builtin_cpu_supports("avx512f")) {
        update_avx512(s, rate, w, v, g, n);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        update_avx2(s, rate, w, v, g, n);
        return;
    }
#endif
    update_any(s, rate, w, v, g, n);
}

void sgd_update_ranges(const struct sgd_step *s, const struct sgd_range *ranges, size_t n_ranges,
                       size_t offset, size_t n, float *w, float *v, const float *g)
{
    const size_t end = offset + n;

    for (size_t i = 0; i < n_ranges && ranges[i].offset < end; i++) {
        size_t from = ranges[i].offset > offset ? ranges[i].offset : offset;
        size_t to = ranges[i].offset + ranges[i].n < end ? ranges[i].offset + ranges[i].n : end;
        if (from < to) {
            sgd_update(s, ranges[i].decay, w + from, v == NULL ? NULL : v + from, g + from,
                       to - from);
        }
    }
}
