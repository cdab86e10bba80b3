/*
 * A dataset that is made and not stored.
 *
 * A class is a coarse random pattern: per channel a grid of at most 8x8 grey values. A sample is
 * the pattern of its class, blown up to the image and shifted cyclically by a few pixels, plus
 * noise. The noise of an image row is a run of a table of random bytes that starts at a random
 * place, so that a pixel costs one byte addition. Pattern and noise are uniform in [0, 127]; their
 * sum has mean 0.498 and deviation 0.205 in units of 255. Sample i has the class i mod classes.
 */
#include "data/synthetic.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

enum {
    GRID = 8,        /* cells of a pattern in each direction */
    NOISE = 1 << 16, /* places where a row's noise can start */
    SHIFT_PART = 16, /* the shift is at most 1/16 of the image in each direction */
    MAX_SIDE = 1 << 14,
    DEFAULT_CLASSES = 10,
    DEFAULT_TRAIN = 2048,
    DEFAULT_TEST = 512,
};

static const double default_shape[3] = {3, 32, 32};

/* Streams of the tables; samples have small stream numbers. */
static const uint64_t stream_pattern = UINT64_MAX, stream_noise = UINT64_MAX - 1;

struct synthetic {
    size_t c, h, w, grid_h, grid_w, classes;
    uint64_t seed, test; /* test is 0 or 1 */
    uint8_t *pattern;    /* [classes, c, grid_h, grid_w] */
    uint8_t *noise;      /* [NOISE + w] */
    uint8_t *column;     /* [2w]: the grid column of an image column, twice, for the shift */
};

static void fill_table(uint8_t *out, size_t n, uint64_t seed, uint64_t stream)
{
    struct rng r = rng_make(seed, RNG_SYNTHETIC, stream);
    uint32_t word[4];

    for (size_t i = 0; i < n; i++) {
        if (i % 4 == 0) {
            rng_block(&r, i / 4, word);
        }
        out[i] = (uint8_t)(word[i % 4] >> 25);
    }
}

static enum status read_shape(const struct config_data *cfg, size_t side[3])
{
    if (cfg->shape.n != 0 && cfg->shape.n != 3) {
        return log_fail(ST_INPUT,
                        "data.shape has %zu numbers, dataset synthetic expects 3: channels, "
                        "height, width, set for example data.shape = 3, 32, 32",
                        cfg->shape.n);
    }
    for (int i = 0; i < 3; i++) {
        double v = cfg->shape.n == 0 ? default_shape[i] : cfg->shape.v[i];
        if (!(v >= 1 && v <= MAX_SIDE) || v != floor(v)) {
            return log_fail(ST_INPUT,
                            "data.shape: number %d is %.0f, expected a whole number from 1 to %d, "
                            "set for example data.shape = 3, 32, 32",
                            i + 1, v, MAX_SIDE);
        }
        side[i] = (size_t)v;
    }
    return ST_OK;
}

static enum status read_count(const struct dataset_request *q, size_t *n)
{
    int64_t v = q->split == DATA_TRAIN ? q->cfg->n_train : q->cfg->n_test;
    const char *name = dataset_split_name(q->split);

    if (v < 0 || v > UINT32_MAX) {
        return log_fail(ST_INPUT, "data.n_%s = %lld, expected 0 to %u, correct data.n_%s", name,
                        (long long)v, UINT32_MAX, name);
    }
    *n = v > 0 ? (size_t)v : q->split == DATA_TRAIN ? DEFAULT_TRAIN : DEFAULT_TEST;
    return ST_OK;
}

static enum status make_tables(struct synthetic *s)
{
    size_t cells = s->c * s->grid_h * s->grid_w; /* at most 2^20 with MAX_SIDE channels */

    s->pattern = mem_alloc(s->classes, cells);
    s->noise = mem_alloc(NOISE + s->w, 1);
    s->column = mem_alloc(2 * s->w, 1);
    if (s->pattern == NULL || s->noise == NULL || s->column == NULL) {
        return log_fail(ST_NOMEM,
                        "out of memory for the synthetic dataset, %zu classes of %zux%zux%zu, "
                        "choose fewer classes or a smaller shape",
                        s->classes, s->c, s->h, s->w);
    }
    fill_table(s->pattern, s->classes * cells, s->seed, stream_pattern);
    fill_table(s->noise, NOISE + s->w, s->seed, stream_noise);
    for (size_t x = 0; x < 2 * s->w; x++) {
        s->column[x] = (uint8_t)(x % s->w * s->grid_w / s->w);
    }
    return ST_OK;
}

enum status synthetic_open(const struct dataset_request *q, struct dataset *d)
{
    struct synthetic *s;
    size_t side[3], n = 0;

    TRY(read_shape(q->cfg, side));
    TRY(read_count(q, &n));
    s = d->synthetic = mem_alloc(1, sizeof *s); /* dataset_close releases it after a failure */
    if (s == NULL) {
        return log_fail(ST_NOMEM, "out of memory for the synthetic dataset");
    }
    d->n = n;
    d->c = s->c = side[0];
    d->h = s->h = side[1];
    d->w = s->w = side[2];
    d->classes = q->cfg->classes > 0 ? (int)q->cfg->classes : DEFAULT_CLASSES;
    s->classes = (size_t)d->classes;
    s->grid_h = s->h < GRID ? s->h : GRID;
    s->grid_w = s->w < GRID ? s->w : GRID;
    s->seed = q->seed;
    s->test = q->split == DATA_TEST;
    return make_tables(s);
}

void synthetic_close(struct synthetic *s)
{
    if (s != NULL) {
        mem_free(s->pattern);
        mem_free(s->noise);
        mem_free(s->column);
        mem_free(s);
    }
}

size_t synthetic_scratch_bytes(const struct synthetic *s)
{
    return s->c * s->h * s->w + s->w; /* the image, and one row of the pattern */
}

/* One row of the pattern: its cells, spread over the columns, which begin at a shift. */
static void spread(const uint8_t *cells, const uint8_t *column, uint8_t *row, size_t w)
{
    for (size_t x = 0; x < w; x++) {
        row[x] = cells[column[x]];
    }
}

static void add_noise(uint8_t *restrict y, const uint8_t *restrict row,
                      const uint8_t *restrict noise, size_t w)
{
    for (size_t x = 0; x < w; x++) {
        y[x] = (uint8_t)(row[x] + noise[x]);
    }
}

/* A shift in [0, side): at most side/SHIFT_PART to either side, cyclically. */
static size_t draw_shift(uint32_t word, size_t side)
{
    size_t most = side / SHIFT_PART;

    return (side - most + (size_t)(((uint64_t)word * (2 * most + 1)) >> 32)) % side;
}

void synthetic_make(const struct synthetic *s, size_t id, uint8_t *scratch)
{
    struct rng r = rng_make(s->seed, RNG_SYNTHETIC, 2 * (uint64_t)id + s->test);
    const uint8_t *pattern = s->pattern + id % s->classes * s->c * s->grid_h * s->grid_w;
    uint8_t *row = scratch + s->c * s->h * s->w;
    size_t shift_y, shift_x, done = 0; /* rows */
    uint32_t word[4];

    rng_block(&r, 0, word);
    shift_y = draw_shift(word[0], s->h);
    shift_x = draw_shift(word[1], s->w);
    for (size_t c = 0; c < s->c; c++) {
        size_t spread_row = SIZE_MAX;
        for (size_t y = 0; y < s->h; y++, done++) {
            size_t grid_row = (y + shift_y) % s->h * s->grid_h / s->h;
            if (grid_row != spread_row) {
                spread(pattern + (c * s->grid_h + grid_row) * s->grid_w, s->column + shift_x, row,
                       s->w);
                spread_row = grid_row;
            }
            if (done % 4 == 0) {
                rng_block(&r, 1 + done / 4, word);
            }
            add_noise(scratch + done * s->w, row, s->noise + word[done % 4] % NOISE, s->w);
        }
    }
}

int32_t synthetic_label(const struct synthetic *s, size_t id)
{
    return (int32_t)(id % s->classes);
}
