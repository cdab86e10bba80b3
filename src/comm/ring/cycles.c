#include "comm/ring/cycles.h"

#include <string.h>

#include "base/mem.h"
#include "comm/route.h"

enum {
    WORTH = 2 /* a cycle that carries less than such a part of the first one only adds latency */
};

void cycles_fini(struct cycles *c)
{
    for (int i = 0; i < MAX_CYCLES; i++) {
        for (int k = 0; c->cycles[i].hops != NULL && k < c->n_devices; k++) {
            mem_free(c->cycles[i].hops[k].links);
        }
        mem_free(c->cycles[i].hops);
        mem_free(c->cycles[i].order);
    }
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

static enum status add(struct topo *left, struct cycles *out, const int *order)
{
    struct cycle *c = &out->cycles[out->n];

    TRY(cycle_init(c, left->n_devices));
    memcpy(c->order, order, (size_t)left->n_devices * sizeof *order);
    TRY(walk(left, c));
    share_links(left, c);
    if (c->width > 0 && c->width >= out->cycles[0].width / WORTH) {
        take_capacity(left, c);
        out->n++;
    }
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

static enum status find(struct topo *left, struct cycles *out, int *order)
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
        TRY(add(left, out, order));
        if (both && out->n > n_before) {
            reverse(order, left->n_devices);
            TRY(add(left, out, order));
        }
        if (single || left->n_devices == 1) {
            return ST_OK;
        }
    }
    return ST_OK;
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
        if (t->n_links > 0) {
            memcpy(left.links, t->links, (size_t)t->n_links * sizeof *left.links);
        }
        st = find(&left, out, order);
    }
    mem_free(order);
    mem_free(left.links);
    return st;
}
