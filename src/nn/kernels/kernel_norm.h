/* Batch norm of one plane; included by kernel_body.h. */

enum {
    NORM_RUN = 1024 /* pixels summed in fp32 before they are added up in fp64 */
};

/*
 * Sums go to fp32 vectors over short runs and to fp64 between them; the moments are taken around
 * `origin`, a value of the data's size, so that no digits cancel.
 */
VEC_INLINE void norm_add_up(struct norm_sums *s, v16 first, v16 second)
{
    for (int l = 0; l < 16; l++) {
        s->first[l] += (double)first[l];
        s->second[l] += (double)second[l];
    }
}

VEC_INLINE void norm_moments_of(const struct plane *p, const T *x, v16 origin, int lanes,
                                struct norm_sums *s)
{
    size_t n = p->h * p->w, step = p->step;

    for (size_t from = 0; from < n; from += NORM_RUN) {
        size_t to = from + NORM_RUN < n ? from + NORM_RUN : n, i = from;
        v16 sum[4] = {{0}}, square[4] = {{0}};
        for (; i + 4 <= to; i += 4) {
            for (size_t k = 0; k < 4; k++) {
                v16 d = LOAD(x + (i + k) * step, lanes) - origin;
                sum[k] += d;
                square[k] += d * d;
            }
        }
        for (; i < to; i++) {
            v16 d = LOAD(x + i * step, lanes) - origin;
            sum[0] += d;
            square[0] += d * d;
        }
        norm_add_up(s, (sum[0] + sum[1]) + (sum[2] + sum[3]),
                    (square[0] + square[1]) + (square[2] + square[3]));
    }
}

static void norm_moments(const struct plane *p, const void *x, const float *origin,
                         struct norm_sums *s)
{
    v16 o = vec_load_f32(origin, 16);

    if (p->lanes == 16) {
        norm_moments_of(p, x, o, 16, s);
    } else {
        norm_moments_of(p, x, o, p->lanes, s);
    }
}

VEC_INLINE void norm_apply_to(const struct plane *p, const T *x, const T *r, v16 scale, v16 shift,
                              bool relu, int lanes, T *y)
{
    size_t n = p->h * p->w, step = p->step;

    for (size_t i = 0; i < n; i++) {
        v16 v = LOAD(x + i * step, lanes) * scale + shift;
        v = r == NULL ? v : v + LOAD(r + i * step, lanes);
        STORE(y + i * step, relu ? vec_relu(v) : v, lanes);
    }
}

static void norm_apply(const struct plane *p, const void *x, const void *residual,
                       const struct norm_affine *f, bool relu, void *y)
{
    v16 a = vec_load_f32(f->scale, 16), b = vec_load_f32(f->shift, 16);

    if (p->lanes != 16) {
        norm_apply_to(p, x, residual, a, b, relu, p->lanes, y);
    } else if (residual != NULL) {
        norm_apply_to(p, x, residual, a, b, relu, 16, y);
    } else if (relu) {
        norm_apply_to(p, x, NULL, a, b, true, 16, y);
    } else {
        norm_apply_to(p, x, NULL, a, b, false, 16, y);
    }
}

/* The masked gradient at element `at`. */
VEC_INLINE v16 norm_masked(const struct norm_operands *o, enum norm_mask mask, bool two, size_t at,
                           v16 x, v16 scale, v16 shift, int lanes)
{
    v16 g = LOAD((const T *)o->dy + at, lanes);

    if (two) {
        g += LOAD((const T *)o->dy2 + at, lanes);
    }
    switch (mask) {
    case MASK_AFFINE:
        return vec_where_positive(x * scale + shift, g);
    case MASK_OUTPUT:
        return vec_where_positive(LOAD((const T *)o->y + at, lanes), g);
    case MASK_NONE:
        break;
    }
    return g;
}

/* Pixel `i` of the sums below. */
VEC_INLINE void norm_sum_pixel(const struct norm_operands *o, enum norm_mask mask, bool two,
                               size_t at, v16 scale, v16 shift, v16 mean, int lanes, v16 *sum,
                               v16 *product)
{
    v16 x = LOAD((const T *)o->x + at, lanes);
    v16 g = norm_masked(o, mask, two, at, x, scale, shift, lanes);

    if (o->g != NULL) {
        STORE((T *)o->g + at, g, lanes);
    }
    *sum += g;
    *product += g * (x - mean);
}

VEC_INLINE void norm_sums_of(const struct plane *p, const struct norm_operands *o,
                             enum norm_mask mask, bool two, const struct norm_affine *f, v16 mean,
                             int lanes, struct norm_sums *s)
{
    size_t n = p->h * p->w, step = p->step;
    v16 scale = vec_load_f32(f->scale, 16), shift = vec_load_f32(f->shift, 16);

    for (size_t from = 0; from < n; from += NORM_RUN) {
        size_t to = from + NORM_RUN < n ? from + NORM_RUN : n, i = from;
        v16 sum[4] = {{0}}, product[4] = {{0}};
        for (; i + 4 <= to; i += 4) {
            for (size_t k = 0; k < 4; k++) {
                norm_sum_pixel(o, mask, two, (i + k) * step, scale, shift, mean, lanes, &sum[k],
                               &product[k]);
            }
        }
        for (; i < to; i++) {
            norm_sum_pixel(o, mask, two, i * step, scale, shift, mean, lanes, &sum[0], &product[0]);
        }
        norm_add_up(s, (sum[0] + sum[1]) + (sum[2] + sum[3]),
                    (product[0] + product[1]) + (product[2] + product[3]));
    }
}

/* Call `fn` with its mask, `two` and lanes as constants, so that the loops have no branches. */
#define NORM_DISPATCH(fn, p, o, mask, ...)                                                         \
    do {                                                                                           \
        bool two_ = (o)->dy2 != NULL;                                                              \
        if ((p)->lanes != 16) {                                                                    \
            fn(p, o, mask, two_, __VA_ARGS__, (p)->lanes, s);                                      \
        } else if ((mask) == MASK_AFFINE && !two_) {                                               \
            fn(p, o, MASK_AFFINE, false, __VA_ARGS__, 16, s);                                      \
        } else if ((mask) == MASK_AFFINE) {                                                        \
            fn(p, o, MASK_AFFINE, true, __VA_ARGS__, 16, s);                                       \
        } else if ((mask) == MASK_OUTPUT && two_) {                                                \
            fn(p, o, MASK_OUTPUT, true, __VA_ARGS__, 16, s);                                       \
        } else if ((mask) == MASK_NONE && !two_) {                                                 \
            fn(p, o, MASK_NONE, false, __VA_ARGS__, 16, s);                                        \
        } else {                                                                                   \
            fn(p, o, mask, two_, __VA_ARGS__, 16, s);                                              \
        }                                                                                          \
    } while (0)

static void norm_sums(const struct plane *p, const struct norm_operands *o, enum norm_mask mask,
                      const struct norm_affine *f, const float *mean, struct norm_sums *s)
{
    v16 m = vec_load_f32(mean, 16);

    NORM_DISPATCH(norm_sums_of, p, o, mask, f, m);
}

VEC_INLINE void norm_gradient_of(const struct plane *p, const struct norm_operands *o,
                                 enum norm_mask mask, bool two, const struct norm_affine *f,
                                 const struct norm_gradient *k, int lanes, void *unused)
{
    size_t n = p->h * p->w, step = p->step;
    v16 scale = vec_load_f32(f->scale, 16), shift = vec_load_f32(f->shift, 16);
    v16 a = vec_load_f32(k->a, 16), b = vec_load_f32(k->b, 16), c = vec_load_f32(k->c, 16);
    v16 mean = vec_load_f32(k->mean, 16);
    T *dx = o->dx;

    (void)unused;
    for (size_t i = 0; i < n; i++) {
        v16 x = LOAD((const T *)o->x + i * step, lanes);
        v16 g = norm_masked(o, mask, two, i * step, x, scale, shift, lanes);
        STORE(dx + i * step, a * g - b * (x - mean) - c, lanes);
    }
}

static void norm_gradient(const struct plane *p, const struct norm_operands *o, enum norm_mask mask,
                          const struct norm_affine *f, const struct norm_gradient *n)
{
    void *s = NULL;

    NORM_DISPATCH(norm_gradient_of, p, o, mask, f, n);
}
