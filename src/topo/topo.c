#include "topo/topo.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

enum status topo_create(const char *name, const char *desc, struct topo **out)
{
    struct topo *t = mem_alloc(1, sizeof *t);

    if (t == NULL) {
        return ST_NOMEM;
    }
    t->name = mem_strdup(name);
    t->desc = mem_strdup(desc);
    if (t->name == NULL || t->desc == NULL) {
        topo_destroy(t);
        return ST_NOMEM;
    }
    *out = t;
    return ST_OK;
}

void topo_destroy(struct topo *t)
{
    if (t == NULL) {
        return;
    }
    for (int i = 0; i < t->n_vertices; i++) {
        mem_free(t->vertices[i].name);
    }
    for (int i = 0; i < t->n_links; i++) {
        mem_free(t->links[i].kind);
    }
    mem_free(t->vertices);
    mem_free(t->links);
    mem_free(t->devices);
    mem_free(t->name);
    mem_free(t->desc);
    mem_free(t->kept);
    mem_free(t);
}

/* Make room for element number `n` of an array that doubles at powers of two. */
static enum status reserve(void *array, int n, size_t elem_bytes)
{
    void **slot = array;
    void *p;

    if (n != 0 && (n & (n - 1)) != 0) {
        return ST_OK;
    }
    p = mem_grow(*slot, (size_t)n, n == 0 ? 1 : 2 * (size_t)n, elem_bytes);
    if (p == NULL) {
        return ST_NOMEM;
    }
    *slot = p;
    return ST_OK;
}

enum status topo_add_vertex(struct topo *t, const char *name, enum topo_kind kind, int *index)
{
    bool device = kind == TOPO_GPU || kind == TOPO_CPU;
    char *copy;

    if (topo_find_vertex(t, name) >= 0) {
        return log_fail(ST_INPUT, "vertex '%s' is declared twice in topology %s", name, t->name);
    }
    TRY(reserve(&t->vertices, t->n_vertices, sizeof *t->vertices));
    if (device) {
        TRY(reserve(&t->devices, t->n_devices, sizeof *t->devices));
    }
    copy = mem_strdup(name);
    if (copy == NULL) {
        return ST_NOMEM;
    }
    t->vertices[t->n_vertices] = (struct topo_vertex){copy, kind};
    if (device) {
        t->devices[t->n_devices++] = t->n_vertices;
    }
    if (index != NULL) {
        *index = t->n_vertices;
    }
    t->n_vertices++;
    return ST_OK;
}

enum status topo_add_link(struct topo *t, const struct topo_link *link)
{
    struct topo_link copy = *link;

    if (link->from < 0 || link->from >= t->n_vertices || link->to < 0 ||
        link->to >= t->n_vertices) {
        return log_fail(ST_INPUT, "link between unknown vertices in topology %s", t->name);
    }
    if (link->from == link->to) {
        return log_fail(ST_INPUT, "link from '%s' to itself in topology %s",
                        t->vertices[link->from].name, t->name);
    }
    if (link->bytes_per_s <= 0 || link->latency_ns < 0) {
        return log_fail(ST_INPUT, "link %s-%s needs a positive capacity and a latency of 0 or more",
                        t->vertices[link->from].name, t->vertices[link->to].name);
    }
    for (int i = 0; i < t->n_links; i++) {
        if (t->links[i].from == link->from && t->links[i].to == link->to &&
            strcmp(t->links[i].kind, link->kind) == 0) {
            return log_fail(ST_INPUT, "two %s links from '%s' to '%s' in topology %s", link->kind,
                            t->vertices[link->from].name, t->vertices[link->to].name, t->name);
        }
    }
    TRY(reserve(&t->links, t->n_links, sizeof *t->links));
    copy.kind = mem_strdup(link->kind);
    if (copy.kind == NULL) {
        return ST_NOMEM;
    }
    if (copy.effective_bytes_per_s <= 0) {
        copy.effective_bytes_per_s = copy.bytes_per_s;
    }
    if (copy.lanes <= 0) {
        copy.lanes = 1;
    }
    t->links[t->n_links++] = copy;
    return ST_OK;
}

enum status topo_add_both(struct topo *t, const struct topo_link *link)
{
    struct topo_link back = *link;

    back.from = link->to;
    back.to = link->from;
    TRY(topo_add_link(t, link));
    return topo_add_link(t, &back);
}

int topo_find_link(const struct topo *t, int from, int to)
{
    int best = -1;

    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        if (l->from == from && l->to == to &&
            (best < 0 || l->bytes_per_s > t->links[best].bytes_per_s)) {
            best = i;
        }
    }
    return best;
}

int topo_find_vertex(const struct topo *t, const char *name)
{
    for (int i = 0; i < t->n_vertices; i++) {
        if (strcmp(t->vertices[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

bool topo_is_device(const struct topo *t, int vertex)
{
    return t->vertices[vertex].kind == TOPO_GPU || t->vertices[vertex].kind == TOPO_CPU;
}

static enum status fill_mesh(struct topo *t, int n, int64_t bytes_per_s, int64_t latency_ns)
{
    for (int i = 0; i < n; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "cpu%d", i);
        TRY(topo_add_vertex(t, name, TOPO_CPU, NULL));
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            struct topo_link l = {.from = i,
                                  .to = j,
                                  .bytes_per_s = bytes_per_s,
                                  .latency_ns = latency_ns,
                                  .kind = (char *)"memory"};
            if (i != j) {
                TRY(topo_add_link(t, &l));
            }
        }
    }
    return ST_OK;
}

enum status topo_mesh(int n, int64_t bytes_per_s, int64_t latency_ns, struct topo **out)
{
    struct topo *t;
    enum status st;

    TRY(topo_create("memory", "CPU devices of one process, joined by its memory", &t));
    st = fill_mesh(t, n, bytes_per_s, latency_ns);
    if (st != ST_OK) {
        topo_destroy(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

static enum status fill_subset(struct topo *s, const struct topo *t, const int *ranks, int n,
                               int *map)
{
    for (int i = 0; i < n; i++) {
        int v;
        if (ranks[i] < 0 || ranks[i] >= t->n_devices) {
            return log_fail(ST_INPUT, "no device %d in topology %s, which has %d", ranks[i],
                            t->name, t->n_devices);
        }
        v = t->devices[ranks[i]];
        TRY(topo_add_vertex(s, t->vertices[v].name, t->vertices[v].kind, &map[v]));
    }
    for (int v = 0; v < t->n_vertices; v++) {
        if (!topo_is_device(t, v)) {
            TRY(topo_add_vertex(s, t->vertices[v].name, t->vertices[v].kind, &map[v]));
        }
    }
    for (int i = 0; i < t->n_links; i++) {
        struct topo_link l = t->links[i];
        l.from = map[l.from];
        l.to = map[l.to];
        if (l.from >= 0 && l.to >= 0) {
            TRY(topo_add_link(s, &l));
        }
    }
    return ST_OK;
}

enum status topo_subset(const struct topo *t, const int *ranks, int n, struct topo **out)
{
    int *map = mem_alloc((size_t)t->n_vertices, sizeof *map);
    struct topo *s = NULL;
    enum status st;

    if (map == NULL) {
        return ST_NOMEM;
    }
    for (int v = 0; v < t->n_vertices; v++) {
        map[v] = -1;
    }
    st = topo_create(t->name, t->desc, &s);
    if (st == ST_OK && t->kept != NULL) {
        s->kept = mem_strdup(t->kept);
        st = s->kept == NULL ? ST_NOMEM : ST_OK;
    }
    if (st == ST_OK) {
        st = fill_subset(s, t, ranks, n, map);
    }
    mem_free(map);
    if (st != ST_OK) {
        topo_destroy(s);
        return st;
    }
    *out = s;
    return ST_OK;
}
