/* Buckets from their posts to the updates of their weights, and the time that they take. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "train/state.h"

enum {
    CUT_ELEMENTS = 16, /* the ranks' parts of a bucket begin on cache lines */
    MORE_WAITS = 16,   /* meetings */
    ROOT = 0
};

enum status due_init(struct rank *r)
{
    const size_t n = r->t->n_buckets;
    struct due *d = &r->due;

    d->n_times = r->t->rooted ? 2 * n : n;
    d->max_waits = d->n_times + MORE_WAITS;
    d->open = mem_alloc(n, sizeof *d->open);
    d->reduced = mem_alloc(n, sizeof *d->reduced);
    d->times = mem_alloc(d->n_times, sizeof *d->times);
    d->waits = mem_alloc(d->max_waits, sizeof *d->waits);
    d->order = mem_alloc(d->n_times, sizeof *d->order);
    d->staged = mem_alloc(n, sizeof *d->staged);
    r->buckets = mem_alloc(n, sizeof *r->buckets);
    return d->open != NULL && d->reduced != NULL && d->times != NULL && d->waits != NULL &&
                   d->order != NULL && d->staged != NULL && r->buckets != NULL
               ? ST_OK
               : ST_NOMEM;
}

void due_fini(struct rank *r)
{
    mem_free(r->due.open);
    mem_free(r->due.reduced);
    mem_free(r->due.times);
    mem_free(r->due.waits);
    mem_free(r->due.order);
    mem_free(r->due.staged);
    mem_free(r->buckets);
    r->due = (struct due){.open = NULL};
    r->buckets = NULL;
}

bool rank_abort(struct rank *r)
{
    const struct trainer *t = r->t;
    bool first = true;

    if (t->comm != NULL) {
        first = comm_abort(t->comm, r->index, ST_PEER);
    }
    if (t->sharing != NULL) {
        first = comm_abort(t->sharing, r->index, ST_PEER) && first;
    }
    return first;
}

void rank_fail(struct rank *r, enum status st)
{
    if (st != ST_OK && r->status == ST_OK) {
        r->status = st;
        (void)rank_abort(r);
    }
}

void due_begin(struct rank *r, uint64_t step, const struct sgd_step *sgd)
{
    struct due *d = &r->due;

    for (size_t b = 0; b < r->t->n_buckets; b++) {
        d->open[b] = true;
        d->reduced[b] = false;
    }
    d->n_open = r->t->n_buckets;
    d->sgd = *sgd;
    d->step = step;
    d->voted = false;
    d->n_waits = 0;
}

/* --- time */

static void add_wait(struct rank *r, double from_s, double to_s)
{
    struct due *d = &r->due;

    r->times->exposed_s += to_s - from_s;
    if (d->n_waits < d->max_waits) {
        d->waits[d->n_waits++] = (struct span){from_s, to_s};
    }
}

/* While a thread waits its device goes on, whose waits are counted when they are known. */
void due_waited(struct rank *r, double from_s)
{
    if (r->place == NULL) {
        add_wait(r, from_s, clock_now_s());
    }
}

static double overlap(double from, double to, struct span w)
{
    const double a = from > w.from_s ? from : w.from_s, b = to < w.to_s ? to : w.to_s;

    return b > a ? b - a : 0;
}

/* The part of [from, to] in which the rank did not wait. */
static double hidden_in(const struct due *d, double from, double to)
{
    double sum = to > from ? to - from : 0;

    for (size_t i = 0; i < d->n_waits; i++) {
        sum -= overlap(from, to, d->waits[i]);
    }
    return sum > 0 ? sum : 0;
}

static void order_by_start(struct due *d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = i;
        for (; k > 0 && d->times[d->order[k - 1]].started_s > d->times[i].started_s; k--) {
            d->order[k] = d->order[k - 1];
        }
        d->order[k] = i;
    }
}

/* All buckets are in. Where several were on their way at a time, it counts once in the step's
 * total. */
static void account(struct rank *r)
{
    struct due *d = &r->due;
    double covered = d->since_s;

    order_by_start(d, d->n_times);
    for (size_t i = 0; i < d->n_times; i++) {
        const size_t b = d->order[i] % r->t->n_buckets;
        const struct comm_times c = d->times[d->order[i]];
        const double from_s = c.started_s > d->since_s ? c.started_s : d->since_s;
        d->staged[b].in_flight_s += c.done_s > from_s ? c.done_s - from_s : 0;
        if (!r->t->cfg->comm.overlap) {
            continue; /* the rank has nothing else to do */
        }
        d->staged[b].hidden_s += hidden_in(d, from_s, c.done_s);
        r->times->hidden_s += hidden_in(d, c.started_s > covered ? c.started_s : covered, c.done_s);
        covered = c.done_s > covered ? c.done_s : covered;
    }
}

/* --- the times of devices */

static const struct comm *comm_of(const struct trainer *t, size_t slot)
{
    return slot < t->n_buckets ? t->comm : t->sharing;
}

/* Of the first step that is not counted yet; false if the device is not through with it. */
static bool learn_times(struct rank *r)
{
    struct due *d = &r->due;
    const size_t n = r->t->n_buckets;

    for (size_t slot = 0; slot < d->n_times; slot++) {
        if (!comm_device_times(comm_of(r->t, slot), r->index, slot % n, d->n_counted,
                               &d->times[slot])) {
            return false;
        }
    }
    return true;
}

static void trace_device(const struct rank *r, size_t slot, const struct comm_times *c)
{
    const size_t n = r->t->n_buckets;

    trace_add(r->t->trace, r->index, slot < n ? TRACE_BUCKET : TRACE_SHARE, slot % n, c->posted_s,
              c->done_s);
    if (c->done_s > c->waited_s) {
        trace_add(r->t->trace, r->index, TRACE_WAIT, slot % n, c->waited_s, c->done_s);
    }
}

void due_count(struct rank *r)
{
    struct due *d = &r->due;

    for (; d->n_counted < d->n_closed && learn_times(r); d->n_counted++) {
        d->n_waits = 0;
        for (size_t slot = 0; slot < d->n_times; slot++) {
            const struct comm_times *c = &d->times[slot];
            if (c->done_s > c->waited_s) {
                d->staged[slot % r->t->n_buckets].exposed_s += c->done_s - c->waited_s;
                add_wait(r, c->waited_s, c->done_s);
            }
            if (r->traced) {
                trace_device(r, slot, c);
            }
        }
        account(r);
    }
}

void due_commit(struct rank *r, bool timed)
{
    for (size_t b = 0; b < r->t->n_buckets; b++) {
        struct bucket_times *from = &r->due.staged[b], *to = &r->buckets[b];
        if (timed) {
            to->in_flight_s += from->in_flight_s;
            to->hidden_s += from->hidden_s;
            to->exposed_s += from->exposed_s;
        }
        *from = (struct bucket_times){0, 0, 0};
    }
}

/* --- work */

void due_update(struct rank *r, size_t b, const struct sgd_step *sgd)
{
    const struct trainer *t = r->t;
    size_t first = t->buckets[b].offset, end = first + t->buckets[b].n;
    const double from_s = r->traced ? clock_now_s() : 0;

    if (t->shared) { /* this rank's part of it */
        size_t blocks = (t->buckets[b].n + CUT_ELEMENTS - 1) / CUT_ELEMENTS;
        size_t from = blocks * (size_t)r->index / (size_t)t->n_ranks * CUT_ELEMENTS;
        size_t to = blocks * ((size_t)r->index + 1) / (size_t)t->n_ranks * CUT_ELEMENTS;
        end = first + to < end ? first + to : end;
        first += from;
    }
    if (r->place != NULL) {
        if (!r->due.voted) { /* a sum is in */
            rank_fail(r, arena_count_votes(r, r->due.step));
            r->due.voted = true;
        }
        rank_fail(r, arena_update(r, b, sgd));
    } else if (first < end) {
        sgd_update_ranges(sgd, t->ranges, t->n_ranges, first, end - first, r->weights, r->momentum,
                          r->sums);
    }
    if (r->traced) {
        trace_add(t->trace, r->index, TRACE_UPDATE, b, from_s, clock_now_s());
    }
}

static void close_bucket(struct rank *r, size_t b)
{
    struct due *d = &r->due;

    d->open[b] = false;
    d->n_open--;
    if (d->n_open > 0) {
        return;
    }
    if (r->place == NULL) {
        account(r);
    } else {
        d->n_closed++;
        due_count(r);
    }
}

/* `slot`: of the times. */
static enum status wait_for(struct rank *r, struct comm *c, size_t b, size_t slot)
{
    struct due *d = &r->due;
    const double from_s = clock_now_s();
    const enum status st = comm_wait(c, r->index, b);

    due_waited(r, from_s);
    if (st != ST_OK) {
        d->n_open = 0; /* no other will come either */
        rank_fail(r, st);
        return st;
    }
    if (r->place != NULL) {
        return ST_OK;
    }
    d->staged[b].exposed_s += clock_now_s() - from_s;
    d->times[slot] = comm_last_times(c, r->index, b);
    if (r->traced) {
        trace_add(r->t->trace, r->index, TRACE_WAIT, b, from_s, clock_now_s());
        trace_add(r->t->trace, r->index, c == r->t->sharing ? TRACE_SHARE : TRACE_BUCKET, b,
                  d->times[slot].posted_s, d->times[slot].done_s);
    }
    return ST_OK;
}

static enum status reduce_one(struct rank *r, size_t b)
{
    if (!r->due.reduced[b]) {
        TRY(wait_for(r, r->t->comm, b, b));
        r->due.reduced[b] = true;
    }
    return ST_OK;
}

void due_take(struct rank *r, size_t b, bool update)
{
    struct trainer *t = r->t;
    struct due *d = &r->due;

    if (d->n_open == 0 || !d->open[b] || reduce_one(r, b) != ST_OK) {
        return;
    }
    if (t->rooted && wait_for(r, t->sharing, b, t->n_buckets + b) != ST_OK) {
        return;
    }
    if (!t->rooted && update && d->update) {
        due_update(r, b, &d->sgd);
    }
    close_bucket(r, b);
}

void due_take_all(struct rank *r, bool update)
{
    for (size_t b = 0; b < r->t->n_buckets; b++) {
        due_take(r, b, update);
    }
}

void due_reduce(struct rank *r)
{
    for (size_t b = 0; b < r->t->n_buckets && r->status == ST_OK; b++) {
        (void)reduce_one(r, b); /* the error is in the rank */
    }
}

/* The last buckets hold the first layers. */
static size_t in_service(const struct trainer *t, size_t k)
{
    return strcmp(t->cfg->comm.order, "priority") == 0 ? t->n_buckets - 1 - k : k;
}

void due_share(struct rank *r)
{
    struct trainer *t = r->t;

    for (size_t k = 0; k < t->n_buckets && r->status == ST_OK; k++) {
        const size_t b = in_service(t, k);
        if (r->index == ROOT && reduce_one(r, b) != ST_OK) {
            return;
        }
        if (r->index == ROOT && r->due.update) {
            due_update(r, b, &r->due.sgd);
        }
        rank_fail(r, comm_post(t->sharing, r->index, b));
    }
}
