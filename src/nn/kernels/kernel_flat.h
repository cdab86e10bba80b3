/*
 * Flat loops of one instruction set and element type; included by kernel_body.h. A last partial
 * vector is loaded with zeros behind the end.
 */

#define FLAT_LOOP(n, body)                                                                         \
    do {                                                                                           \
        size_t i = 0;                                                                              \
        for (; i + 16 <= (n); i += 16) {                                                           \
            const int lanes = 16;                                                                  \
            body                                                                                   \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            const int lanes = (int)((n)-i);                                                        \
            body                                                                                   \
        }                                                                                          \
    } while (0)

static void flat_add(size_t n, const void *va, const void *vb, void *vy, bool relu)
{
    const T *a = va, *b = vb;
    T *y = vy;

    if (relu) {
        FLAT_LOOP(n, STORE(y + i, vec_relu(LOAD(a + i, lanes) + LOAD(b + i, lanes)), lanes););
    } else {
        FLAT_LOOP(n, STORE(y + i, LOAD(a + i, lanes) + LOAD(b + i, lanes), lanes););
    }
}

static void flat_relu(size_t n, const void *vx, void *vy)
{
    const T *x = vx;
    T *y = vy;

    FLAT_LOOP(n, STORE(y + i, vec_relu(LOAD(x + i, lanes)), lanes););
}

static void flat_gradient(size_t n, const void *vy, const void *va, const void *vb, void *vg)
{
    const T *y = vy, *a = va, *b = vb;
    T *g = vg;

    if (y != NULL && b != NULL) {
        FLAT_LOOP(n, STORE(g + i,
                           vec_where_positive(LOAD(y + i, lanes),
                                              LOAD(a + i, lanes) + LOAD(b + i, lanes)),
                           lanes););
    } else if (y != NULL) {
        FLAT_LOOP(n,
                  STORE(g + i, vec_where_positive(LOAD(y + i, lanes), LOAD(a + i, lanes)), lanes););
    } else if (b != NULL) {
        flat_add(n, a, b, g, false);
    } else if (g != a) {
        memcpy(g, a, n * sizeof *g);
    }
}

static void flat_dropout(size_t n, const void *vx, const uint8_t *keep, float scale, void *vy)
{
    const T *x = vx;
    T *y = vy;
    const v16 s = vec_set(scale);

    FLAT_LOOP(n,
              STORE(y + i,
                    vec_where_number(vec_load_numbers(keep + i, lanes), 1, LOAD(x + i, lanes) * s),
                    lanes););
}

static void flat_widen(size_t n, const void *vx, float *y)
{
    const T *x = vx;

    FLAT_LOOP(n, vec_store_f32(y + i, LOAD(x + i, lanes), lanes););
}

static void flat_narrow(size_t n, const float *x, void *vy)
{
    T *y = vy;

    FLAT_LOOP(n, STORE(y + i, vec_load_f32(x + i, lanes), lanes););
}

static void flat_bias_rows(size_t n, size_t u, const float *b, bool relu, float *y)
{
    for (size_t r = 0; r < n; r++, y += u) {
        FLAT_LOOP(u, v16 v = vec_load_f32(y + i, lanes);
                  v = b == NULL ? v : v + vec_load_f32(b + i, lanes);
                  vec_store_f32(y + i, relu ? vec_relu(v) : v, lanes););
    }
}

static void flat_sum_rows(size_t n, size_t u, const float *dy, float *db)
{
    memset(db, 0, u * sizeof *db);
    for (size_t r = 0; r < n; r++, dy += u) {
        FLAT_LOOP(u,
                  vec_store_f32(db + i, vec_load_f32(db + i, lanes) + vec_load_f32(dy + i, lanes),
                                lanes););
    }
}
