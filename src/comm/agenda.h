#ifndef COMM_AGENDA_H
#define COMM_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Things to come, the earliest first; of equal times the one that was added first. */
struct agenda_entry {
    int64_t when; /* in any unit */
    unsigned long long number;
    size_t what;
    int kind;
};

struct agenda {
    struct agenda_entry *heap;
    size_t n, capacity;
    unsigned long long n_added;
};

/* Room for `capacity` entries at a time. Errors: ST_NOMEM. */
MUST_CHECK enum status agenda_init(struct agenda *a, size_t capacity);
void agenda_fini(struct agenda *a);

/* The number is given here. */
void agenda_add(struct agenda *a, struct agenda_entry e);

/* The earliest entry, or NULL. */
const struct agenda_entry *agenda_first(const struct agenda *a);
struct agenda_entry agenda_take(struct agenda *a);

#endif
