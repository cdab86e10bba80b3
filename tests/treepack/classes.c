#include "classes.h"

#include <string.h>

enum status machine_open(struct machine *m, const char *name)
{
    struct topo *t;
    enum status st;

    TRY(topo_open(name, &t));
    st = topo_keep_links(t, "nvlink", &m->t);
    topo_destroy(t);
    TRY(st);
    memset(m->lanes, 0, sizeof m->lanes);
    for (int i = 0; i < m->t->n_links; i++) {
        const struct topo_link *l = &m->t->links[i];
        m->lanes[l->from][l->to] = l->lanes;
    }
    return ST_OK;
}

static struct sub sub_of(const struct machine *m, unsigned mask)
{
    struct sub s = {0};

    for (int r = 0; r < 8; r++) {
        if (mask >> r & 1) {
            s.ranks[s.n++] = r;
        }
    }
    for (int i = 0; i < s.n; i++) {
        for (int j = 0; j < s.n; j++) {
            s.lanes[i][j] = m->lanes[s.ranks[i]][s.ranks[j]];
        }
    }
    return s;
}

static bool connected(const struct sub *s)
{
    unsigned seen = 1, before = 0;

    while (seen != before) {
        before = seen;
        for (int i = 0; i < s->n; i++) {
            for (int j = 0; j < s->n; j++) {
                if (seen >> i & 1 && s->lanes[i][j] > 0) {
                    seen |= 1U << j;
                }
            }
        }
    }
    return seen == (1U << s->n) - 1;
}

/* Is there a renumbering that turns a into b? */
static bool extend(const struct sub *a, const struct sub *b, int *map, int k)
{
    if (k == a->n) {
        return true;
    }
    for (int v = 0; v < a->n; v++) {
        bool fits = true;
        for (int i = 0; i < k && fits; i++) {
            fits = map[i] != v && a->lanes[i][k] == b->lanes[map[i]][v];
        }
        map[k] = v;
        if (fits && extend(a, b, map, k + 1)) {
            return true;
        }
    }
    return false;
}

int classes(const struct machine *m, struct sub *out)
{
    int n = 0;

    for (unsigned mask = 1; mask < 256; mask++) {
        struct sub s = sub_of(m, mask);
        bool known = false;
        int map[8];
        if (s.n < 3 || !connected(&s)) {
            continue;
        }
        for (int i = 0; i < n && !known; i++) {
            known = out[i].n == s.n && extend(&s, &out[i], map, 0);
        }
        if (!known) {
            out[n++] = s;
        }
    }
    return n;
}
