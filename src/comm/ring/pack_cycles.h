#ifndef COMM_RING_PACK_CYCLES_H
#define COMM_RING_PACK_CYCLES_H

#include <stdbool.h>

/*
 * Look for `n_cycles` cycles through all of n >= 3 vertices that use no edge more often than
 * units[a * n + b] = units[b * n + a] says. The search is complete; it takes at most `budget`
 * steps. `orders` [n_cycles, n] gets the cycles, equal ones behind each other. `units` and `used`
 * [n] are work space too. Returns whether they were found; `*exhausted` tells that the budget was
 * too small to know.
 */
bool pack_cycles(int *units, int n, int n_cycles, long budget, bool *used, int *orders,
                 bool *exhausted);

#endif
