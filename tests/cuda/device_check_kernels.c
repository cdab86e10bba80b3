#include "device_check.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "device/kernels/kernel_fold.h"
#include "device/kernels/kernel_sgd.h"

/* --- sums --- */

static void fill(char *p, size_t bytes, uint64_t salt, enum device_dtype dtype)
{
    struct rng r = rng_make(salt, RNG_TEST, 0);

    for (size_t i = 0; i < bytes / kernel_fold_elem_bytes(dtype); i++) {
        float x = (float)(rng_u32(&r, i) % 201) - 100.0f;
        switch (dtype) {
        case DEVICE_F32:
            ((float *)(void *)p)[i] = x;
            break;
        case DEVICE_BF16:
            ((uint16_t *)(void *)p)[i] = halves_bf16_of_f32(x);
            break;
        case DEVICE_F16:
            ((uint16_t *)(void *)p)[i] = halves_f16_of_f32(x);
            break;
        case DEVICE_I32:
            ((int32_t *)(void *)p)[i] = (int32_t)x;
            break;
        }
    }
}

/* Two sources, two destinations; the second source is the first destination. */
static void try_fold(struct check *c, enum device_dtype d, enum device_redop r, size_t n,
                     size_t skew)
{
    static const struct kernel_place everything = {0, 1, 0, 1};
    size_t bytes = n * kernel_fold_elem_bytes(d);
    char *a = check_memory(c, 0, bytes + 64), *b = check_memory(c, 0, bytes + 64);
    struct device_fold f = {.dtype = d, .redop = r, .n_src = 2, .n_dst = 2, .n = n};

    f.divisor = r == DEVICE_MEAN ? 3 : 0;
    fill(c->want, bytes, 1, d);
    fill(c->host, bytes, 2, d);
    check_move(c, a + skew, c->want, bytes);
    check_move(c, b + skew, c->host, bytes);
    f.src[0] = a + skew;
    f.src[1] = b + skew;
    f.dst[0] = b + skew;
    f.dst[1] = a + skew;
    check_expect(c->d->fold(c->set, c->stream, &f), "a fold");
    f.src[0] = c->want;
    f.src[1] = c->host;
    f.dst[0] = c->want;
    f.n_dst = 1;
    kernel_fold(everything, &f, d, r);
    check_move(c, c->host, a + skew, bytes);
    c->n_wrong += memcmp(c->host, c->want, bytes) != 0;
    check_move(c, c->host, b + skew, bytes);
    c->n_wrong += memcmp(c->host, c->want, bytes) != 0;
    c->d->release(c->set, 0, a);
    c->d->release(c->set, 0, b);
}

bool check_folds(struct check *c)
{
    static const size_t sizes[] = {1, 3, 4, 1000, 8191, MAX_N};
    size_t n_cases = 0;

    c->n_wrong = 0;
    for (int d = DEVICE_F32; d <= DEVICE_I32; d++) {
        for (int r = DEVICE_SUM; r <= DEVICE_MIN; r++) {
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++, n_cases++) {
                try_fold(c, (enum device_dtype)d, (enum device_redop)r, sizes[k], k % 2 * 4);
            }
        }
    }
    return check_report("kernels_fold", c, n_cases);
}

/* --- SGD --- */

bool check_sgd(struct check *c)
{
    struct device_range ranges[] = {{.offset = 0, .n = 5000, .weight_decay = 0.5f},
                                    {.offset = 5008, .n = 100, .weight_decay = 0},
                                    {.offset = 5120, .n = 20000, .weight_decay = 0.25f}};
    const size_t n = 32768, bytes = n * sizeof(float);
    char *w = check_memory(c, 0, bytes), *v = check_memory(c, 0, bytes);
    char *g = check_memory(c, 0, bytes), *r = check_memory(c, 0, sizeof ranges);
    struct device_sgd s = {.n_tiles = device_tile(ranges, 3),
                           .n_ranges = 3,
                           .lr = 0.5f,
                           .momentum = 0.5f,
                           .unscale = 2.0f,
                           .nesterov = true};
    const struct kernel_place everything = {0, 1, 0, 1};
    static _Alignas(16) float hw[32768], hv[32768], hg[32768];

    fill((char *)hw, bytes, 3, DEVICE_F32);
    fill((char *)hv, bytes, 4, DEVICE_F32);
    fill((char *)hg, bytes, 5, DEVICE_F32);
    check_move(c, w, hw, bytes);
    check_move(c, v, hv, bytes);
    check_move(c, g, hg, bytes);
    check_move(c, r, ranges, sizeof ranges);
    s.w = (float *)(void *)w;
    s.v = (float *)(void *)v;
    s.g = (const float *)(const void *)g;
    s.ranges = (const struct device_range *)(const void *)r;
    check_expect(c->d->sgd(c->set, c->stream, &s), "an update");
    s.w = hw;
    s.v = hv;
    s.g = hg;
    s.ranges = ranges;
    kernel_sgd(everything, &s); /* multiples of 1/8: exact in any order and with any rounding */
    c->n_wrong = 0;
    check_move(c, c->host, w, bytes);
    c->n_wrong += memcmp(c->host, hw, bytes) != 0;
    check_move(c, c->host, v, bytes);
    c->n_wrong += memcmp(c->host, hv, bytes) != 0;
    c->d->release(c->set, 0, w);
    c->d->release(c->set, 0, v);
    c->d->release(c->set, 0, g);
    c->d->release(c->set, 0, r);
    return check_report("kernels_sgd", c, 2);
}

/* --- conversions, and numbers that are not finite --- */

static void try_convert(struct check *c, enum device_dtype half, size_t n)
{
    char *wide = check_memory(c, 0, n * sizeof(float));
    char *narrow = check_memory(c, 0, n * sizeof(uint16_t));
    struct device_convert down = {.src = wide, .dst = narrow, .n = n, .half = half};
    struct device_convert up = {.src = narrow, .dst = wide, .n = n, .half = half, .widen = true};
    float *x = (float *)(void *)c->host;

    for (size_t i = 0; i < n; i++) {
        x[i] = ((float)i - 700.0f) * 1.001f; /* of more digits than 16 bits hold */
    }
    memcpy(c->want, x, n * sizeof *x);
    check_move(c, wide, x, n * sizeof *x);
    check_expect(c->d->convert(c->set, c->stream, &down), "a conversion");
    check_expect(c->d->convert(c->set, c->stream, &up), "a conversion back");
    check_move(c, x, wide, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        float once = ((const float *)(const void *)c->want)[i];
        c->n_wrong += x[i] != (half == DEVICE_BF16 ? halves_f32_of_bf16(halves_bf16_of_f32(once))
                                                   : halves_f32_of_f16(halves_f16_of_f32(once)));
    }
    c->d->release(c->set, 0, wide);
    c->d->release(c->set, 0, narrow);
}

/* With number `bad` infinite; n: none is. */
static void try_finite(struct check *c, size_t n, size_t bad)
{
    char *x = check_memory(c, 0, n * sizeof(float));
    uint32_t *flag = check_memory(c, 0, sizeof *flag), found;
    struct device_finite f = {.x = (const float *)(const void *)x, .n = n, .flag = flag};

    fill(c->host, n * sizeof(float), 6, DEVICE_F32);
    if (bad < n) {
        ((float *)(void *)c->host)[bad] = INFINITY;
    }
    check_move(c, x, c->host, n * sizeof(float));
    check_expect(c->d->finite(c->set, c->stream, &f), "a search");
    check_move(c, &found, flag, sizeof found);
    c->n_wrong += found != (bad < n);
    check_expect(c->d->clear(c->set, c->stream, flag, sizeof *flag), "a clearing");
    check_move(c, &found, flag, sizeof found);
    c->n_wrong += found != 0;
    c->d->release(c->set, 0, x);
    c->d->release(c->set, 0, flag);
}

static void try_store(struct check *c)
{
    unsigned char *p = check_memory(c, 0, 2 * DEVICE_STORE_BYTES);
    struct device_store s = {.dst = p + 1, .n = DEVICE_STORE_BYTES};

    for (size_t i = 0; i < s.n; i++) {
        s.bytes[i] = (unsigned char)(i + 1);
    }
    check_expect(c->d->store(c->set, c->stream, &s), "a store");
    check_move(c, c->host, p, 2 * DEVICE_STORE_BYTES);
    for (size_t i = 0; i < 2 * DEVICE_STORE_BYTES; i++) {
        c->n_wrong += (unsigned char)c->host[i] != (i <= s.n ? i : 0);
    }
    c->d->release(c->set, 0, p);
}

/* Votes in the host's memory, as of several devices; 4: the loss is infinite, 5: all is well. */
static void try_vote(struct check *c, size_t bad)
{
    uint32_t *out = check_memory(c, 0, sizeof *out), *votes = (uint32_t *)(void *)c->host, found;
    double *loss = (double *)(void *)(c->host + 64);
    struct device_vote v = {.loss = loss, .votes = votes, .n = 4, .out = out};

    for (size_t i = 0; i < 4; i++) {
        votes[i] = i == bad;
    }
    *loss = bad == 4 ? (double)INFINITY : 1e300;
    check_expect(c->d->vote(c->set, c->stream, &v), "a vote");
    check_move(c, &found, out, sizeof found);
    c->n_wrong += found != (bad <= 4);
    c->d->release(c->set, 0, out);
}

bool check_numbers(struct check *c)
{
    static const size_t sizes[] = {1, 3, 1000, 8191};
    size_t n_cases = 0;

    c->n_wrong = 0;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        try_convert(c, DEVICE_BF16, sizes[k]);
        try_convert(c, DEVICE_F16, sizes[k]);
        try_finite(c, sizes[k], sizes[k]);
        try_finite(c, sizes[k], 0);
        try_finite(c, sizes[k], sizes[k] - 1);
        n_cases += 5;
    }
    try_store(c);
    n_cases++;
    for (size_t bad = 0; bad < 6; bad++, n_cases++) {
        try_vote(c, bad);
    }
    return check_report("kernels_numbers", c, n_cases);
}
