#include "data/augment.h"

#include "base/rng.h"

struct placement augment_centre(const struct dataset *d)
{
    struct placement p = {(ptrdiff_t)((d->out_h - d->h) / 2), (ptrdiff_t)((d->out_w - d->w) / 2),
                          false};

    return p;
}

/* Uniform in [-most, most]. */
static ptrdiff_t draw_move(uint32_t word, size_t most)
{
    return (ptrdiff_t)(((uint64_t)word * (2 * most + 1)) >> 32) - (ptrdiff_t)most;
}

struct placement augment_draw(const struct dataset *d, const struct config_data *cfg, uint64_t seed,
                              uint64_t epoch, size_t id)
{
    struct placement p = augment_centre(d);
    struct rng r = rng_make(seed, RNG_AUGMENT, epoch);
    uint32_t word[4];

    rng_block(&r, id, word);
    if (cfg->crop_pad > 0) {
        p.top += draw_move(word[0], (size_t)cfg->crop_pad);
        p.left += draw_move(word[1], (size_t)cfg->crop_pad);
    }
    p.mirror = cfg->flip && (word[2] >> 31) != 0;
    return p;
}

static void fill(float *y, size_t n, float value)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = value;
    }
}

static void convert(float *restrict y, const uint8_t *restrict x, size_t n, float scale, float bias)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = (float)x[i] * scale + bias;
    }
}

static void convert_mirrored(float *restrict y, const uint8_t *restrict x, size_t n, float scale,
                             float bias)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = (float)x[n - 1 - i] * scale + bias;
    }
}

/* The part of [0, n_out) that [at, at + n_in) covers, as first and end; empty as first = end. */
static void cover(ptrdiff_t at, size_t n_in, size_t n_out, size_t *first, size_t *end)
{
    ptrdiff_t last = at + (ptrdiff_t)n_in;

    *first = at < 0 ? 0 : (size_t)at;
    *end = last < 0 ? 0 : (size_t)last;
    *end = *end < n_out ? *end : n_out;
    *first = *first < *end ? *first : *end;
}

void augment_write(const struct dataset *d, const uint8_t *x, struct placement p, float *y)
{
    size_t top, bottom, left, right, w = d->out_w;

    cover(p.top, d->h, d->out_h, &top, &bottom);
    cover(p.left, d->w, d->out_w, &left, &right);
    for (size_t c = 0; c < d->c; c++) {
        float scale = d->scale[c], bias = d->bias[c];
        float *plane = y + c * d->out_h * w;

        fill(plane, top * w, bias);
        for (size_t i = top; i < bottom; i++) {
            size_t source_row = (size_t)((ptrdiff_t)i - p.top);
            const uint8_t *row = x + (c * d->h + source_row) * d->w;
            float *out = plane + i * w;

            if (left < right) {
                row += (size_t)((ptrdiff_t)left - p.left);
            }
            if (p.mirror) {
                fill(out, w - right, bias);
                convert_mirrored(out + w - right, row, right - left, scale, bias);
                fill(out + w - left, left, bias);
            } else {
                fill(out, left, bias);
                convert(out + left, row, right - left, scale, bias);
                fill(out + right, w - right, bias);
            }
        }
        fill(plane + bottom * w, (d->out_h - bottom) * w, bias);
    }
}
