#ifndef COMM_ENGINE_FLAT_H
#define COMM_ENGINE_FLAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Sharing out the items of a job in which every item waits for all ranks and for nothing else: a
 * plan of stars.
 *
 * The items are dealt to one group for each rank. A rank takes from its own group first and then
 * from the others', so that in the common case, all ranks there, no two of them touch the same
 * counter: the last rank's post and the last item's end are the only news that travel between
 * cores. Runs are counted from 1, and every counter carries its run, so that nothing has to be
 * reset.
 */
struct flat_group {
    _Alignas(64) atomic_uint_least64_t claim;    /* run << 32 | items taken in it */
    _Alignas(64) atomic_uint_least64_t finished; /* items, over all runs */
    atomic_llong end_ns;                         /* when the last one ended */
    size_t first, n;
};

struct flat {
    struct flat_group *groups; /* [n_groups] */
    int n_groups;
};

MUST_CHECK enum status flat_init(struct flat *f, int n_groups, size_t n_items);
void flat_fini(struct flat *f);

/*
 * Take an item of run `run`, which all ranks have posted; of group `own` first, and if `steal` of
 * the others. False if none is left. `*group` is to be given back to flat_finish.
 */
bool flat_take(struct flat *f, uint64_t run, int own, bool steal, size_t *item, int *group);

/* Is there an item of run `run` to take? */
bool flat_any(const struct flat *f, uint64_t run);

/* An item of the group ended at `end_ns`; true for the group's last one of this run. */
bool flat_finish(struct flat *f, int group, int64_t end_ns);

/* When the latest run ended. */
int64_t flat_end_ns(const struct flat *f);

/* Are all items of run `run` finished? */
bool flat_done(const struct flat *f, uint64_t run);

#endif
