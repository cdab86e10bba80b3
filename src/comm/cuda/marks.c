#include "comm/cuda/marks.h"

#include "base/mem.h"

static enum status make_event(const struct marks *m, int rank, void **out)
{
    return m->timed ? m->device->timer_create(m->set, rank, out)
                    : m->device->event_create(m->set, rank, out);
}

/* An event for each rank, or the same one for all. */
static enum status make_row(const struct marks *m, bool each, void ***out)
{
    void **row = mem_alloc((size_t)m->n_ranks, sizeof *row);

    *out = row;
    if (row == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < m->n_ranks; r++) {
        if (r > 0 && !each) {
            row[r] = row[0];
            continue;
        }
        TRY(make_event(m, r, &row[r]));
    }
    return ST_OK;
}

static void free_row(const struct marks *m, bool each, void **row)
{
    for (int r = 0; row != NULL && r < (each ? m->n_ranks : 1); r++) {
        m->device->event_destroy(m->set, row[r]);
    }
    mem_free(row);
}

enum status marks_init(struct marks *m)
{
    m->uses = mem_alloc(m->n_uses, sizeof *m->uses);
    if (m->uses == NULL) {
        return ST_NOMEM;
    }
    for (size_t k = 0; k < m->n_uses; k++) {
        struct marks_use *u = &m->uses[k];
        TRY(make_row(m, true, &u->posted));
        TRY(make_row(m, m->each, &u->done));
        if (m->timed) {
            TRY(make_row(m, m->each, &u->begun));
            TRY(make_row(m, true, &u->waited));
        }
    }
    return ST_OK;
}

void marks_fini(struct marks *m)
{
    for (size_t k = 0; m->uses != NULL && k < m->n_uses; k++) {
        free_row(m, true, m->uses[k].posted);
        free_row(m, m->each, m->uses[k].done);
        free_row(m, m->each, m->uses[k].begun);
        free_row(m, true, m->uses[k].waited);
    }
    mem_free(m->uses);
}

struct marks_use *marks_of(const struct marks *m, size_t k)
{
    return &m->uses[k % m->n_uses];
}
