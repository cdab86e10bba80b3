#include "comm/link_rates.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/route.h"

enum {
    REPEATS = 5,
    COPIES = 16 /* in a repeat */
};

/* --- Measuring --- */

struct probe {
    const struct device_ops *ops;
    void *set;
    size_t bytes;
    void **buffers; /* [n] */
    void **streams; /* [n] */
    int n;
};

static void probe_fini(struct probe *p)
{
    for (int r = 0; r < p->n && p->buffers != NULL && p->streams != NULL; r++) {
        p->ops->stream_destroy(p->set, p->streams[r]);
        p->ops->release(p->set, r, p->buffers[r]);
    }
    mem_free(p->streams);
    mem_free(p->buffers);
}

static enum status probe_init(struct probe *p)
{
    p->buffers = mem_alloc((size_t)p->n, sizeof(void *));
    p->streams = mem_alloc((size_t)p->n, sizeof(void *));
    if (p->buffers == NULL || p->streams == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < p->n; r++) {
        TRY(p->ops->alloc(p->set, r, p->bytes, &p->buffers[r]));
        TRY(p->ops->stream_create(p->set, r, &p->streams[r]));
    }
    return ST_OK;
}

static enum status copy(const struct probe *p, int from, int to, int times)
{
    for (int k = 0; k < times; k++) {
        TRY(p->ops->copy(p->set, p->streams[from], p->buffers[to], p->buffers[from], p->bytes));
    }
    return p->ops->stream_sync(p->set, p->streams[from]);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static enum status measure_pair(const struct probe *p, int from, int to, double *rate)
{
    double s[REPEATS];

    TRY(copy(p, from, to, 1)); /* the first one may set things up */
    for (int k = 0; k < REPEATS; k++) {
        double begin = clock_now_s();
        TRY(copy(p, from, to, COPIES));
        s[k] = clock_now_s() - begin;
    }
    qsort(s, REPEATS, sizeof *s, by_size);
    *rate = COPIES * (double)p->bytes / s[REPEATS / 2];
    return ST_OK;
}

enum status link_rates_measure(const struct device_ops *ops, void *set, int n, size_t bytes,
                               double *rates)
{
    struct probe p = {.ops = ops, .set = set, .bytes = bytes, .n = n};
    enum status st = probe_init(&p);

    for (int i = 0; st == ST_OK && i < n * n; i++) {
        rates[i] = 0;
        if (i / n != i % n) {
            st = measure_pair(&p, i / n, i % n, &rates[i]);
        }
    }
    probe_fini(&p);
    return st;
}

/* --- Applying --- */

/* The links of the path carried `rate`. */
static void raise(double *reached, const struct path *path, double rate)
{
    for (int k = 0; k < path->n; k++) {
        reached[path->links[k]] = fmax(reached[path->links[k]], rate);
    }
}

enum status link_rates_apply(struct topo *t, const double *rates)
{
    const int n = t->n_devices;
    double *reached = mem_alloc((size_t)t->n_links, sizeof *reached);
    enum status st = reached == NULL ? ST_NOMEM : ST_OK;

    for (int i = 0; st == ST_OK && i < n * n; i++) {
        if (rates[i] > 0) {
            struct path path;
            bool found;
            st = route_find(t, t->devices[i / n], t->devices[i % n], &path, &found);
            if (st == ST_OK && found) {
                raise(reached, &path, rates[i]);
                mem_free(path.links);
            }
        }
    }
    for (int l = 0; st == ST_OK && l < t->n_links; l++) {
        int64_t rate = (int64_t)(reached[l] / 1e6) * 1000000;
        if (rate > 0) {
            t->links[l].effective_bytes_per_s = rate;
            t->links[l].bytes_per_s =
                rate > t->links[l].bytes_per_s ? rate : t->links[l].bytes_per_s;
        }
    }
    mem_free(reached);
    return st;
}
