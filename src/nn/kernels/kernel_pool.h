/*
 * Poolings of one plane; included by kernel_body.h. `from` and `to` are the lanes of what is read
 * and of what is written; lanes that are not read count as zeros.
 */

/* The part of a window that lies inside the input, along one axis: positions [from, to). */
struct span {
    size_t start;    /* input coordinate of position `from` */
    size_t from, to; /* positions in the window */
    size_t padded;   /* positions inside the input and its padding */
};

VEC_INLINE struct span window_span(const struct window *w, size_t o, size_t size)
{
    size_t left = o * w->stride, end = left + w->kernel; /* in padded coordinates */
    struct span s;

    s.from = left < w->pad ? w->pad - left : 0;
    s.to = end > size + w->pad ? (size + w->pad > left ? size + w->pad - left : 0) : w->kernel;
    s.start = left + s.from - w->pad;
    s.padded = (end > size + 2 * w->pad ? size + 2 * w->pad : end) - left;
    if (s.to < s.from) {
        s.to = s.from;
    }
    return s;
}

/* Whether the window lies inside the input as a whole, so that its loops have fixed lengths. */
VEC_INLINE bool window_is_whole(const struct window *w, const struct span *v, const struct span *u)
{
    return v->to - v->from == w->kernel && u->to - u->from == w->kernel;
}

/* The maximum over positions [v0, v1) x [u0, u1) of a window whose position (v0, u0) is at `x`. */
VEC_INLINE v16 window_maximum(const struct plane *in, size_t kernel, size_t v0, size_t v1,
                              size_t u0, size_t u1, const T *x, int lanes, i16v *number)
{
    v16 best = v0 < v1 && u0 < u1 ? LOAD(x, lanes) : vec_set(-INFINITY);

    *number = (i16v){0};
    *number += (int)(v0 * kernel + u0);
    for (size_t a = v0; a < v1; a++) {
        for (size_t b = u0; b < u1; b++) {
            if (a != v0 || b != u0) {
                vec_take_larger(LOAD(x + (a - v0) * in->row + (b - u0) * in->step, lanes),
                                (int)(a * kernel + b), &best, number);
            }
        }
    }
    return best;
}

VEC_INLINE void max_pool_of(const struct plane *in, const struct plane *out, const struct window *w,
                            const T *x, T *y, uint8_t *which, int from, int to)
{
    for (size_t i = 0; i < out->h; i++) {
        struct span v = window_span(w, i, in->h);
        for (size_t j = 0; j < out->w; j++) {
            struct span u = window_span(w, j, in->w);
            const T *start = x + v.start * in->row + u.start * in->step;
            i16v number;
            v16 best = window_is_whole(w, &v, &u)
                           ? window_maximum(in, w->kernel, 0, w->kernel, 0, w->kernel, start, from,
                                            &number)
                           : window_maximum(in, w->kernel, v.from, v.to, u.from, u.to, start, from,
                                            &number);
            STORE(y + i * out->row + j * out->step, best, to);
            vec_store_numbers(which + i * out->row + j * out->step, number, to);
        }
    }
}

static void max_pool(const struct plane *in, const struct plane *out, const struct window *w,
                     const void *x, void *y, uint8_t *which)
{
    const struct window two = {2, 2, 0, false}, three = {3, 2, w->pad, false};
    bool full = in->lanes == 16 && out->lanes == 16;

    if (full && w->kernel == 2 && w->stride == 2 && w->pad == 0) {
        max_pool_of(in, out, &two, x, y, which, 16, 16);
    } else if (full && w->kernel == 3 && w->stride == 2) {
        max_pool_of(in, out, &three, x, y, which, 16, 16);
    } else if (w->kernel == 2 && w->stride == 2 && w->pad == 0) {
        max_pool_of(in, out, &two, x, y, which, in->lanes, out->lanes);
    } else {
        max_pool_of(in, out, w, x, y, which, in->lanes, out->lanes);
    }
}

VEC_INLINE void plane_clear(const struct plane *p, T *x, int lanes)
{
    for (size_t i = 0; i < p->h * p->w; i++) {
        STORE(x + i * p->step, vec_set(0.0f), lanes);
    }
}

/* Hand `g` to the position of the maximum among [v0, v1) x [u0, u1); (v0, u0) is at `dx`. */
VEC_INLINE void window_hand_back(const struct plane *in, size_t kernel, size_t v0, size_t v1,
                                 size_t u0, size_t u1, bool apart, v16 g, i16v number, T *dx,
                                 int lanes)
{
    for (size_t a = v0; a < v1; a++) {
        for (size_t b = u0; b < u1; b++) {
            T *at = dx + (a - v0) * in->row + (b - u0) * in->step;
            v16 d = vec_where_number(number, (int)(a * kernel + b), g);
            STORE(at, apart ? d : d + LOAD(at, lanes), lanes);
        }
    }
}

VEC_INLINE void max_unpool_of(const struct plane *in, const struct plane *out,
                              const struct window *w, const T *dy, const uint8_t *which, T *dx,
                              int from, int to)
{
    bool apart = w->stride >= w->kernel; /* windows do not overlap: write, do not add */

    if (!(w->stride == w->kernel && w->pad == 0 && in->h == out->h * w->kernel &&
          in->w == out->w * w->kernel)) {
        plane_clear(in, dx, to); /* some pixels are in no window, or in several */
    }
    for (size_t i = 0; i < out->h; i++) {
        struct span v = window_span(w, i, in->h);
        for (size_t j = 0; j < out->w; j++) {
            struct span u = window_span(w, j, in->w);
            v16 g = LOAD(dy + i * out->row + j * out->step, from);
            i16v number = vec_load_numbers(which + i * out->row + j * out->step, from);
            T *start = dx + v.start * in->row + u.start * in->step;
            if (window_is_whole(w, &v, &u)) {
                window_hand_back(in, w->kernel, 0, w->kernel, 0, w->kernel, apart, g, number, start,
                                 to);
            } else {
                window_hand_back(in, w->kernel, v.from, v.to, u.from, u.to, apart, g, number, start,
                                 to);
            }
        }
    }
}

static void max_unpool(const struct plane *in, const struct plane *out, const struct window *w,
                       const void *dy, const uint8_t *which, void *dx)
{
    const struct window two = {2, 2, 0, false}, three = {3, 2, w->pad, false};
    bool full = in->lanes == 16 && out->lanes == 16;

    if (full && w->kernel == 2 && w->stride == 2 && w->pad == 0) {
        max_unpool_of(in, out, &two, dy, which, dx, 16, 16);
    } else if (full && w->kernel == 3 && w->stride == 2) {
        max_unpool_of(in, out, &three, dy, which, dx, 16, 16);
    } else if (w->kernel == 2 && w->stride == 2 && w->pad == 0) {
        max_unpool_of(in, out, &two, dy, which, dx, out->lanes, in->lanes);
    } else {
        max_unpool_of(in, out, w, dy, which, dx, out->lanes, in->lanes);
    }
}

/* What a window's sum is divided by. */
VEC_INLINE float window_share(const struct window *w, const struct span *v, const struct span *u)
{
    size_t n = w->count_padding ? v->padded * u->padded : (v->to - v->from) * (u->to - u->from);

    return n == 0 ? 0.0f : 1.0f / (float)n;
}

VEC_INLINE void avg_pool_of(const struct plane *in, const struct plane *out, const struct window *w,
                            const T *x, T *y, int from, int to)
{
    for (size_t i = 0; i < out->h; i++) {
        struct span v = window_span(w, i, in->h);
        for (size_t j = 0; j < out->w; j++) {
            struct span u = window_span(w, j, in->w);
            v16 sum = vec_set(0.0f);
            for (size_t a = v.from; a < v.to; a++) {
                const T *row = x + (v.start + a - v.from) * in->row + u.start * in->step;
                for (size_t b = u.from; b < u.to; b++, row += in->step) {
                    sum += LOAD(row, from);
                }
            }
            STORE(y + i * out->row + j * out->step, sum * vec_set(window_share(w, &v, &u)), to);
        }
    }
}

static void avg_pool(const struct plane *in, const struct plane *out, const struct window *w,
                     const void *x, void *y)
{
    if (in->lanes == 16 && out->lanes == 16) {
        avg_pool_of(in, out, w, x, y, 16, 16);
    } else {
        avg_pool_of(in, out, w, x, y, in->lanes, out->lanes);
    }
}

VEC_INLINE void avg_unpool_of(const struct plane *in, const struct plane *out,
                              const struct window *w, const T *dy, T *dx, int from, int to)
{
    plane_clear(in, dx, to);
    for (size_t i = 0; i < out->h; i++) {
        struct span v = window_span(w, i, in->h);
        for (size_t j = 0; j < out->w; j++) {
            struct span u = window_span(w, j, in->w);
            v16 g =
                LOAD(dy + i * out->row + j * out->step, from) * vec_set(window_share(w, &v, &u));
            for (size_t a = v.from; a < v.to; a++) {
                T *row = dx + (v.start + a - v.from) * in->row + u.start * in->step;
                for (size_t b = u.from; b < u.to; b++, row += in->step) {
                    STORE(row, g + LOAD(row, to), to);
                }
            }
        }
    }
}

static void avg_unpool(const struct plane *in, const struct plane *out, const struct window *w,
                       const void *dy, void *dx)
{
    if (in->lanes == 16 && out->lanes == 16) {
        avg_unpool_of(in, out, w, dy, dx, 16, 16);
    } else {
        avg_unpool_of(in, out, w, dy, dx, out->lanes, in->lanes);
    }
}
