#include "comm/agenda.h"

#include <assert.h>

#include "base/mem.h"

enum status agenda_init(struct agenda *a, size_t capacity)
{
    a->n = 0;
    a->n_added = 0;
    a->capacity = capacity;
    a->heap = mem_alloc(capacity, sizeof *a->heap);
    return a->heap == NULL ? ST_NOMEM : ST_OK;
}

void agenda_fini(struct agenda *a)
{
    mem_free(a->heap);
}

static bool before(const struct agenda_entry *x, const struct agenda_entry *y)
{
    return x->when < y->when || (x->when == y->when && x->number < y->number);
}

void agenda_add(struct agenda *a, struct agenda_entry e)
{
    size_t i = a->n++;

    assert(a->n <= a->capacity);
    e.number = a->n_added++;
    for (; i > 0 && before(&e, &a->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        a->heap[i] = a->heap[(i - 1) / 2];
    }
    a->heap[i] = e;
}

const struct agenda_entry *agenda_first(const struct agenda *a)
{
    return a->n > 0 ? &a->heap[0] : NULL;
}

struct agenda_entry agenda_take(struct agenda *a)
{
    struct agenda_entry first = a->heap[0], last = a->heap[--a->n];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < a->n; i = child) {
        if (child + 1 < a->n && before(&a->heap[child + 1], &a->heap[child])) {
            child++;
        }
        if (before(&last, &a->heap[child])) {
            break;
        }
        a->heap[i] = a->heap[child];
    }
    a->heap[i] = last;
    return first;
}
