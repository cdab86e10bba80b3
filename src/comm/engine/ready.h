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
 * pushed again only after it has been popped and run. So at most `size` are inside or being popped,
 * and a slot is never written before whoever popped it has cleared it.
 */
struct ready {
    _Alignas(64) atomic_size_t head;
    _Alignas(64) atomic_size_t tail;
    _Alignas(64) atomic_uint_least64_t *slots;
    size_t mask;
};

MUST_CHECK enum status ready_init(struct ready *q, size_t n_instances);
void ready_fini(struct ready *q);

/* `item` is not 0. */
void ready_push(struct ready *q, uint64_t item);

/* 0 if there is none. */
uint64_t ready_pop(struct ready *q);

/* Is something there? Sequentially consistent, for use before going to sleep. */
bool ready_any(const struct ready *q);

#endif
