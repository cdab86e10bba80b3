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

#define INLINE static inline __attribute__((always_inline))

enum {
    STRIP = 64 /* elements added up at a time; they stay in the nearest cache */
};

/* What an update reads besides weights and velocities: element i from `first` on. */
struct addends {
    const float *const *parts;
    int n;
    size_t first;
};

INLINE void update_one(const struct sgd_step *s, float decay, bool momentum, bool nesterov,
                       float *restrict w, float *restrict v, float g)
{
    const float unscale = s->unscale != 0 ? s->unscale : 1;
    float d = unscale * g + decay * *w;

    if (momentum) {
        float velocity = s->momentum * *v + d;
        *v = velocity;
        d = nesterov ? d + s->momentum * velocity : velocity;
    }
    *w -= s->lr * d;
}

INLINE void update_1(const struct sgd_step *s, float decay, bool momentum, bool nesterov,
                     float *restrict w, float *restrict v, const float *restrict g, size_t n)
{
    const struct sgd_step local = *s;

    for (size_t i = 0; i < n; i++) {
        update_one(&local, decay, momentum, nesterov, w + i, momentum ? v + i : NULL, g[i]);
    }
}

INLINE void update_2(const struct sgd_step *s, float decay, bool momentum, bool nesterov,
                     float *restrict w, float *restrict v, const float *restrict g,
                     const float *restrict h, size_t n)
{
    const struct sgd_step local = *s;

    for (size_t i = 0; i < n; i++) {
        update_one(&local, decay, momentum, nesterov, w + i, momentum ? v + i : NULL, g[i] + h[i]);
    }
}

INLINE void update_more(const struct sgd_step *s, float decay, bool momentum, bool nesterov,
                        float *restrict w, float *restrict v, const struct addends *g, size_t n)
{
    float sum[STRIP];

    for (size_t i = 0; i < n; i += STRIP) {
        const size_t m = n - i < STRIP ? n - i : STRIP;
        for (size_t e = 0; e < m; e++) {
            sum[e] = g->parts[0][g->first + i + e];
        }
        for (int k = 1; k < g->n; k++) {
            const float *part = g->parts[k] + g->first + i;
            for (size_t e = 0; e < m; e++) {
                sum[e] += part[e];
            }
        }
        update_1(s, decay, momentum, nesterov, w + i, momentum ? v + i : NULL, sum, m);
    }
}

INLINE void update(const struct sgd_step *s, float decay, bool momentum, bool nesterov, float *w,
                   float *v, const struct addends *g, size_t n)
{
    const float *first = g->parts[0] + g->first;

    if (g->n == 1) {
        update_1(s, decay, momentum, nesterov, w, v, first, n);
    } else if (g->n == 2) {
        update_2(s, decay, momentum, nesterov, w, v, first, g->parts[1] + g->first, n);
    } else {
        update_more(s, decay, momentum, nesterov, w, v, g, n);
    }
}

INLINE void update_any(const struct sgd_step *s, float decay, float *w, float *v,
                       const struct addends *g, size_t n)
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
__attribute__((target("avx512f"))) static void update_avx512(const struct sgd_step *s, float decay,
                                                             float *w, float *v,
                                                             const struct addends *g, size_t n)
{
    update_any(s, decay, w, v, g, n);
}

__attribute__((target("avx2"))) static void update_avx2(const struct sgd_step *s, float decay,
                                                        float *w, float *v, const struct addends *g,
                                                        size_t n)
{
    update_any(s, decay, w, v, g, n);
}
#endif

static void update_best(const struct sgd_step *s, bool decay, float *w, float *v,
                        const struct addends *g, size_t n)
{
    const float rate = decay ? s->weight_decay : 0;

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

void sgd_update(const struct sgd_step *s, bool decay, float *w, float *v, const float *g, size_t n)
{
    update_best(s, decay, w, v, &(struct addends){&g, 1, 0}, n);
}

/* The first range that ends after `offset`. */
static size_t first_range(const struct sgd_range *ranges, size_t n_ranges, size_t offset)
{
    size_t low = 0, high = n_ranges;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (ranges[mid].offset + ranges[mid].n > offset) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return low;
}

void sgd_update_sum(const struct sgd_step *s, const struct sgd_range *ranges, size_t n_ranges,
                    const struct sgd_sum *sum, float *w, float *v)
{
    const size_t offset = sum->offset, end = offset + sum->n;

    for (size_t i = first_range(ranges, n_ranges, offset); i < n_ranges && ranges[i].offset < end;
         i++) {
        size_t from = ranges[i].offset > offset ? ranges[i].offset : offset;
        size_t to = ranges[i].offset + ranges[i].n < end ? ranges[i].offset + ranges[i].n : end;
        if (from < to) {
            update_best(s, ranges[i].decay, w + from, v == NULL ? NULL : v + from,
                        &(struct addends){sum->parts, sum->n_parts, from - offset}, to - from);
        }
    }
}

void sgd_update_ranges(const struct sgd_step *s, const struct sgd_range *ranges, size_t n_ranges,
                       size_t offset, size_t n, float *w, float *v, const float *g)
{
    g += offset;
    sgd_update_sum(s, ranges, n_ranges, &(struct sgd_sum){offset, n, &g, 1}, w, v);
}
