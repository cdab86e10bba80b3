#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "nn/kernels/kernels.h"
#include "tests/nn/reference.h"

/*
 * All instruction sets that this processor runs compute the same. Which values these are is tested
 * through the layers; here every kernel of every set is compared with the plain one.
 */

enum {
    SIZE = 4096
};

struct result {
    float y[SIZE], g[SIZE];
    uint8_t which[SIZE];
    struct norm_sums sums;
};

struct data {
    float a[SIZE], b[SIZE], c[SIZE], d[SIZE];
    uint8_t keep[SIZE];
};

static void fill(struct data *d)
{
    for (size_t i = 0; i < SIZE; i++) {
        d->a[i] = bench_random(1, i);
        d->b[i] = bench_random(2, i);
        d->c[i] = bench_random(3, i);
        d->d[i] = bench_random(4, i);
        d->keep[i] = bench_random(5, i) > 0.0f;
    }
}

static void compare(const struct result *want, const struct result *got, const char *isa,
                    const char *what, size_t variant)
{
    for (size_t i = 0; i < SIZE; i++) {
        cr_assert(fabsf(want->y[i] - got->y[i]) <= 2e-6f, "%s, %s %zu: y[%zu] is %g, not %g", isa,
                  what, variant, i, (double)got->y[i], (double)want->y[i]);
        cr_assert(fabsf(want->g[i] - got->g[i]) <= 2e-6f, "%s, %s %zu: g[%zu] is %g, not %g", isa,
                  what, variant, i, (double)got->g[i], (double)want->g[i]);
        cr_assert_eq(want->which[i], got->which[i], "%s, %s %zu: number %zu", isa, what, variant,
                     i);
    }
    for (int l = 0; l < KERNEL_LANES; l++) {
        cr_assert_float_eq(want->sums.first[l], got->sums.first[l], 1e-4);
        cr_assert_float_eq(want->sums.second[l], got->sums.second[l], 1e-4);
    }
}

static void flat(const struct kernels *k, const struct data *d, size_t n, struct result *r)
{
    k->add(n, d->a, d->b, r->y, true);
    k->add(n, d->a, d->b, r->y + 1000, false);
    k->relu(n, d->a, r->y + 2000);
    k->dropout(n, d->a, d->keep, 1.25f, r->y + 3000);
    k->gradient(n, d->a, d->b, d->c, r->g);
    k->gradient(n, d->a, d->b, NULL, r->g + 1000);
    k->gradient(n, NULL, d->b, d->c, r->g + 2000);
    k->gradient(n, NULL, d->b, NULL, r->g + 3000);
}

static void rows(const struct kernels *k, const struct data *d, size_t u, struct result *r)
{
    memcpy(r->y, d->a, sizeof r->y);
    k->bias_rows(7, u, d->b, true, r->y);
    k->bias_rows(3, u, NULL, true, r->y + 2000);
    k->sum_rows(7, u, d->a, r->g);
    k->widen(u, d->a, r->g + 1000);
    k->narrow(u, d->a, r->g + 2000);
}

/* Planes of `lanes` channels, apart by `step`. */
static struct plane plane(size_t h, size_t w, size_t step, int lanes)
{
    return (struct plane){.row = w * step, .step = step, .h = h, .w = w, .lanes = lanes};
}

static void norm(const struct kernels *k, const struct data *d, size_t variant, struct result *r)
{
    int lanes = (int)(16 - variant % 3 * 5);
    struct plane p = plane(9, 11, variant % 2 == 0 ? 16 : 20, lanes);
    bool two = variant / 2 % 2 == 1, keep_g = variant / 4 % 2 == 1;
    enum norm_mask mask = (enum norm_mask)(variant / 8 % 3);
    struct norm_affine f;
    struct norm_gradient n;
    struct norm_operands o = {d->a,       d->b, d->c, two ? d->d : NULL, keep_g ? r->g : NULL,
                              r->y + 2048};

    memcpy(f.scale, d->a + 100, sizeof f.scale);
    memcpy(f.shift, d->b + 100, sizeof f.shift);
    memcpy(n.a, d->c + 100, sizeof n.a);
    memcpy(n.b, d->d + 100, sizeof n.b);
    memcpy(n.c, d->a + 200, sizeof n.c);
    memcpy(n.mean, d->b + 200, sizeof n.mean);
    k->norm_moments(&p, d->a, d->b, &r->sums);
    k->norm_apply(&p, d->a, two ? d->b : NULL, &f, keep_g, r->y);
    k->norm_sums(&p, &o, mask, &f, n.mean, &r->sums);
    k->norm_gradient(&p, &o, mask, &f, &n);
}

static void pool(const struct kernels *k, const struct data *d, size_t variant, struct result *r)
{
    static const struct window windows[] = {{2, 2, 0, false}, {3, 2, 1, false}, {3, 2, 0, true},
                                            {2, 3, 1, true},  {5, 1, 2, false}, {3, 3, 0, false}};
    struct window w = windows[variant / 3 % 6];
    int lanes = (int)(16 - variant % 3 * 5);
    size_t h = 8, oh = (h + 2 * w.pad - w.kernel) / w.stride + 1;
    struct plane in = plane(h, h, variant % 2 == 0 ? 16 : 20, lanes),
                 out = plane(oh, oh, 16, lanes);

    k->max_pool(&in, &out, &w, d->a, r->y, r->which);
    k->max_unpool(&in, &out, &w, d->b, r->which, r->g);
    k->avg_pool(&in, &out, &w, d->a, r->y + 2048);
    k->avg_unpool(&in, &out, &w, d->b, r->g + 2048);
}

static void check(void (*fn)(const struct kernels *k, const struct data *d, size_t variant,
                             struct result *r),
                  const char *what, size_t from, size_t to)
{
    static struct data d;
    static struct result want, got;

    fill(&d);
    for (size_t v = from; v < to; v++) {
        memset(&want, 0, sizeof want);
        fn(kernels_at(0), &d, v, &want);
        for (size_t i = 1; kernels_at(i) != NULL; i++) {
            memset(&got, 0, sizeof got);
            fn(kernels_at(i), &d, v, &got);
            compare(&want, &got, kernels_at(i)->isa, what, v);
        }
    }
}

Test(kernels, flat)
{
    check(flat, "flat", 0, 70);
}

Test(kernels, rows)
{
    check(rows, "rows", 1, 70);
}

Test(kernels, norm)
{
    check(norm, "norm", 0, 48);
}

Test(kernels, pool)
{
    check(pool, "pool", 0, 36);
}
