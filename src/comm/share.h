#ifndef COMM_SHARE_H
#define COMM_SHARE_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/plan.h"

/* a + b in lowest terms; false, leaving `*out` alone, if that does not fit into 64 bits. */
bool share_add(struct share a, struct share b, struct share *out);

bool share_equal(struct share a, struct share b);

/* floor(n a) for 0 <= a <= 1, exact for every n. */
size_t share_floor(size_t n, struct share a);

#endif
