#include "train/arena.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "train/digest.h"
#include "train/state.h"

/* --- devices */

/* Rank r works on device r, or in turn where several may share one. */
static enum status choose_devices(const struct trainer *t, int *devices)
{
    int n;

    TRY(t->device->count(&n));
    if (t->n_ranks > n && !t->cfg->device.oversubscribe) {
        return log_fail(ST_INPUT,
                        "there are %d devices of type %s and %d are wanted by [device] count, use "
                        "fewer or let them share with [device] oversubscribe = yes",
                        n, t->device->type, t->n_ranks);
    }
    for (int r = 0; r < t->n_ranks; r++) {
        devices[r] = r % n;
    }
    return ST_OK;
}

static enum status open_places(struct trainer *t, const int *devices)
{
    for (int r = 0; r < t->n_ranks; r++) {
        struct device_place *p = &t->places[r];
        *p =
            (struct device_place){.ops = t->device, .set = t->set, .rank = r, .device = devices[r]};
        TRY(t->device->stream_create(t->set, r, &p->stream));
    }
    return ST_OK;
}

enum status arena_open(struct trainer *t)
{
    int *devices;
    enum status st;

    if (!t->on_device) {
        return ST_OK;
    }
    devices = mem_alloc((size_t)t->n_ranks, sizeof *devices);
    t->places = mem_alloc((size_t)t->n_ranks, sizeof *t->places);
    st = devices != NULL && t->places != NULL ? choose_devices(t, devices) : ST_NOMEM;
    st = st == ST_OK ? t->device->open(devices, t->n_ranks, &t->set) : st;
    st = st == ST_OK ? open_places(t, devices) : st;
    mem_free(devices);
    return st;
}

void arena_close(struct trainer *t)
{
    for (int r = 0; t->set != NULL && r < t->n_ranks; r++) {
        t->device->stream_destroy(t->set, t->places[r].stream);
    }
    if (t->set != NULL) {
        t->device->close(t->set);
    }
    mem_free(t->places);
}

void arena_finish_all(struct trainer *t)
{
    for (int r = 0; t->set != NULL && r < t->n_ranks; r++) {
        if (t->places[r].stream != NULL) {
            (void)!t->device->stream_sync(t->set, t->places[r].stream); /* on the way out */
        }
    }
}

/* --- memory */

enum status arena_alloc(struct rank *r, size_t n, float **out)
{
    const struct device_place *p = r->place;
    void *memory = NULL;

    if (p != NULL) {
        TRY(p->ops->alloc(p->set, p->rank, n * sizeof **out, &memory));
        *out = memory;
        return ST_OK;
    }
    *out = mem_alloc(n, sizeof **out);
    return *out == NULL ? ST_NOMEM : ST_OK;
}

void arena_release(struct rank *r, float *memory)
{
    const struct device_place *p = r->place;

    if (p != NULL) {
        p->ops->release(p->set, p->rank, memory);
    } else {
        mem_free(memory);
    }
}

enum status arena_alloc_host(struct rank *r, size_t n, float **out)
{
    const struct device_place *p = r->place;
    void *memory = NULL;

    if (p == NULL) {
        return arena_alloc(r, n, out);
    }
    TRY(p->ops->alloc_host(p->set, n * sizeof **out, &memory));
    *out = memory;
    return ST_OK;
}

void arena_release_host(struct rank *r, float *memory)
{
    const struct device_place *p = r->place;

    if (p != NULL) {
        p->ops->release_host(p->set, memory);
    } else {
        mem_free(memory);
    }
}

/* --- work */

enum status arena_finish(struct rank *r)
{
    const struct device_place *p = r->place;

    return p != NULL ? p->ops->stream_sync(p->set, p->stream) : ST_OK;
}

enum status arena_copy(struct rank *r, float *to, const float *from, size_t n)
{
    const struct device_place *p = r->place;

    if (p != NULL) {
        return p->ops->copy(p->set, p->stream, to, from, n * sizeof *to);
    }
    memcpy(to, from, n * sizeof *to);
    return ST_OK;
}

enum status arena_put(struct rank *r, float *to, const float *host, size_t n)
{
    TRY(arena_copy(r, to, host, n));
    return arena_finish(r);
}

enum status arena_get(struct rank *r, float *host, const float *from, size_t n)
{
    TRY(arena_copy(r, host, from, n));
    return arena_finish(r);
}

enum status arena_digest(struct rank *r, const float *p, size_t n, uint64_t *out)
{
    float *copy;
    enum status st;

    if (r->place == NULL) {
        *out = digest_floats(DIGEST_EMPTY, p, n);
        return ST_OK;
    }
    copy = mem_alloc(n, sizeof *copy);
    st = copy != NULL ? arena_get(r, copy, p, n) : ST_NOMEM;
    if (st == ST_OK) {
        *out = digest_floats(DIGEST_EMPTY, copy, n);
    }
    mem_free(copy);
    return st;
}

enum status arena_add(struct rank *r, float *to, const float *from, size_t n)
{
    const struct device_place *p = r->place;
    struct device_fold sum = {.dtype = DEVICE_F32,
                              .redop = DEVICE_SUM,
                              .src = {to, from},
                              .dst = {to},
                              .n_src = 2,
                              .n_dst = 1,
                              .n = n};

    if (p != NULL) {
        return p->ops->fold(p->set, p->stream, &sum);
    }
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
    return ST_OK;
}

enum status arena_clear(struct rank *r, float *memory, size_t n)
{
    const struct device_place *p = r->place;

    if (p != NULL) {
        return p->ops->clear(p->set, p->stream, memory, n * sizeof *memory);
    }
    memset(memory, 0, n * sizeof *memory);
    return ST_OK;
}

static bool is_finite_here(const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) {
            return false;
        }
    }
    return true;
}

enum status arena_is_finite(struct rank *r, const float *v, size_t n, bool *out)
{
    const struct device_place *p = r->place;
    uint32_t *flag = r->ranges.flag;
    struct device_finite f = {.x = v, .n = n, .flag = flag};

    if (p == NULL) {
        *out = is_finite_here(v, n);
        return ST_OK;
    }
    *flag = 0; /* nothing on the stream uses it: the last call has waited */
    TRY(p->ops->finite(p->set, p->stream, &f));
    TRY(arena_finish(r));
    *out = *flag == 0;
    return ST_OK;
}

/* --- update */

/* The parts of the trainer's ranges that lie in bucket `b`. */
static size_t cut_ranges(const struct trainer *t, size_t b, struct device_range *out)
{
    const size_t from = t->buckets[b].offset, to = from + t->buckets[b].n;
    size_t n = 0;

    for (size_t i = 0; i < t->n_ranges; i++) {
        const struct sgd_range *s = &t->ranges[i];
        size_t first = s->offset > from ? s->offset : from;
        size_t end = s->offset + s->n < to ? s->offset + s->n : to;
        if (first < end) {
            out[n++] = (struct device_range){.offset = first,
                                             .n = end - first,
                                             .weight_decay =
                                                 s->decay ? (float)t->cfg->optim.weight_decay : 0};
        }
    }
    return n;
}

static enum status send_ranges(struct rank *r, const struct device_range *host, size_t n)
{
    const struct device_place *p = r->place;

    TRY(p->ops->alloc(p->set, p->rank, n * sizeof *host, &r->ranges.all));
    TRY(p->ops->copy(p->set, p->stream, r->ranges.all, host, n * sizeof *host));
    return arena_finish(r);
}

enum status arena_ranges_init(struct rank *r)
{
    const struct trainer *t = r->t;
    struct arena_ranges *a = &r->ranges;
    struct device_range *host;
    void *flag = NULL, *skip = NULL;
    enum status st;

    if (r->place == NULL) {
        return ST_OK;
    }
    TRY(r->place->ops->alloc_host(r->place->set, sizeof *a->flag, &flag));
    a->flag = flag;
    TRY(r->place->ops->alloc(r->place->set, r->index, sizeof *a->skip, &skip));
    a->skip = skip;
    a->first = mem_alloc(t->n_buckets + 1, sizeof *a->first);
    a->n_tiles = mem_alloc(t->n_buckets, sizeof *a->n_tiles);
    host = mem_alloc(t->n_buckets + t->n_ranges, sizeof *host); /* a cut makes one more of one */
    if (a->first == NULL || a->n_tiles == NULL || host == NULL) {
        mem_free(host);
        return ST_NOMEM;
    }
    for (size_t b = 0; b < t->n_buckets; b++) {
        struct device_range *ranges = host + a->first[b];
        size_t n = cut_ranges(t, b, ranges);
        a->n_tiles[b] = device_tile(ranges, n);
        a->first[b + 1] = a->first[b] + n;
    }
    st = send_ranges(r, host, a->first[t->n_buckets]);
    mem_free(host);
    return st;
}

void arena_ranges_fini(struct rank *r)
{
    struct arena_ranges *a = &r->ranges;

    if (r->place != NULL) {
        r->place->ops->release(r->place->set, r->place->rank, a->all);
        r->place->ops->release_host(r->place->set, a->flag);
        r->place->ops->release(r->place->set, r->place->rank, a->skip);
    }
    mem_free(a->first);
    mem_free(a->n_tiles);
    *a = (struct arena_ranges){0};
}

/* --- votes: two of each rank, for a step and the next one */

enum status arena_votes_init(struct trainer *t)
{
    void *votes = NULL;

    t->late = t->on_device && t->on_nan != ON_NAN_SKIP && !loss_scale_make(t->cfg).on &&
              t->cfg->debug.verify_every == 0;
    if (t->late) {
        TRY(t->device->alloc_host(t->set, 2 * (size_t)t->n_ranks * sizeof *t->votes, &votes));
    }
    t->votes = votes;
    return ST_OK;
}

void arena_votes_fini(struct trainer *t)
{
    if (t->votes != NULL) {
        t->device->release_host(t->set, t->votes);
    }
}

enum status arena_vote(struct rank *r, uint64_t step, const double *loss, bool anew)
{
    const struct device_place *p = r->place;
    struct device_vote v = {.loss = loss, .keep = !anew};

    if (r->t->votes == NULL || r->t->on_nan == ON_NAN_IGNORE) {
        return ST_OK;
    }
    v.out = &r->t->votes[step % 2 * (size_t)r->t->n_ranks + (size_t)r->index];
    return p->ops->vote(p->set, p->stream, &v);
}

enum status arena_count_votes(struct rank *r, uint64_t step)
{
    const struct device_place *p = r->place;
    const size_t n = (size_t)r->t->n_ranks;
    struct device_vote v = {.n = n, .out = r->ranges.skip, .keep = true};

    if (r->t->votes == NULL || r->t->on_nan == ON_NAN_IGNORE) {
        return ST_OK;
    }
    v.votes = &r->t->votes[step % 2 * n];
    return p->ops->vote(p->set, p->stream, &v);
}

enum status arena_update(struct rank *r, size_t b, const struct sgd_step *sgd)
{
    const struct device_place *p = r->place;
    const struct arena_ranges *a = &r->ranges;
    struct device_sgd s = {.w = r->weights,
                           .v = r->momentum,
                           .g = r->sums,
                           .ranges = (const struct device_range *)a->all + a->first[b],
                           .n_ranges = a->first[b + 1] - a->first[b],
                           .n_tiles = a->n_tiles[b],
                           .lr = sgd->lr,
                           .momentum = sgd->momentum,
                           .unscale = sgd->unscale,
                           .nesterov = sgd->nesterov,
                           .skip = r->t->votes != NULL ? a->skip : NULL};

    return p->ops->sgd(p->set, p->stream, &s);
}
