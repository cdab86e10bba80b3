#include <criterion/criterion.h>
#include <pthread.h>

#include "base/mem.h"
#include "comm/engine/ready.h"

Test(ready, items_come_out_once_in_order_over_many_laps)
{
    for (size_t n = 0; n < 10; n++) {
        struct ready q;
        uint64_t pushed = 0, popped = 0, item;
        cr_assert_eq(ready_init(&q, n), ST_OK);
        for (int lap = 0; lap < 3000; lap++) {
            for (size_t k = 0; k < n; k++) {
                ready_push(&q, pushed++ % 1000);
            }
            for (size_t k = 0; k < n; k++) {
                cr_assert(ready_any(&q));
                cr_assert(ready_pop(&q, &item));
                cr_assert_eq(item, popped++ % 1000);
            }
            cr_assert_not(ready_any(&q));
            cr_assert_not(ready_pop(&q, &item));
        }
        ready_fini(&q);
    }
    cr_assert_eq(mem_live(), 0);
}

/*
 * Three threads pop items and push each back: at any time each item must be in one place only. With
 * as many slots as items a reader that took an old slot for a new one would double an item.
 */
enum {
    N_ITEMS = 4,
    TURNS = 200000
};

struct shared {
    struct ready q;
    atomic_int held[N_ITEMS];
    atomic_int doubled;
};

static void *juggle(void *arg)
{
    struct shared *s = arg;
    uint64_t item;

    for (int k = 0; k < TURNS; k++) {
        if (ready_pop(&s->q, &item)) {
            if (atomic_fetch_add(&s->held[item], 1) != 0) {
                atomic_fetch_add(&s->doubled, 1);
            }
            atomic_fetch_sub(&s->held[item], 1);
            ready_push(&s->q, item);
        }
    }
    return NULL;
}

Test(ready, an_item_is_never_in_two_hands)
{
    struct shared s = {0};
    pthread_t threads[3];
    uint64_t item;

    cr_assert_eq(ready_init(&s.q, N_ITEMS), ST_OK);
    for (uint64_t k = 0; k < N_ITEMS; k++) {
        ready_push(&s.q, k);
    }
    for (int t = 0; t < 3; t++) {
        cr_assert_eq(pthread_create(&threads[t], NULL, juggle, &s), 0);
    }
    for (int t = 0; t < 3; t++) {
        cr_assert_eq(pthread_join(threads[t], NULL), 0);
    }
    cr_assert_eq(atomic_load(&s.doubled), 0);
    for (int k = 0; k < N_ITEMS; k++) {
        cr_assert(ready_pop(&s.q, &item));
    }
    cr_assert_not(ready_pop(&s.q, &item));
    ready_fini(&s.q);
}
