/*
 *   0 ── s ── 1        NIC hangs on s, and is on the side of s: otherwise a cut between 0 and s, 1
 *        └─ NIC        or 0, s and 1 would seem to carry more by the link from s to NIC
 *
 * No path from a vertex of the lattice through those left out comes to another vertex of the
 * lattice, or they would have a use. So what flows down a link into them can be passed on, and
 * never comes to a greater value.
 */
#include "comm/treepack/dead_ends.h"

void dead_ends_level(const struct topo *t, const bool *left, bool backwards, int64_t *value)
{
    int64_t most = INT64_MIN;
    bool changed = true;

    for (int v = 0; v < t->n_vertices; v++) {
        most = !left[v] && value[v] > most ? value[v] : most;
    }
    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        value[l->from] = left[l->from] ? most : value[l->from];
        value[l->to] = left[l->to] ? most : value[l->to];
    }
    while (changed) {
        changed = false;
        for (int i = 0; i < t->n_links; i++) {
            const int a = backwards ? t->links[i].to : t->links[i].from;
            const int b = backwards ? t->links[i].from : t->links[i].to;
            if (left[b] && value[b] > value[a]) {
                value[b] = value[a];
                changed = true;
            }
        }
    }
}

/* The part from which a link leads to `v`, or to which one leads from there; -1: none. */
static int neighbour_part(const struct topo *t, const int *part, int v, bool before)
{
    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        if ((before ? l->to : l->from) == v && part[before ? l->from : l->to] >= 0) {
            return part[before ? l->from : l->to];
        }
    }
    return -1;
}

void dead_ends_join(const struct topo *t, const bool *left, int *part)
{
    bool changed = true;

    while (changed) {
        changed = false;
        for (int v = 0; v < t->n_vertices; v++) {
            if (left[v] && part[v] < 0) {
                const int before = neighbour_part(t, part, v, true);
                if (before >= 0 && before == neighbour_part(t, part, v, false)) {
                    part[v] = before;
                    changed = true;
                }
            }
        }
    }
}
