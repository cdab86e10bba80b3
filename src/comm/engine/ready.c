#include "comm/engine/ready.h"

#include "base/mem.h"

enum status ready_init(struct ready *q, size_t n_instances)
{
    size_t n = 1;

    q->lap_shift = 0;
    while (n < n_instances) {
        n *= 2;
        q->lap_shift++;
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

/* The mark of the lap of place `at`; the slots start with that of the lap before the first. */
static uint64_t lap_of(const struct ready *q, size_t at)
{
    return (uint64_t)((at >> q->lap_shift) + 1) << READY_ITEM_BITS;
}

static bool is_of(uint64_t word, uint64_t lap)
{
    return (word ^ lap) >> READY_ITEM_BITS == 0;
}

void ready_push(struct ready *q, uint64_t item)
{
    size_t at = atomic_fetch_add_explicit(&q->tail, 1, memory_order_relaxed);

    atomic_store(&q->slots[at & q->mask], lap_of(q, at) | item);
}

bool ready_pop(struct ready *q, uint64_t *item)
{
    size_t at = atomic_load_explicit(&q->head, memory_order_relaxed);

    for (;;) {
        uint64_t word = atomic_load_explicit(&q->slots[at & q->mask], memory_order_acquire);
        if (!is_of(word, lap_of(q, at))) {
            size_t now = atomic_load_explicit(&q->head, memory_order_acquire);
            if (now == at) {
                return false;
            }
            at = now; /* somebody else has just taken it: look at the next one */
        } else if (atomic_compare_exchange_weak_explicit(
                       &q->head, &at, at + 1, memory_order_acq_rel, memory_order_relaxed)) {
            *item = word & (((uint64_t)1 << READY_ITEM_BITS) - 1);
            return true;
        }
    }
}

bool ready_any(const struct ready *q)
{
    for (size_t at = atomic_load(&q->head);;) {
        size_t now;
        if (is_of(atomic_load(&q->slots[at & q->mask]), lap_of(q, at))) {
            return true;
        }
        now = atomic_load(&q->head);
        if (now == at) {
            return false;
        }
        at = now; /* that one has just been taken */
    }
}
