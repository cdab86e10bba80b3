#include "comm/treepack/maxflow.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

void flow_init(struct flow *f)
{
    memset(f, 0, sizeof *f);
}

void flow_fini(struct flow *f)
{
    mem_free(f->head);
    mem_free(f->level);
    mem_free(f->at);
    mem_free(f->queue);
    mem_free(f->next);
    mem_free(f->to);
    mem_free(f->cap);
    mem_free(f->saved);
    flow_init(f);
}

enum status flow_reserve(struct flow *f, int n, int m)
{
    if (n <= f->room_n && 2 * m <= f->room_m) {
        return ST_OK;
    }
    flow_fini(f);
    f->head = mem_alloc((size_t)n, sizeof *f->head);
    f->level = mem_alloc((size_t)n, sizeof *f->level);
    f->at = mem_alloc((size_t)n, sizeof *f->at);
    f->queue = mem_alloc((size_t)n, sizeof *f->queue);
    f->next = mem_alloc(2 * (size_t)m, sizeof *f->next);
    f->to = mem_alloc(2 * (size_t)m, sizeof *f->to);
    f->cap = mem_alloc(2 * (size_t)m, sizeof *f->cap);
    f->saved = mem_alloc(2 * (size_t)m, sizeof *f->saved);
    if (f->head == NULL || f->level == NULL || f->at == NULL || f->queue == NULL ||
        f->next == NULL || f->to == NULL || f->cap == NULL || f->saved == NULL) {
        flow_fini(f);
        return ST_NOMEM;
    }
    f->room_n = n;
    f->room_m = 2 * m;
    return ST_OK;
}

void flow_reset(struct flow *f, int n)
{
    assert(n <= f->room_n);
    f->n = n;
    f->m = 0;
    for (int v = 0; v < n; v++) {
        f->head[v] = -1;
    }
}

static void half_arc(struct flow *f, int from, int to, int64_t cap)
{
    f->to[f->m] = to;
    f->cap[f->m] = cap;
    f->next[f->m] = f->head[from];
    f->head[from] = f->m++;
}

int flow_arc(struct flow *f, int from, int to, int64_t cap, int64_t back)
{
    assert(f->m + 2 <= f->room_m);
    half_arc(f, from, to, cap);
    half_arc(f, to, from, back);
    return f->m / 2 - 1;
}

void flow_save(struct flow *f)
{
    memcpy(f->saved, f->cap, (size_t)f->m * sizeof *f->cap);
}

void flow_restore(struct flow *f)
{
    memcpy(f->cap, f->saved, (size_t)f->m * sizeof *f->cap);
}

void flow_open(struct flow *f, int i)
{
    f->saved[2 * i] = FLOW_INF;
}

int64_t flow_used(const struct flow *f, int i)
{
    return f->saved[2 * i] - f->cap[2 * i];
}

/* Number the vertices by their distance from `s`; returns whether `t` was reached. */
static bool find_levels(struct flow *f, int s, int t)
{
    int begin = 0, end = 0;

    for (int v = 0; v < f->n; v++) {
        f->level[v] = -1;
    }
    f->level[s] = 0;
    f->queue[end++] = s;
    while (begin < end) {
        int u = f->queue[begin++];
        for (int a = f->head[u]; a >= 0; a = f->next[a]) {
            int v = f->to[a];
            if (f->cap[a] > 0 && f->level[v] < 0) {
                f->level[v] = f->level[u] + 1;
                if (v == t) {
                    return true;
                }
                f->queue[end++] = v;
            }
        }
    }
    return false;
}

/* Push up to `limit` from `u` to `t` along arcs that lead one level on. */
static int64_t push_levels(struct flow *f, int u, int t, int64_t limit)
{
    int64_t sent = 0;

    if (u == t) {
        return limit;
    }
    for (; f->at[u] >= 0; f->at[u] = f->next[f->at[u]]) {
        int a = f->at[u], v = f->to[a];
        int64_t want = limit - sent < f->cap[a] ? limit - sent : f->cap[a];
        if (want > 0 && f->level[v] == f->level[u] + 1) {
            int64_t got = push_levels(f, v, t, want);
            f->cap[a] -= got;
            f->cap[a ^ 1] += got;
            sent += got;
            if (sent == limit) {
                return sent; /* the arc may still have room: do not step past it */
            }
        }
    }
    return sent;
}

int64_t flow_push(struct flow *f, int s, int t, int64_t limit)
{
    int64_t sent = 0;

    while (sent < limit && find_levels(f, s, t)) {
        memcpy(f->at, f->head, (size_t)f->n * sizeof *f->at);
        sent += push_levels(f, s, t, limit - sent);
    }
    return sent;
}

bool flow_source_side(const struct flow *f, int v)
{
    return f->level[v] >= 0;
}
