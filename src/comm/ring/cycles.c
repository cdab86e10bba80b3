#include "comm/ring/cycles.h"

#include <string.h>

#include "base/mem.h"
#include "comm/ring/pack_cycles.h"
#include "comm/route.h"

enum {
    EXACT_DEVICES = 16, /* up to so many, the largest number of cycles is sought */
    WORTH = 2 /* a cycle that carries less than such a part of the first one only adds latency */
};

static void cycle_fini(struct cycle *c, int n)
{
    for (int k = 0; c->hops != NULL && k < n; k++) {
        mem_free(c->hops[k].links);
    }
    mem_free(c->hops);
    mem_free(c->order);
    *c = (struct cycle){0};
}

void cycles_fini(struct cycles *c)
{
    for (int i = 0; i < MAX_CYCLES; i++) {
        cycle_fini(&c->cycles[i], c->n_devices);
    }
    c->n = 0;
}

static enum status cycle_init(struct cycle *c, int n)
{
    c->order = mem_alloc((size_t)n, sizeof *c->order);
    c->hops = mem_alloc((size_t)n, sizeof *c->hops);
    return c->order == NULL || c->hops == NULL ? ST_NOMEM : ST_OK;
}

/* Find the hops of the cycle's order, and how much their links have left. */
static enum status walk(const struct topo *left, struct cycle *c)
{
    int n = left->n_devices;
    bool found;

    c->width = n > 1 ? INT64_MAX : 1;
    for (int k = 0; n > 1 && k < n; k++) {
        int from = left->devices[c->order[k]], to = left->devices[c->order[(k + 1) % n]];
        TRY(route_find(left, from, to, &c->hops[k], &found));
        if (!found) { /* its links are used up */
            c->width = 0;
            return ST_OK;
        }
        for (int i = 0; i < c->hops[k].n; i++) {
            int64_t capacity = left->links[c->hops[k].links[i]].bytes_per_s;
            c->width = capacity < c->width ? capacity : c->width;
        }
    }
    return ST_OK;
}

/* Hops may share a link: then each gets its part. */
static void share_links(const struct topo *left, struct cycle *c)
{
    int n = left->n_devices;

    for (int l = 0; n > 1 && l < left->n_links; l++) {
        int crossings = 0;
        for (int k = 0; k < n; k++) {
            for (int i = 0; i < c->hops[k].n; i++) {
                crossings += c->hops[k].links[i] == l;
            }
        }
        if (crossings > 0 && left->links[l].bytes_per_s / crossings < c->width) {
            c->width = left->links[l].bytes_per_s / crossings;
        }
    }
}

static void take_capacity(struct topo *left, const struct cycle *c)
{
    for (int k = 0; k < left->n_devices; k++) {
        for (int i = 0; i < c->hops[k].n; i++) {
            left->links[c->hops[k].links[i]].bytes_per_s -= c->width;
        }
    }
}

/* Add the cycle if its links have `least` left for it; it takes at most `most`. */
static enum status add(struct topo *left, struct cycles *out, const int *order, int64_t least,
                       int64_t most)
{
    struct cycle *c = &out->cycles[out->n];

    TRY(cycle_init(c, left->n_devices));
    memcpy(c->order, order, (size_t)left->n_devices * sizeof *order);
    TRY(walk(left, c));
    share_links(left, c);
    if (c->width <= 0 || c->width < least) {
        cycle_fini(c, left->n_devices);
        return ST_OK;
    }
    c->width = c->width < most ? c->width : most;
    take_capacity(left, c);
    out->n++;
    return ST_OK;
}

static void reverse(int *order, int n)
{
    for (int k = 0; k < n / 2; k++) {
        int x = order[k];
        order[k] = order[n - 1 - k];
        order[n - 1 - k] = x;
    }
}

static bool in_memory(const struct topo *t)
{
    for (int l = 0; l < t->n_links; l++) {
        if (strcmp(t->links[l].kind, "memory") != 0) {
            return false;
        }
    }
    return true;
}

/* The fattest cycle, then the same on what it leaves. */
static enum status find_greedily(struct topo *left, struct cycles *out, int *order)
{
    bool single = in_memory(left), found = true, both = left->n_devices > 2 && !single;
    int n_before = -1;

    while (out->n + 2 <= MAX_CYCLES && out->n > n_before) {
        n_before = out->n;
        TRY(route_chain(left, -1, true, both, order, &found));
        if (!found && both && out->n == 0) {
            both = false;
            TRY(route_chain(left, -1, true, both, order, &found));
        }
        if (!found) {
            return ST_OK;
        }
        TRY(add(left, out, order, out->cycles[0].width / WORTH, INT64_MAX));
        if (both && out->n > n_before) {
            reverse(order, left->n_devices);
            TRY(add(left, out, order, out->cycles[0].width / WORTH, INT64_MAX));
        }
        if (single || left->n_devices == 1) {
            return ST_OK;
        }
    }
    return ST_OK;
}

static int64_t total_width(const struct cycles *c)
{
    int64_t sum = 0;

    for (int i = 0; i < c->n; i++) {
        sum += c->cycles[i].width;
    }
    return sum;
}

/* Work space of the search for the largest number of cycles of one width, both ways. */
struct exact {
    int n, n_cycles; /* found: n_cycles of `unit` bytes/s each way */
    int64_t unit;
    int64_t *capacity;   /* [n, n] of direct links, the lesser of both directions */
    int *units;          /* [n, n] */
    int *trial, *orders; /* [MAX_CYCLES / 2, n] */
    bool *used;          /* [n] */
};

static void exact_fini(struct exact *e)
{
    mem_free(e->capacity);
    mem_free(e->units);
    mem_free(e->trial);
    mem_free(e->orders);
    mem_free(e->used);
}

static enum status exact_init(struct exact *e, const struct topo *t)
{
    size_t n = (size_t)t->n_devices;

    e->n = t->n_devices;
    e->capacity = mem_alloc(n * n, sizeof *e->capacity);
    e->units = mem_alloc(n * n, sizeof *e->units);
    e->trial = mem_alloc(MAX_CYCLES / 2 * n, sizeof *e->trial);
    e->orders = mem_alloc(MAX_CYCLES / 2 * n, sizeof *e->orders);
    e->used = mem_alloc(n, sizeof *e->used);
    if (e->capacity == NULL || e->units == NULL || e->trial == NULL || e->orders == NULL ||
        e->used == NULL) {
        return ST_NOMEM;
    }
    for (int a = 0; a < e->n; a++) {
        for (int b = 0; b < e->n; b++) {
            int there = topo_find_link(t, t->devices[a], t->devices[b]);
            int back = topo_find_link(t, t->devices[b], t->devices[a]);
            if (there >= 0 && back >= 0) {
                int64_t x = t->links[there].bytes_per_s, y = t->links[back].bytes_per_s;
                e->capacity[a * e->n + b] = x < y ? x : y;
            }
        }
    }
    return ST_OK;
}

/* Set the units of `unit` bytes/s; returns for how many cycles every device has enough of them. */
static int set_units(struct exact *e, int64_t unit)
{
    int64_t least = MAX_CYCLES; /* two for each cycle */

    for (int a = 0; a < e->n; a++) {
        int64_t sum = 0;
        for (int b = 0; b < e->n; b++) {
            int64_t units = e->capacity[a * e->n + b] / unit;
            e->units[a * e->n + b] = (int)(units < MAX_CYCLES ? units : MAX_CYCLES);
            sum += units;
        }
        least = sum < least ? sum : least;
    }
    return (int)(least / 2);
}

/* Try each capacity as the unit: the most cycles that carry more than `rate` bytes/s together. */
static void find_most(struct exact *e, int64_t rate)
{
    const long budget = 3000000; /* steps for each number of cycles */
    int64_t unit = INT64_MAX;

    for (;;) {
        int64_t next = 0;
        for (int i = 0; i < e->n * e->n; i++) {
            next = e->capacity[i] < unit && e->capacity[i] > next ? e->capacity[i] : next;
        }
        unit = next;
        if (unit == 0) {
            return;
        }
        for (int k = set_units(e, unit); k > 0 && 2 * k * unit > rate; k--) {
            bool exhausted;
            (void)set_units(e, unit);
            if (pack_cycles(e->units, e->n, k, budget, e->used, e->trial, &exhausted)) {
                memcpy(e->orders, e->trial, (size_t)(k * e->n) * sizeof *e->orders);
                e->n_cycles = k;
                e->unit = unit;
                rate = 2 * k * unit;
            }
        }
    }
}

/* Replace what was found by more cycles, if there are. */
static enum status find_exactly(struct topo *left, struct cycles *out)
{
    struct exact e = {0};
    enum status st = exact_init(&e, left);

    if (st == ST_OK) {
        find_most(&e, total_width(out));
    }
    for (int i = 0, same; st == ST_OK && i < e.n_cycles; i += same) {
        int *order = e.orders + i * e.n;
        for (same = 1; i + same < e.n_cycles &&
                       memcmp(order, order + same * e.n, (size_t)e.n * sizeof *order) == 0;) {
            same++;
        }
        if (i == 0) {
            cycles_fini(out);
        }
        st = add(left, out, order, 0, same * e.unit);
        if (st == ST_OK) {
            reverse(order, e.n);
            st = add(left, out, order, 0, same * e.unit);
        }
    }
    exact_fini(&e);
    return st;
}

static void reset(struct topo *left, const struct topo *t)
{
    if (t->n_links > 0) {
        memcpy(left->links, t->links, (size_t)t->n_links * sizeof *left->links);
    }
}

enum status cycles_find(const struct topo *t, struct cycles *out)
{
    struct topo left = *t; /* what is left of the links; everything else is the same */
    int *order = mem_alloc((size_t)t->n_devices, sizeof *order);
    enum status st = ST_NOMEM;

    memset(out, 0, sizeof *out);
    out->n_devices = t->n_devices;
    left.links = mem_alloc((size_t)t->n_links, sizeof *left.links);
    if (order != NULL && left.links != NULL) {
        reset(&left, t);
        st = find_greedily(&left, out, order);
    }
    if (st == ST_OK && t->n_devices > 2 && t->n_devices <= EXACT_DEVICES && !in_memory(t)) {
        reset(&left, t);
        st = find_exactly(&left, out);
    }
    mem_free(order);
    mem_free(left.links);
    return st;
}
