#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/topo.h"

/* Is the word of `n` letters one of the kinds in the list? */
static bool listed(const char *list, const char *kind)
{
    size_t n = strlen(kind);

    for (const char *p = list; *p != '\0'; p += strcspn(p, ","), p += *p == ',') {
        if (strcspn(p, ",") == n && strncmp(p, kind, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_kind(const struct topo *t, const char *word, size_t n)
{
    for (int i = 0; i < t->n_links; i++) {
        if (strlen(t->links[i].kind) == n && strncmp(t->links[i].kind, word, n) == 0) {
            return true;
        }
    }
    return false;
}

static enum status check_kinds(const struct topo *t, const char *kinds)
{
    const char *p = kinds;

    for (;;) {
        size_t n = strcspn(p, ",");
        if (!has_kind(t, p, n)) {
            return log_fail(ST_INPUT, "topology %s has no link of kind '%.*s', see topo show",
                            t->name, (int)(n < 64 ? n : 64), p);
        }
        if (p[n] == '\0') {
            return ST_OK;
        }
        p += n + 1;
    }
}

static enum status copy_kept(const struct topo *t, const char *kinds, struct topo *s)
{
    for (int v = 0; v < t->n_vertices; v++) {
        TRY(topo_add_vertex(s, t->vertices[v].name, t->vertices[v].kind, NULL));
    }
    /* The ranks may be in another order than the vertices. */
    memcpy(s->devices, t->devices, (size_t)t->n_devices * sizeof *t->devices);
    for (int i = 0; i < t->n_links; i++) {
        if (listed(kinds, t->links[i].kind)) {
            TRY(topo_add_link(s, &t->links[i]));
        }
    }
    return ST_OK;
}

enum status topo_keep_links(const struct topo *t, const char *kinds, struct topo **out)
{
    struct topo *s;
    enum status st;

    TRY(check_kinds(t, kinds));
    TRY(topo_create(t->name, t->desc, &s));
    s->kept = mem_strdup(kinds);
    st = s->kept == NULL ? ST_NOMEM : copy_kept(t, kinds, s);
    if (st != ST_OK) {
        topo_destroy(s);
        return st;
    }
    *out = s;
    return ST_OK;
}
