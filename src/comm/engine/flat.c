#include "comm/engine/flat.h"

#include "base/mem.h"

enum status flat_init(struct flat *f, int n_groups, size_t n_items)
{
    size_t n = (size_t)n_groups;

    f->groups = mem_alloc(n, sizeof *f->groups);
    if (f->groups == NULL) {
        return ST_NOMEM;
    }
    f->n_groups = n_groups;
    for (size_t g = 0; g < n; g++) {
        struct flat_group *group = &f->groups[g];
        /* The remainder goes to the first groups. */
        group->n = n_items / n + (g < n_items % n);
        group->first = g * (n_items / n) + (g < n_items % n ? g : n_items % n);
        atomic_init(&group->claim, group->n); /* run 0, all taken */
        atomic_init(&group->finished, 0);
    }
    return ST_OK;
}

void flat_fini(struct flat *f)
{
    mem_free(f->groups);
}

/* How many items of `run` are taken, by the claim word: those of the run before are all taken. */
static size_t taken(uint64_t claim, uint64_t run, size_t n)
{
    uint32_t ahead = (uint32_t)run - (uint32_t)(claim >> 32);

    return ahead == 0 ? (size_t)(uint32_t)claim : ahead == 1 ? 0 : n;
}

static bool take_from(struct flat_group *g, uint64_t run, size_t *item)
{
    uint64_t claim = atomic_load_explicit(&g->claim, memory_order_relaxed);
    size_t k;

    while ((k = taken(claim, run, g->n)) < g->n) {
        uint64_t next = run << 32 | (k + 1);
        if (atomic_compare_exchange_weak_explicit(&g->claim, &claim, next, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            *item = g->first + k;
            return true;
        }
    }
    return false;
}

bool flat_take(struct flat *f, uint64_t run, int own, bool steal, size_t *item, int *group)
{
    for (int k = 0; k < (steal ? f->n_groups : 1); k++) {
        *group = own + k < f->n_groups ? own + k : own + k - f->n_groups;
        if (take_from(&f->groups[*group], run, item)) {
            return true;
        }
    }
    return false;
}

bool flat_any(const struct flat *f, uint64_t run)
{
    for (int g = 0; g < f->n_groups; g++) {
        const struct flat_group *group = &f->groups[g];
        if (taken(atomic_load(&group->claim), run, group->n) < group->n) {
            return true;
        }
    }
    return false;
}

bool flat_finish(struct flat *f, int group, int64_t end_ns)
{
    struct flat_group *g = &f->groups[group];

    atomic_store_explicit(&g->end_ns, end_ns, memory_order_relaxed);
    return (atomic_fetch_add(&g->finished, 1) + 1) % g->n == 0;
}

bool flat_done(const struct flat *f, uint64_t run)
{
    for (int g = 0; g < f->n_groups; g++) {
        const struct flat_group *group = &f->groups[g];
        if (atomic_load(&group->finished) < run * group->n) {
            return false;
        }
    }
    return true;
}

int64_t flat_end_ns(const struct flat *f)
{
    int64_t end = 0;

    for (int g = 0; g < f->n_groups; g++) {
        int64_t t = atomic_load(&f->groups[g].end_ns);
        end = t > end ? t : end;
    }
    return end;
}
