#include "nn/kernels/vec.h"
#include "nn/kernels/winograd.h"

extern const struct winograd_kernels winograd_bf16;

/* --- between values and positions --- */

VEC_INLINE v16 pixel(const struct plane *p, const uint16_t *x, ptrdiff_t i, ptrdiff_t j,
                     bool inside)
{
    if (!inside && (i < 0 || i >= (ptrdiff_t)p->h || j < 0 || j >= (ptrdiff_t)p->w)) {
        return vec_set(0.0f);
    }
    return vec_load_bf16(x + (size_t)i * p->row + (size_t)j * p->step, 16);
}

/* Column `j` of the windows that start in row `top`, transformed along the column. */
VEC_INLINE void window_column(const struct plane *p, const uint16_t *x, ptrdiff_t top, ptrdiff_t j,
                              bool inside, v16 out[4])
{
    v16 d0 = pixel(p, x, top, j, inside), d1 = pixel(p, x, top + 1, j, inside);
    v16 d2 = pixel(p, x, top + 2, j, inside), d3 = pixel(p, x, top + 3, j, inside);

    out[0] = d0 - d2;
    out[1] = d1 + d2;
    out[2] = d2 - d1;
    out[3] = d1 - d3;
}

/* Whether the window of tile `j`, of `columns` columns, lies inside of the plane. */
VEC_INLINE bool is_inside(const struct winograd_row *r, ptrdiff_t top, ptrdiff_t left,
                          ptrdiff_t columns)
{
    return top >= 0 && top + 4 <= (ptrdiff_t)r->plane.h && left >= 0 &&
           left + columns <= (ptrdiff_t)r->plane.w;
}

VEC_INLINE ptrdiff_t start_of(const struct winograd_row *r, size_t tile)
{
    return r->from + (ptrdiff_t)(WINOGRAD_TILE * tile);
}

static void windows(const struct winograd_row *r, const uint16_t *x, struct winograd_at at,
                    uint16_t *v)
{
    ptrdiff_t top = start_of(r, r->i);
    v16 c[4][4];

    window_column(&r->plane, x, top, r->from, false, c[0]);
    window_column(&r->plane, x, top, r->from + 1, false, c[1]);
    for (size_t t = 0; t < r->tiles; t++, v += at.step) {
        ptrdiff_t left = start_of(r, t);
        if (is_inside(r, top, left, 4)) {
            window_column(&r->plane, x, top, left + 2, true, c[2]);
            window_column(&r->plane, x, top, left + 3, true, c[3]);
        } else {
            window_column(&r->plane, x, top, left + 2, false, c[2]);
            window_column(&r->plane, x, top, left + 3, false, c[3]);
        }
        for (size_t k = 0; k < 4; k++) {
            uint16_t *to = v + 4 * k * at.apart;
            vec_store_bf16(to, c[0][k] - c[2][k], 16);
            vec_store_bf16(to + at.apart, c[1][k] + c[2][k], 16);
            vec_store_bf16(to + 2 * at.apart, c[2][k] - c[1][k], 16);
            vec_store_bf16(to + 3 * at.apart, c[1][k] - c[3][k], 16);
            c[0][k] = c[2][k];
            c[1][k] = c[3][k];
        }
    }
}

static void window_pairs(const struct winograd_row *r, const uint16_t *x, struct winograd_at at,
                         uint32_t *v)
{
    ptrdiff_t top = start_of(r, r->i);
    v16 c[6][4];

    window_column(&r->plane, x, top, r->from, false, c[0]);
    window_column(&r->plane, x, top, r->from + 1, false, c[1]);
    for (size_t t = 0; t < r->tiles; t += 2, v += at.step) {
        ptrdiff_t left = start_of(r, t);
        if (is_inside(r, top, left, 6)) {
            for (int k = 2; k < 6; k++) {
                window_column(&r->plane, x, top, left + k, true, c[k]);
            }
        } else {
            for (int k = 2; k < 6; k++) {
                window_column(&r->plane, x, top, left + k, false, c[k]);
            }
        }
        for (size_t k = 0; k < 4; k++) {
            uint32_t *to = v + 4 * k * at.apart;
            vec_store_pairs(to, c[0][k] - c[2][k], c[2][k] - c[4][k]);
            vec_store_pairs(to + at.apart, c[1][k] + c[2][k], c[3][k] + c[4][k]);
            vec_store_pairs(to + 2 * at.apart, c[2][k] - c[1][k], c[4][k] - c[3][k]);
            vec_store_pairs(to + 3 * at.apart, c[1][k] - c[3][k], c[3][k] - c[5][k]);
            c[0][k] = c[4][k];
            c[1][k] = c[5][k];
        }
    }
}

/* The four positions of two gradients. */
VEC_INLINE void spread(v16 y0, v16 y1, v16 out[4])
{
    out[0] = y0;
    out[1] = y0 + y1;
    out[2] = y0 - y1;
    out[3] = -y1;
}

/* The gradients of two tiles from row `top` and column `left` on, as pairs. */
VEC_INLINE void spread_tiles(const struct plane *p, const uint16_t *dy, ptrdiff_t top,
                             ptrdiff_t left, bool inside, size_t apart, uint32_t *d)
{
    v16 c[4][4];

    for (int k = 0; k < 4; k++) {
        spread(pixel(p, dy, top, left + k, inside), pixel(p, dy, top + 1, left + k, inside), c[k]);
    }
    for (size_t k = 0; k < 4; k++) {
        v16 first[4], second[4];
        spread(c[0][k], c[1][k], first);
        spread(c[2][k], c[3][k], second);
        for (size_t i = 0; i < 4; i++) {
            vec_store_pairs(d + (4 * k + i) * apart, first[i], second[i]);
        }
    }
}

static void tile_pairs(const struct winograd_row *r, const uint16_t *dy, struct winograd_at at,
                       uint32_t *d)
{
    ptrdiff_t top = start_of(r, r->i);

    for (size_t t = 0; t < r->tiles; t += 2, d += at.step) {
        ptrdiff_t left = start_of(r, t);
        if (top + WINOGRAD_TILE <= (ptrdiff_t)r->plane.h &&
            left + 2 * WINOGRAD_TILE <= (ptrdiff_t)r->plane.w) {
            spread_tiles(&r->plane, dy, top, left, true, at.apart, d);
        } else {
            spread_tiles(&r->plane, dy, top, left, false, at.apart, d);
        }
    }
}

VEC_INLINE void store_pixel(const struct winograd_row *r, uint16_t *y, ptrdiff_t i, ptrdiff_t j,
                            v16 v, bool relu)
{
    if (i < (ptrdiff_t)r->plane.h && j < (ptrdiff_t)r->plane.w) {
        vec_store_bf16(y + (size_t)i * r->plane.row + (size_t)j * r->plane.step,
                       relu ? vec_relu(v) : v, 16);
    }
}

static void tiles(const struct winograd_row *r, const float *m, struct winograd_at at, bool relu,
                  uint16_t *y)
{
    ptrdiff_t top = start_of(r, r->i);

    for (size_t t = 0; t < r->tiles; t++, m += at.step) {
        ptrdiff_t left = start_of(r, t);
        v16 rows[2][4];
        for (size_t k = 0; k < 4; k++) {
            v16 m0 = vec_load_f32(m + k * at.apart, 16);
            v16 m1 = vec_load_f32(m + (4 + k) * at.apart, 16);
            v16 m2 = vec_load_f32(m + (8 + k) * at.apart, 16);
            v16 m3 = vec_load_f32(m + (12 + k) * at.apart, 16);
            rows[0][k] = m0 + (m1 + m2);
            rows[1][k] = (m1 - m2) - m3;
        }
        for (ptrdiff_t i = 0; i < WINOGRAD_TILE; i++) {
            const v16 *w = rows[i];
            store_pixel(r, y, top + i, left, w[0] + (w[1] + w[2]), relu);
            store_pixel(r, y, top + i, left + 1, (w[1] - w[2]) - w[3], relu);
        }
    }
}

/* --- weights --- */

enum {
    BLOCK = KERNEL_LANES * KERNEL_LANES
};

/* Three weights to four positions. */
VEC_INLINE void expand(v16 g0, v16 g1, v16 g2, v16 out[4])
{
    v16 outer = (g0 + g2) * vec_set(0.5f), inner = g1 * vec_set(0.5f);

    out[0] = g0;
    out[1] = outer + inner;
    out[2] = outer - inner;
    out[3] = g2;
}

/* All positions of 16 kernels, w[3][3][16 i][...]. */
VEC_INLINE void expand_kernel(const float *w, v16 u[WINOGRAD_POSITIONS])
{
    v16 columns[3][4];

    for (size_t b = 0; b < 3; b++) {
        expand(vec_load_f32(w + b * BLOCK, 16), vec_load_f32(w + (3 + b) * BLOCK, 16),
               vec_load_f32(w + (6 + b) * BLOCK, 16), columns[b]);
    }
    for (size_t a = 0; a < 4; a++) {
        expand(columns[0][a], columns[1][a], columns[2][a], u + 4 * a);
    }
}

static void weights(const float *w, struct winograd_at at, uint32_t *u)
{
    for (size_t i = 0; i < KERNEL_LANES; i += 2, u += at.step) {
        v16 first[WINOGRAD_POSITIONS], second[WINOGRAD_POSITIONS];
        expand_kernel(w + i * KERNEL_LANES, first);
        expand_kernel(w + (i + 1) * KERNEL_LANES, second);
        for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
            vec_store_pairs(u + p * at.apart, first[p], second[p]);
        }
    }
}

/* Position (a, b) of the turned kernel: the outer ones change places. */
VEC_INLINE size_t turned(size_t p)
{
    static const size_t of[4] = {3, 1, 2, 0};

    return 4 * of[p / 4] + of[p % 4];
}

/* Eight lines of two rows of eight, rows r and r + 8, to eight columns of sixteen. */
VEC_INLINE void transpose(const __m512i in[8], __m512i out[8])
{
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    __m512i a[8], b[8];

    for (int k = 0; k < 8; k += 2) {
        a[k] = _mm512_unpacklo_epi32(in[k], in[k + 1]);
        a[k + 1] = _mm512_unpackhi_epi32(in[k], in[k + 1]);
    }
    for (int k = 0; k < 8; k += 4) {
        b[k] = _mm512_unpacklo_epi64(a[k], a[k + 2]);
        b[k + 1] = _mm512_unpackhi_epi64(a[k], a[k + 2]);
        b[k + 2] = _mm512_unpacklo_epi64(a[k + 1], a[k + 3]);
        b[k + 3] = _mm512_unpackhi_epi64(a[k + 1], a[k + 3]);
    }
    for (int k = 0; k < 4; k++) {
        out[k] = _mm512_permutex2var_epi64(b[k], even, b[k + 4]);
        out[k + 4] = _mm512_permutex2var_epi64(b[k], odd, b[k + 4]);
    }
}

static void turned_weights(const float *w, struct winograd_at at, uint32_t *u)
{
    __m512i lines[WINOGRAD_POSITIONS][KERNEL_LANES / 2]; /* pairs of o of kernels i and i + 8 */

    for (size_t i = 0; i < KERNEL_LANES / 2; i++) {
        v16 low[WINOGRAD_POSITIONS], high[WINOGRAD_POSITIONS];
        expand_kernel(w + i * KERNEL_LANES, low);
        expand_kernel(w + (i + KERNEL_LANES / 2) * KERNEL_LANES, high);
        for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
            lines[p][i] = (__m512i)_mm512_cvtne2ps_pbh((__m512)high[p], (__m512)low[p]);
        }
    }
    for (size_t p = 0; p < WINOGRAD_POSITIONS; p++) {
        uint32_t *to = u + turned(p) * at.apart;
        __m512i columns[KERNEL_LANES / 2];
        transpose(lines[p], columns);
        for (size_t o = 0; o < KERNEL_LANES / 2; o++) {
            _mm512_storeu_si512(to + o * at.step, columns[o]);
        }
    }
}

/* Four positions back to three weights. */
VEC_INLINE void contract(v16 m0, v16 m1, v16 m2, v16 m3, v16 out[3])
{
    v16 sum = (m1 + m2) * vec_set(0.5f);

    out[0] = m0 + sum;
    out[1] = (m1 - m2) * vec_set(0.5f);
    out[2] = sum + m3;
}

static void weight_gradient(const float *m, struct winograd_at at, float *dw)
{
    for (size_t i = 0; i < KERNEL_LANES; i++, m += at.step, dw += KERNEL_LANES) {
        v16 columns[4][3];
        for (size_t b = 0; b < 4; b++) {
            contract(vec_load_f32(m + b * at.apart, 16), vec_load_f32(m + (4 + b) * at.apart, 16),
                     vec_load_f32(m + (8 + b) * at.apart, 16),
                     vec_load_f32(m + (12 + b) * at.apart, 16), columns[b]);
        }
        for (size_t a = 0; a < 3; a++) {
            v16 out[3];
            contract(columns[0][a], columns[1][a], columns[2][a], columns[3][a], out);
            for (size_t b = 0; b < 3; b++) {
                vec_store_f32(dw + (3 * a + b) * BLOCK, out[b], 16);
            }
        }
    }
}

/* --- products --- */

/* `rows` rows and `vectors` vectors of the result, which stay in registers. */
VEC_INLINE void product_piece(const struct winograd_product *q, size_t first, size_t rows,
                              size_t vectors)
{
    const char *a = (const char *)q->a + first * q->a_row * sizeof(uint32_t);
    size_t a_row = q->a_row * sizeof(uint32_t), a_step = q->a_step * sizeof(uint32_t);
    const uint32_t *b = q->b;
    float *c = q->c + first * q->c_row;
    __m512 sum[14][2];

#pragma GCC unroll 14
    for (size_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = q->add ? _mm512_loadu_ps(c + r * q->c_row + 16 * v) : _mm512_setzero_ps();
        }
    }
    for (size_t k = 0; k < q->pairs; k++, a += a_step, b += q->b_step) {
        __m512bh in[2];
#pragma GCC unroll 2
        for (size_t v = 0; v < vectors; v++) {
            in[v] = (__m512bh)_mm512_loadu_si512(b + 16 * v);
        }
#pragma GCC unroll 14
        for (size_t r = 0; r < rows; r++) {
            int32_t one;
            memcpy(&one, a + r * a_row, sizeof one);
            __m512bh pair = (__m512bh)_mm512_set1_epi32(one);
#pragma GCC unroll 2
            for (size_t v = 0; v < vectors; v++) {
                sum[r][v] = _mm512_dpbf16_ps(sum[r][v], pair, in[v]);
            }
        }
    }
#pragma GCC unroll 14
    for (size_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (size_t v = 0; v < vectors; v++) {
            _mm512_storeu_ps(c + r * q->c_row + 16 * v, sum[r][v]);
        }
    }
}

/* All rows, 14, 8, 4 or 1 at once; few at once make each addition wait for the one before. */
VEC_INLINE void product_of(const struct winograd_product *q, size_t vectors)
{
    size_t r = 0;

    for (; r + 14 <= q->rows && q->rows - r != 16; r += 14) {
        product_piece(q, r, 14, vectors);
    }
    for (; r + 8 <= q->rows; r += 8) {
        product_piece(q, r, 8, vectors);
    }
    for (; r + 4 <= q->rows; r += 4) {
        product_piece(q, r, 4, vectors);
    }
    for (; r < q->rows; r++) {
        product_piece(q, r, 1, vectors);
    }
}

static void product(const struct winograd_product *q)
{
    if (q->lanes == WINOGRAD_LANES) {
        product_of(q, 2);
    } else {
        product_of(q, 1);
    }
}

const struct winograd_kernels winograd_bf16 = {.windows = windows,
                                               .window_pairs = window_pairs,
                                               .tile_pairs = tile_pairs,
                                               .tiles = tiles,
                                               .weights = weights,
                                               .turned_weights = turned_weights,
                                               .weight_gradient = weight_gradient,
                                               .product = product};
