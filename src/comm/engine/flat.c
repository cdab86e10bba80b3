#include "comm/engine/flat.h"

#include "base/mem.h"

enum status flat_init(struct flat *f, int n_groups, size_t n_items, bool fenced)
{
    size_t n = (size_t)n_groups;

    f->groups = mem_alloc(n, sizeof *f->groups);
    if (f->groups == NULL) {
        return ST_NOMEM;
    }
    f->n_groups = n_groups;
    f->fenced = fenced;
    for (size_t g = 0; g < n; g++) {
        struct flat_group *group = &f->groups[g];
        /* The remainder goes to the first groups. */
        group->n = n_items / n + (g < n_items % n);
        group->first = g * (n_items / n) + (g < n_items % n ? g : n_items % n);
        atomic_init(&group->posted, 0);
        atomic_init(&group->finished, group->n > 0 ? 0 : UINT64_MAX);
        atomic_init(&group->claim, group->n); /* run 0, all taken */
        atomic_init(&group->ended, 0);
    }
    return ST_OK;
}

void flat_fini(struct flat *f)
{
    mem_free(f->groups);
}

/* Release; if fenced no later load of this thread is older than the store. */
static void publish(const struct flat *f, atomic_uint_least64_t *word, uint64_t run)
{
    if (f->fenced) {
        atomic_store(word, run);
    } else {
        atomic_store_explicit(word, run, memory_order_release);
        atomic_signal_fence(memory_order_seq_cst); /* gate_order does the rest */
    }
}

/* --- Posts --- */

bool flat_post(struct flat *f, uint64_t run, int own, bool keep)
{
    struct flat_group *g = &f->groups[own];
    bool kept = keep && g->n == 1;

    if (kept) { /* before the post nobody else looks for items of this run */
        atomic_store_explicit(&g->claim, run << 32 | 1, memory_order_relaxed);
        g->kept = run;
    }
    publish(f, &g->posted, run);
    return kept;
}

uint64_t flat_posted_by_all(const struct flat *f)
{
    uint64_t least = UINT64_MAX;

    for (int g = 0; g < f->n_groups; g++) {
        uint64_t posted = atomic_load(&f->groups[g].posted);
        least = posted < least ? posted : least;
    }
    return least;
}

/* --- Claims --- */

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
        if (atomic_compare_exchange_weak_explicit(&g->claim, &claim, next, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            *item = g->first + k;
            return true;
        }
    }
    return false;
}

void flat_keep(struct flat *f, uint64_t run, int own)
{
    struct flat_group *g = &f->groups[own];
    size_t item;

    if (g->n == 1 && take_from(g, run, &item)) {
        g->kept = run;
    }
}

void flat_let(struct flat *f, int own)
{
    struct flat_group *g = &f->groups[own];

    if (g->kept != 0) { /* nobody else writes a claim that has nothing left */
        atomic_store_explicit(&g->claim, (g->kept - 1) << 32 | 1, memory_order_relaxed);
        g->kept = 0;
    }
}

bool flat_take_kept(struct flat *f, int own)
{
    struct flat_group *g = &f->groups[own];
    bool kept = g->kept != 0;

    g->kept = 0;
    return kept;
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

/* --- Ends --- */

bool flat_finish(struct flat *f, uint64_t run, int group, int64_t end_ns)
{
    struct flat_group *g = &f->groups[group];

    atomic_store_explicit(&g->end_ns, end_ns, memory_order_relaxed);
    if (g->n > 1 &&
        (atomic_fetch_add_explicit(&g->ended, 1, memory_order_acq_rel) + 1) % g->n != 0) {
        return false;
    }
    publish(f, &g->finished, run);
    return true;
}

bool flat_done(const struct flat *f, uint64_t run)
{
    for (int g = 0; g < f->n_groups; g++) {
        if (atomic_load(&f->groups[g].finished) < run) {
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
