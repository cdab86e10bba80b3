#ifndef COMM_ENGINE_READY_H
#define COMM_ENGINE_READY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * A lock-free first-in first-out list of ready operations, for any number of threads.
 *
 * It relies on its use: it has a slot for every operation instance of a job, and an instance is
 * pushed again only after it has been popped. So no slot is written before it has been read. A slot
 * carries the lap in which it was written, by which a reader tells a new item from an old one.
 */
struct ready {
    _Alignas(64) atomic_size_t head;
    _Alignas(64) atomic_size_t tail;
    _Alignas(64) atomic_uint_least64_t *slots;
    size_t mask;
    int lap_shift;
};

enum {
    READY_LAP_BITS = 8,
    READY_ITEM_BITS = 64 - READY_LAP_BITS
};

MUST_CHECK enum status ready_init(struct ready *q, size_t n_instances);
void ready_fini(struct ready *q);

/* `item` has READY_ITEM_BITS. */
void ready_push(struct ready *q, uint64_t item);

/* False if there is none. */
bool ready_pop(struct ready *q, uint64_t *item);

/* Is something there? Sequentially consistent, for use before going to sleep. */
bool ready_any(const struct ready *q);

#endif
