#ifndef COMM_ENGINE_GATE_H
#define COMM_ENGINE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Where one thread sleeps until another has news for it. No news is lost if the sleeper looks for
 * it between gate_prepare and gate_sleep, and the waker makes it visible before gate_wake: either
 * by a sequentially consistent store, or by any store if the sleeper calls gate_order before it
 * looks.
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

/*
 * A barrier for all threads of the process at once: each has either made its earlier stores
 * visible, or will see with its later loads what the caller has stored before. It costs the one
 * that goes to sleep some microseconds, and those that never sleep nothing. gate_can_order says
 * whether this system has it, and readies it.
 */
bool gate_can_order(void);
void gate_order(void);

#endif
