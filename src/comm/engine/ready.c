#include "comm/engine/ready.h"

#include "base/mem.h"

enum status ready_init(struct ready *q, size_t n_instances)
{
    size_t n = 1;

    while (n < n_instances) {
        n *= 2;
    }
    atomic_init(&q->head, 0);
    atomic_init(&q->tail, 0);
    q->mask = n - 1;
    q->slots = mem_alloc(n, sizeof *q->slots);
    return q->slots == NULL ? ST_NOMEM : ST_OK;
}

void ready_fini(struct ready *q)
{
    mem_free(q->slots);
}

void ready_push(struct ready *q, uint64_t item)
{
    size_t at = atomic_fetch_add_explicit(&q->tail, 1, memory_order_relaxed);

    atomic_store(&q->slots[at & q->mask], item);
}

uint64_t ready_pop(struct ready *q)
{
    size_t at = atomic_load_explicit(&q->head, memory_order_relaxed);

    for (;;) {
        atomic_uint_least64_t *slot = &q->slots[at & q->mask];
        uint64_t item = atomic_load_explicit(slot, memory_order_acquire);
        if (item == 0) {
            size_t now = atomic_load_explicit(&q->head, memory_order_acquire);
            if (now == at) {
                return 0;
            }
            at = now; /* somebody else has just taken it: look at the next one */
            continue;
        }
        if (atomic_compare_exchange_weak_explicit(&q->head, &at, at + 1, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            atomic_store_explicit(slot, 0, memory_order_release);
            return item;
        }
    }
}

bool ready_any(const struct ready *q)
{
    for (size_t at = atomic_load(&q->head);;) {
        size_t now;
        if (atomic_load(&q->slots[at & q->mask]) != 0) {
            return true;
        }
        now = atomic_load(&q->head);
        if (now == at) {
            return false;
        }
        at = now; /* that one has just been taken */
    }
}
