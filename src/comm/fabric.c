#include "comm/fabric.h"

#include "base/mem.h"

struct fabric {
    const struct topo *topo;
    double scale;
    double *free_s; /* [n_links] */
};

enum status fabric_create(const struct topo *t, double scale, struct fabric **out)
{
    struct fabric *f = mem_alloc(1, sizeof *f);

    if (f == NULL) {
        return ST_NOMEM;
    }
    f->topo = t;
    f->scale = scale;
    f->free_s = mem_alloc((size_t)t->n_links, sizeof *f->free_s);
    if (f->free_s == NULL) {
        fabric_destroy(f);
        return ST_NOMEM;
    }
    *out = f;
    return ST_OK;
}

void fabric_destroy(struct fabric *f)
{
    if (f != NULL) {
        mem_free(f->free_s);
        mem_free(f);
    }
}

double fabric_send(struct fabric *f, const struct path *path, double bytes, double ready_s)
{
    double latency_s = 0, slowest = 0, start_s = ready_s;

    if (path == NULL || path->n == 0) {
        return ready_s;
    }
    for (int k = 0; k < path->n; k++) {
        const struct topo_link *l = &f->topo->links[path->links[k]];
        double s_per_byte = 1 / (double)l->effective_bytes_per_s;
        latency_s += (double)l->latency_ns * 1e-9;
        slowest = s_per_byte > slowest ? s_per_byte : slowest;
        start_s = f->free_s[path->links[k]] > start_s ? f->free_s[path->links[k]] : start_s;
    }
    for (int k = 0; k < path->n; k++) {
        double capacity = (double)f->topo->links[path->links[k]].effective_bytes_per_s;
        f->free_s[path->links[k]] = start_s + f->scale * (latency_s + bytes / capacity);
    }
    return start_s + f->scale * (latency_s + bytes * slowest);
}
