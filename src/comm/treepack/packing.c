#include <string.h>

#include "base/mem.h"
#include "comm/treepack/pack.h"

void packing_init(struct packing *p, int n_dev)
{
    memset(p, 0, sizeof *p);
    p->n_dev = n_dev;
}

void packing_fini(struct packing *p)
{
    for (size_t i = 0; i < p->n; i++) {
        mem_free(p->trees[i].arc);
    }
    mem_free(p->trees);
    packing_init(p, p->n_dev);
}

enum status packing_add(struct packing *p, int root, int64_t weight, const int *arc)
{
    size_t bytes = (size_t)p->n_dev * sizeof *arc;
    int *copy;

    for (size_t i = 0; i < p->n; i++) {
        if (p->trees[i].root == root && memcmp(p->trees[i].arc, arc, bytes) == 0) {
            p->trees[i].weight += weight;
            return ST_OK;
        }
    }
    if (p->n == p->room) {
        size_t room = p->room == 0 ? 16 : 2 * p->room;
        struct branch *grown = mem_grow(p->trees, p->n, room, sizeof *grown);
        if (grown == NULL) {
            return ST_NOMEM;
        }
        p->trees = grown;
        p->room = room;
    }
    copy = mem_alloc((size_t)p->n_dev, sizeof *copy);
    if (copy == NULL) {
        return ST_NOMEM;
    }
    memcpy(copy, arc, bytes);
    p->trees[p->n++] = (struct branch){root, weight, copy};
    return ST_OK;
}

enum status packing_copy(const struct packing *p, struct packing *out)
{
    packing_init(out, p->n_dev);
    for (size_t i = 0; i < p->n; i++) {
        enum status st = packing_add(out, p->trees[i].root, p->trees[i].weight, p->trees[i].arc);
        if (st != ST_OK) {
            packing_fini(out);
            return st;
        }
    }
    return ST_OK;
}

int packing_depth(const struct packing *p, const struct lattice *l, size_t i)
{
    int deepest = 0;

    for (int v = 0; v < p->n_dev; v++) {
        int d = 0;
        for (int u = v; p->trees[i].arc[u] >= 0 && d <= p->n_dev; d++) {
            u = l->arcs[p->trees[i].arc[u]].from;
        }
        deepest = d > deepest ? d : deepest;
    }
    return deepest;
}
