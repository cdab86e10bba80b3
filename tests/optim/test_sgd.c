#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "optim/optim.h"

enum {
    N = 1003
};

struct arena {
    float w[N], v[N], g[N];
};

static void fill(struct arena *a)
{
    struct rng r = rng_make(11, RNG_TEST, 0);

    for (size_t i = 0; i < N; i++) {
        a->w[i] = rng_normal(&r, 3 * i);
        a->v[i] = rng_normal(&r, 3 * i + 1);
        a->g[i] = rng_normal(&r, 3 * i + 2);
    }
}

/* The formulas of the header, one element at a time in double. */
static void reference(const struct sgd_step *s, bool decay, double *w, double *v, double g)
{
    g *= s->unscale != 0 ? (double)s->unscale : 1;
    g += decay ? (double)s->weight_decay * *w : 0;
    if (s->momentum != 0) {
        *v = (double)s->momentum * *v + g;
        g = s->nesterov ? g + (double)s->momentum * *v : *v;
    }
    *w -= (double)s->lr * g;
}

static const struct sgd_step steps[] = {
    {0.1f, 0, 0, false, 0},        {0.1f, 0, 1e-2f, false, 1},   {0.05f, 0.9f, 0, false, 1},
    {0.05f, 0.9f, 1e-2f, true, 0}, {1.5f, 0.5f, 0.25f, true, 1}, {0.1f, 0.9f, 5e-4f, false, 0.125f},
};
enum {
    N_STEPS = sizeof steps / sizeof steps[0]
};

Test(sgd, follows_the_formulas)
{
    static struct arena a, start;

    for (size_t k = 0; k < 2 * N_STEPS; k++) {
        const struct sgd_step *s = &steps[k / 2];
        bool decay = k % 2 == 0;

        fill(&a);
        start = a;
        sgd_update(s, decay, a.w, s->momentum == 0 ? NULL : a.v, a.g, N);
        for (size_t i = 0; i < N; i++) {
            double w = start.w[i], v = start.v[i];
            reference(s, decay, &w, &v, start.g[i]);
            cr_assert_float_eq(a.w[i], w, 2e-6 * (1 + fabs(w)), "case %zu, element %zu", k, i);
            cr_assert_float_eq(a.v[i], v, 2e-6 * (1 + fabs(v)), "case %zu, element %zu", k, i);
            cr_assert_eq(a.g[i], start.g[i], "gradients are only read");
        }
    }
}

Test(sgd, every_cut_and_alignment_gives_the_same_bits)
{
    static struct arena whole, cut;
    static float shifted[3][N + 16];

    for (size_t k = 0; k < N_STEPS; k++) {
        fill(&whole);
        sgd_update(&steps[k], true, whole.w, whole.v, whole.g, N);
        for (size_t piece = 1; piece <= 67; piece += 3) {
            fill(&cut);
            for (size_t at = 0; at < N; at += piece) {
                size_t n = at + piece < N ? piece : N - at;
                sgd_update(&steps[k], true, cut.w + at, cut.v + at, cut.g + at, n);
            }
            cr_assert_eq(memcmp(whole.w, cut.w, sizeof whole.w), 0, "case %zu, cut %zu", k, piece);
            cr_assert_eq(memcmp(whole.v, cut.v, sizeof whole.v), 0, "case %zu, cut %zu", k, piece);
        }
        for (size_t shift = 1; shift < 16; shift++) {
            fill(&cut);
            memcpy(shifted[0] + shift, cut.w, sizeof cut.w);
            memcpy(shifted[1] + shift, cut.v, sizeof cut.v);
            memcpy(shifted[2] + shift, cut.g, sizeof cut.g);
            sgd_update(&steps[k], true, shifted[0] + shift, shifted[1] + shift, shifted[2] + shift,
                       N);
            cr_assert_eq(memcmp(whole.w, shifted[0] + shift, sizeof whole.w), 0, "shift %zu",
                         shift);
        }
    }
}

Test(sgd, ranges_decay_each_in_its_way_and_windows_add_up)
{
    static const struct sgd_range ranges[] = {
        {0, 100, true}, {112, 1, false}, {128, 500, false}, {640, 300, true}};
    static struct arena direct, windows;
    const struct sgd_step *s = &steps[3];

    fill(&direct);
    for (size_t i = 0; i < 4; i++) {
        size_t at = ranges[i].offset;
        sgd_update(s, ranges[i].decay, direct.w + at, direct.v + at, direct.g + at, ranges[i].n);
    }
    for (size_t step = 1; step < N; step += 37) {
        fill(&windows);
        for (size_t at = 0; at < N; at += step) {
            size_t n = at + step < N ? step : N - at;
            sgd_update_ranges(s, ranges, 4, at, n, windows.w, windows.v, windows.g);
        }
        cr_assert_eq(memcmp(&direct, &windows, sizeof direct), 0, "windows of %zu", step);
    }
    fill(&windows);
    sgd_update_ranges(s, ranges, 4, 0, 0, windows.w, windows.v, windows.g);
    fill(&direct);
    cr_assert_eq(memcmp(&direct, &windows, sizeof direct), 0, "an empty window changes nothing");
}

/* A sum that is still to be added up: the bits of adding first, for every number of parts. */
Test(sgd, parts_give_the_bits_of_their_sum)
{
    static const struct sgd_range ranges[] = {{0, 300, true}, {304, 77, false}, {400, 603, true}};
    static float part[7][N];
    static struct arena want, got;
    const float *window[7];

    for (size_t k = 0; k < N_STEPS * 7; k++) {
        const int n_parts = (int)(k % 7) + 1;
        const struct sgd_step *s = &steps[k / 7];

        fill(&want);
        fill(&got);
        for (size_t i = 0; i < N; i++) {
            for (size_t p = 0; p < 7; p++) {
                part[p][i] = got.g[(i * 13 + p * 101) % N] * (float)(p + 1);
            }
            want.g[i] = part[0][i];
            for (int p = 1; p < n_parts; p++) {
                want.g[i] += part[p][i];
            }
        }
        sgd_update_ranges(s, ranges, 3, 0, N, want.w, want.v, want.g);
        for (size_t at = 0; at < N; at += 149) {
            size_t n = at + 149 < N ? 149 : N - at;
            for (int p = 0; p < n_parts; p++) {
                window[p] = part[p] + at;
            }
            sgd_update_sum(s, ranges, 3, &(struct sgd_sum){at, n, window, n_parts}, got.w, got.v);
        }
        cr_assert_eq(memcmp(want.w, got.w, sizeof want.w), 0, "case %zu", k);
        cr_assert_eq(memcmp(want.v, got.v, sizeof want.v), 0, "case %zu", k);
    }
}
