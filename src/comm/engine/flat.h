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
 * from the others'. Runs are counted from 1, and every word carries its run, so that nothing has
 * to be reset.
 *
 * What costs time is lines that travel between cores, and instructions that wait until one has. In
 * the common case, every rank there and one item in each group, there are as many as in two
 * barriers by hand: each rank writes one line twice, when it posts and when its group is finished,
 * and reads those of the others; no word is changed by two ranks, and nothing waits for the stores.
 * For that a rank may keep its item to itself (flat_post, flat_keep) until it goes away (flat_let).
 *
 * Memory order: a post releases what the rank wrote to its buffers, and whoever runs an item has
 * acquired the posts of all ranks. A group's end releases what was written to any buffer for it,
 * and whoever finds a run done has acquired all ends. Between the items of a group the count of
 * those that have ended hands this on. Claims order nothing, they only have to be unique.
 */
struct flat_group {
    /* The line that all ranks read. */
    _Alignas(128) atomic_uint_least64_t posted; /* latest run, written by the rank only */
    atomic_uint_least64_t finished; /* latest run, written by who ends its last item; UINT64_MAX if
                                       there are none */
    /* A line that is the rank's own as long as nobody steals. */
    _Alignas(64) atomic_uint_least64_t claim; /* run << 32 | items taken in it */
    atomic_uint_least64_t ended;              /* items, over all runs */
    atomic_llong end_ns;                      /* when the last one ended */
    uint64_t kept;                            /* the run whose item the rank keeps; its own */
    size_t first, n;
};

struct flat {
    struct flat_group *groups; /* [n_groups] */
    int n_groups;
    bool fenced; /* see flat_init */
};

/*
 * If `fenced`, posts and ends are sequentially consistent stores, and who looks for news with
 * flat_any and flat_done before it goes to sleep misses none. Else that takes a gate_order first.
 */
MUST_CHECK enum status flat_init(struct flat *f, int n_groups, size_t n_items, bool fenced);
void flat_fini(struct flat *f);

/* The rank of group `own` posts `run`. If `keep` and the group has one item the rank keeps it, and
 * the result is true. */
bool flat_post(struct flat *f, uint64_t run, int own, bool keep);

/* Keep the only item of the group if nobody has taken it; let others take it again. */
void flat_keep(struct flat *f, uint64_t run, int own);
void flat_let(struct flat *f, int own);

/* Take the item that the rank has kept. False if there is none. */
bool flat_take_kept(struct flat *f, int own);

/* The latest run that all ranks have posted. */
uint64_t flat_posted_by_all(const struct flat *f);

/*
 * Take an item of run `run`, which all ranks have posted; of group `own` first, and if `steal` of
 * the others. False if none is left. `*group` is to be given back to flat_finish.
 */
bool flat_take(struct flat *f, uint64_t run, int own, bool steal, size_t *item, int *group);

/* Is there an item of run `run` to take? */
bool flat_any(const struct flat *f, uint64_t run);

/* An item of the group of run `run` ended at `end_ns`; true for the last one. */
bool flat_finish(struct flat *f, uint64_t run, int group, int64_t end_ns);

/* When the latest run ended. */
int64_t flat_end_ns(const struct flat *f);

/* Are all items of run `run` finished? */
bool flat_done(const struct flat *f, uint64_t run);

#endif
