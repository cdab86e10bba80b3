#ifndef COMM_RING_CYCLES_H
#define COMM_RING_CYCLES_H

#include <stdint.h>

#include "base/status.h"
#include "comm/plan.h"

/* A directed cycle through all devices. */
struct cycle {
    int *order;        /* [n_devices] ranks */
    struct path *hops; /* [n_devices] from order[k] to the next one */
    int64_t width;     /* bytes/s that all its links have left for it */
};

enum {
    MAX_CYCLES = 16
};

struct cycles {
    struct cycle cycles[MAX_CYCLES];
    int n, n_devices;
};

/*
 * Cycles that together overload no link: the one with the fattest thinnest hop first, then the
 * same on what it leaves. Where links have both directions, each cycle is followed by its reverse.
 * Cycles that carry little beside the first one are left out. Among up to 16 devices, where more
 * cycles over direct links of two directions carry more in all, those are found, by a search that
 * is complete but for a limit on its steps. In memory, where links stand for
 * nothing, one cycle is enough. `out` is to be released in any case. Errors: ST_NOMEM.
 */
MUST_CHECK enum status cycles_find(const struct topo *t, struct cycles *out);
void cycles_fini(struct cycles *c);

#endif
