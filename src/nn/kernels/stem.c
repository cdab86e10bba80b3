#include "nn/kernels/stem.h"

static void add_piece(struct stem_axis *a, size_t group, size_t first, size_t second, float sign)
{
    a->piece[a->n++] =
        (struct stem_piece){.group = group, .first = first, .second = second, .sign = sign};
    a->n_group[group]++;
}

/* The last piece has these factors of the taps t, t + 2 and t + 4. */
static void set_taps(struct stem_axis *a, size_t t, float f0, float f1, float f2)
{
    const float f[3] = {f0, f1, f2};
    struct stem_piece *p = &a->piece[a->n - 1];

    for (size_t i = 0; i < 3; i++) {
        if (f[i] != 0.0f) {
            p->tap[t + STEM_STRIDE * i] = f[i];
        }
    }
}

/* A run of `taps` taps from `t` on. Outputs are m0 + m1 + m2 and m1 - m2 - m3, by groups. */
static void add_run(struct stem_axis *a, size_t t, size_t taps)
{
    size_t d1 = t + STEM_STRIDE, d2 = d1 + STEM_STRIDE, d3 = d2 + STEM_STRIDE;

    if (taps == 1) {
        add_piece(a, 0, t, t, 0.0f);
        set_taps(a, t, 1.0f, 0.0f, 0.0f);
        add_piece(a, 3, d1, d1, 0.0f);
        set_taps(a, t, -1.0f, 0.0f, 0.0f);
    } else if (taps == 2) {
        add_piece(a, 0, t, d1, -1.0f);
        set_taps(a, t, 1.0f, 0.0f, 0.0f);
        add_piece(a, 1, d1, d1, 0.0f);
        set_taps(a, t, 1.0f, 1.0f, 0.0f);
        add_piece(a, 3, d1, d2, -1.0f);
        set_taps(a, t, 0.0f, 1.0f, 0.0f);
    } else {
        add_piece(a, 0, t, d2, -1.0f);
        set_taps(a, t, 1.0f, 0.0f, 0.0f);
        add_piece(a, 1, d1, d2, 1.0f);
        set_taps(a, t, 0.5f, 0.5f, 0.5f);
        add_piece(a, 2, d2, d1, -1.0f);
        set_taps(a, t, 0.5f, -0.5f, 0.5f);
        add_piece(a, 3, d1, d3, -1.0f);
        set_taps(a, t, 0.0f, 0.0f, 1.0f);
    }
}

/* The even taps, then the odd ones: runs of 3, and of 2 where 4 are left. */
struct stem_axis stem_axis_of(size_t kernel)
{
    struct stem_axis a = {.kernel = kernel};

    for (size_t parity = 0; parity < STEM_STRIDE; parity++) {
        size_t left = (kernel + 1 - parity) / STEM_STRIDE, taps;
        for (size_t t = parity; left > 0; t += STEM_STRIDE * taps, left -= taps) {
            taps = left == 4 ? 2 : (left < 3 ? left : 3);
            add_run(&a, t, taps);
        }
    }
    return a;
}

void stem_number_rows(struct stem *s)
{
    s->first[0] = 0;
    for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
        size_t rows = s->v.n_group[p / 4] * s->h.n_group[p % 4] * s->channels;
        s->first[p + 1] = s->first[p] + (rows + STEM_ROW_STEP - 1) / STEM_ROW_STEP * STEM_ROW_STEP;
    }
}
