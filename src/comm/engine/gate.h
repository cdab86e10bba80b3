#ifndef COMM_ENGINE_GATE_H
#define COMM_ENGINE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Where one thread sleeps until another has news for it. No news is lost if the sleeper looks for
 * it between gate_prepare and gate_sleep, and the waker makes it visible (by a sequentially
 * consistent store) before gate_wake.
 *
 *     ticket = gate_prepare(g);
 *     if (!news()) gate_sleep(g, ticket, ns); else gate_cancel(g);
 */
struct gate {
    _Alignas(64) atomic_uint epoch;
    atomic_uint sleeping;
};

unsigned gate_prepare(struct gate *g);
void gate_cancel(struct gate *g);

/* Sleep for `ns` nanoseconds at most. */
void gate_sleep(struct gate *g, unsigned ticket, int64_t ns);

/* True if somebody slept there, or was about to. */
bool gate_wake(struct gate *g);

#endif
