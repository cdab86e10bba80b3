#include "comm/wire.h"

#include <string.h>

#include "base/mem.h"
#include "comm/dtype.h"

enum dtype wire_dtype(const struct comm_args *a)
{
    return a->kind != COMM_BROADCAST && strcmp(a->cfg->wire, "bf16") == 0 ? DTYPE_BF16 : DTYPE_F32;
}

static enum status take(const struct wire *w, int rank, size_t bytes, void **out)
{
    if (w->places != NULL) {
        return w->places[rank].ops->alloc(w->places[rank].set, rank, bytes, out);
    }
    *out = mem_alloc(bytes, 1);
    return *out != NULL ? ST_OK : ST_NOMEM;
}

enum status wire_init(struct wire *w, const struct comm_args *a)
{
    size_t n = 0;

    *w = (struct wire){.places = a->places,
                       .buckets = a->buckets,
                       .arenas = a->arenas,
                       .root = a->kind == COMM_REDUCE ? a->root : -1};
    if (wire_dtype(a) == DTYPE_F32) {
        return ST_OK;
    }
    for (size_t b = 0; b < a->n_buckets; b++) {
        size_t end = a->buckets[b].offset + a->buckets[b].n;
        n = end > n ? end : n;
    }
    w->halves = mem_alloc((size_t)a->n_ranks, sizeof *w->halves);
    if (w->halves == NULL) {
        return ST_NOMEM;
    }
    for (; w->n_ranks < a->n_ranks; w->n_ranks++) {
        void *halves = NULL;
        TRY(take(w, w->n_ranks, n * sizeof **w->halves, &halves));
        w->halves[w->n_ranks] = halves;
    }
    return ST_OK;
}

void wire_fini(struct wire *w)
{
    for (int r = 0; r < w->n_ranks; r++) {
        if (w->places != NULL) {
            w->places[r].ops->release(w->places[r].set, r, w->halves[r]);
        } else {
            mem_free(w->halves[r]);
        }
    }
    mem_free(w->halves);
}

void *wire_bucket(const struct wire *w, int rank, size_t b)
{
    return w->halves == NULL ? (void *)(w->arenas[rank] + w->buckets[b].offset)
                             : (void *)(w->halves[rank] + w->buckets[b].offset);
}

/* On the host, in the calling thread. */
static enum status convert(const struct wire *w, int rank, size_t b, bool widen)
{
    const struct device_place here = {.ops = &device_cpu};
    const struct device_place *p = w->places != NULL ? &w->places[rank] : &here;
    void *whole = w->arenas[rank] + w->buckets[b].offset, *halves;
    struct device_convert c = {.n = w->buckets[b].n, .half = DEVICE_BF16, .widen = widen};

    if (w->halves == NULL) {
        return ST_OK;
    }
    halves = w->halves[rank] + w->buckets[b].offset;
    c.src = widen ? halves : whole;
    c.dst = widen ? whole : halves;
    return p->ops->convert(p->set, p->stream, &c);
}

enum status wire_narrow(const struct wire *w, int rank, size_t b)
{
    return convert(w, rank, b, false);
}

enum status wire_widen(const struct wire *w, int rank, size_t b)
{
    return w->root < 0 || w->root == rank ? convert(w, rank, b, true) : ST_OK;
}
