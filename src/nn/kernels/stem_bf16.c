#include "nn/kernels/stem.h"

#include "nn/kernels/vec.h"

extern const struct stem_kernels stem_bf16;

/* --- windows --- */

/* A row of x, from `pad` before it on, as four lines: those with every fourth element. */
static void split_row(const struct stem *s, const uint16_t *row, uint16_t *whole, uint16_t *lines)
{
    static const uint16_t even[32] = {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60,
                                      1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61},
                          odd[32] = {2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 62,
                                     3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63};
    const __m512i first = _mm512_loadu_si512(even), second = _mm512_loadu_si512(odd);
    size_t line = stem_line(s), all = STEM_STEP * line;
    size_t n = s->width < all - s->pad ? s->width : all - s->pad;

    memset(whole, 0, s->pad * sizeof *whole);
    memcpy(whole + s->pad, row, n * sizeof *whole);
    memset(whole + s->pad + n, 0, (all - s->pad - n) * sizeof *whole);
    for (size_t j = 0; j < line; j += KERNEL_LANES) {
        __m512i low = _mm512_loadu_si512(whole + STEM_STEP * j);
        __m512i high = _mm512_loadu_si512(whole + STEM_STEP * j + 32);
        __m512i a = _mm512_permutex2var_epi16(low, first, high);
        __m512i b = _mm512_permutex2var_epi16(low, second, high);
        _mm256_storeu_si256((__m256i *)(void *)(lines + j), _mm512_castsi512_si256(a));
        _mm256_storeu_si256((__m256i *)(void *)(lines + line + j), _mm512_extracti64x4_epi64(a, 1));
        _mm256_storeu_si256((__m256i *)(void *)(lines + 2 * line + j), _mm512_castsi512_si256(b));
        _mm256_storeu_si256((__m256i *)(void *)(lines + 3 * line + j),
                            _mm512_extracti64x4_epi64(b, 1));
    }
}

static uint16_t *lines_of(const struct stem *s, uint16_t *lines, size_t row, size_t channel)
{
    return lines + (row * s->channels + channel) * STEM_STEP * stem_line(s);
}

/* All rows that the tiles of row `i` read, split. */
static void split_rows(const struct stem *s, const uint16_t *x, size_t i, uint16_t *lines)
{
    size_t rows = s->v.kernel + 2;
    uint16_t *whole = lines_of(s, lines, rows, 0);

    for (size_t a = 0; a < rows; a++) {
        size_t h = STEM_STEP * i + a - s->pad; /* wraps around above the first row */
        for (size_t c = 0; c < s->channels; c++) {
            uint16_t *to = lines_of(s, lines, a, c);
            if (h < s->height) {
                split_row(s, x + (c * s->height + h) * s->width, whole, to);
            } else {
                memset(to, 0, STEM_STEP * stem_line(s) * sizeof *to);
            }
        }
    }
}

/* The lines of one channel, combined along the columns as piece `p` wants, in fp32. */
static void combine(const struct stem *s, uint16_t *lines, const struct stem_piece *p,
                    size_t channel, float *out)
{
    const uint16_t *first = lines_of(s, lines, p->first, channel);
    const uint16_t *second = lines_of(s, lines, p->second, channel);
    v16 sign = vec_set(p->sign);
    size_t n = STEM_STEP * stem_line(s);

    for (size_t j = 0; j < n; j += KERNEL_LANES) {
        vec_store_f32(out + j, vec_load_bf16(first + j, 16) + sign * vec_load_bf16(second + j, 16),
                      16);
    }
}

/* One row of v from combined lines: along the rows as piece `p` wants. */
static void make_row(const struct stem *s, const float *lines, const struct stem_piece *p,
                     uint16_t *row)
{
    const float *first = lines + p->first % STEM_STEP * stem_line(s) + p->first / STEM_STEP;
    const float *second = lines + p->second % STEM_STEP * stem_line(s) + p->second / STEM_STEP;
    v16 sign = vec_set(p->sign);
    size_t n = s->tiles, j = 0;

    for (; j + KERNEL_LANES <= n; j += KERNEL_LANES) {
        vec_store_bf16(row + j, vec_load_f32(first + j, 16) + sign * vec_load_f32(second + j, 16),
                       16);
    }
    if (j < n) {
        vec_store_bf16(row + j, vec_load_f32(first + j, 16) + sign * vec_load_f32(second + j, 16),
                       (int)(n - j));
    }
}

/* The number of piece `n` among those of its group. */
static size_t number_in_group(const struct stem_axis *a, size_t n)
{
    size_t number = 0;

    for (size_t i = 0; i < n; i++) {
        number += a->piece[i].group == a->piece[n].group;
    }
    return number;
}

/* Row k of piece `a` of the columns and `b` of the rows, channel 0. */
static size_t row_of(const struct stem *s, size_t a, size_t b)
{
    const struct stem_piece *v = &s->v.piece[a], *h = &s->h.piece[b];
    size_t numbers = number_in_group(&s->v, a) * s->h.n_group[h->group] + number_in_group(&s->h, b);

    return s->first[4 * v->group + h->group] + numbers * s->channels;
}

static void clear_row(const struct stem *s, uint16_t *row)
{
    memset(row, 0, s->tiles * sizeof *row);
}

static void windows(const struct stem *s, const uint16_t *x, size_t i, uint16_t *lines,
                    size_t apart, uint16_t *v)
{
    float *combined = (float *)(void *)lines_of(s, lines, s->v.kernel + 2, 0);

    split_rows(s, x, i, lines);
    for (size_t a = 0; a < s->v.n; a++) {
        for (size_t c = 0; c < s->channels; c++) {
            combine(s, lines, &s->v.piece[a], c, combined);
            for (size_t b = 0; b < s->h.n; b++) {
                make_row(s, combined, &s->h.piece[b], v + (row_of(s, a, b) + c) * apart);
            }
        }
    }
    for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
        size_t used = s->v.n_group[p / 4] * s->h.n_group[p % 4] * s->channels;
        for (size_t k = s->first[p] + used; k < s->first[p + 1]; k++) {
            clear_row(s, v + k * apart);
        }
    }
}

static void pair_rows(size_t n_pairs, size_t n, const uint16_t *v, uint32_t *pairs)
{
    for (size_t k = 0; k < n_pairs; k++, v += 2 * n, pairs += n) {
        for (size_t j = 0; j < n; j += KERNEL_LANES) {
            __mmask16 mask = n - j < KERNEL_LANES ? (__mmask16)((1u << (n - j)) - 1) : 0xffff;
            __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, v + j));
            __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, v + n + j));
            _mm512_mask_storeu_epi32(pairs + j, mask,
                                     _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
        }
    }
}

/* --- weights --- */

/* What the weights of row k, of pieces `a` and `b`, are multiples of: the tap (i, j) with this
 * factor. */
VEC_INLINE float factor(const struct stem *s, size_t a, size_t b, size_t tap)
{
    return s->v.piece[a].tap[tap / s->h.kernel] * s->h.piece[b].tap[tap % s->h.kernel];
}

static v16 row_weights(const struct stem *s, const float *w, size_t a, size_t b)
{
    v16 sum = vec_set(0.0f);

    for (size_t tap = 0; tap < s->v.kernel * s->h.kernel; tap++) {
        float f = factor(s, a, b, tap);
        if (f != 0.0f) {
            sum += vec_set(f) * vec_load_f32(w + tap * s->channels * KERNEL_LANES, 16);
        }
    }
    return sum;
}

static void weights(const struct stem *s, const float *w, size_t step, uint32_t *u)
{
    v16 rows[STEM_MAX_ROWS];

    memset(rows, 0, s->first[WINOGRAD_POSITIONS] * sizeof *rows);
    for (size_t a = 0; a < s->v.n; a++) {
        for (size_t b = 0; b < s->h.n; b++) {
            for (size_t c = 0; c < s->channels; c++) {
                rows[row_of(s, a, b) + c] = row_weights(s, w + c * KERNEL_LANES, a, b);
            }
        }
    }
    for (size_t k = 0; k < s->first[WINOGRAD_POSITIONS]; k += 2, u += step) {
        vec_store_pairs(u, rows[k], rows[k + 1]);
    }
}

static void add_row_gradient(const struct stem *s, v16 m, size_t a, size_t b, float *dw)
{
    for (size_t tap = 0; tap < s->v.kernel * s->h.kernel; tap++) {
        float f = factor(s, a, b, tap), *to = dw + tap * s->channels * KERNEL_LANES;
        if (f != 0.0f) {
            vec_store_f32(to, vec_load_f32(to, 16) + vec_set(f) * m, 16);
        }
    }
}

static void weight_gradient(const struct stem *s, const float *m, size_t step, float *dw)
{
    memset(dw, 0, s->v.kernel * s->h.kernel * s->channels * KERNEL_LANES * sizeof *dw);
    for (size_t a = 0; a < s->v.n; a++) {
        for (size_t b = 0; b < s->h.n; b++) {
            for (size_t c = 0; c < s->channels; c++) {
                const float *row = m + (row_of(s, a, b) + c) * step;
                add_row_gradient(s, vec_load_f32(row, 16), a, b, dw + c * KERNEL_LANES);
            }
        }
    }
}

const struct stem_kernels stem_bf16 = {.windows = windows,
                                       .pair_rows = pair_rows,
                                       .weights = weights,
                                       .weight_gradient = weight_gradient};
