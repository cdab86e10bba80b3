#include "topo/topo_text.h"

#include "base/log.h"
#include "base/mem.h"

static enum status refuse(const char *path, int line, const char *what, const char *name)
{
    if (line > 0) {
        return log_fail(ST_INPUT, "%s:%d: %s '%s'", path, line, what, name);
    }
    return log_fail(ST_INPUT, "%s: %s '%s'", path, what, name);
}

/*
 * Mark what the first device reaches (forward) or what reaches it. Passes over the links until
 * nothing changes; as many passes as the lattice is deep.
 */
static void mark_reached(const struct topo *t, bool forward, bool *seen)
{
    bool grown = true;

    for (int v = 0; v < t->n_vertices; v++) {
        seen[v] = v == t->devices[0];
    }
    while (grown) {
        grown = false;
        for (int i = 0; i < t->n_links; i++) {
            int a = forward ? t->links[i].from : t->links[i].to;
            int b = forward ? t->links[i].to : t->links[i].from;
            if (seen[a] && !seen[b]) {
                seen[b] = true;
                grown = true;
            }
        }
    }
}

static enum status check_reach(const struct topo *t, const char *path, int line, bool *seen)
{
    for (int i = 0; i < t->n_links; i++) {
        seen[t->links[i].from] = true;
        seen[t->links[i].to] = true;
    }
    for (int v = 0; v < t->n_vertices; v++) {
        if (!seen[v] && t->n_vertices > 1) {
            return refuse(path, line, "no link reaches", t->vertices[v].name);
        }
    }
    for (int forward = 0; forward < 2; forward++) {
        mark_reached(t, forward == 1, seen);
        for (int r = 0; r < t->n_devices; r++) {
            if (!seen[t->devices[r]]) {
                return refuse(path, line,
                              forward == 1
                                  ? "the lattice is disconnected, the first device cannot reach"
                                  : "the lattice is disconnected, the first device is not reached "
                                    "from",
                              t->vertices[t->devices[r]].name);
            }
        }
    }
    return ST_OK;
}

enum status topo_check(const struct topo *t, const char *path, int line)
{
    enum status st;
    bool *seen;

    if (t->n_devices == 0) {
        return refuse(path, line, "no device in topology", t->name);
    }
    seen = mem_alloc((size_t)t->n_vertices, sizeof *seen);
    if (seen == NULL) {
        return ST_NOMEM;
    }
    st = check_reach(t, path, line, seen);
    mem_free(seen);
    return st;
}
