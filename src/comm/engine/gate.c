#include "comm/engine/gate.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

unsigned gate_prepare(struct gate *g)
{
    unsigned ticket = atomic_load(&g->epoch);

    atomic_fetch_add(&g->sleeping, 1);
    return ticket;
}

void gate_cancel(struct gate *g)
{
    atomic_fetch_sub(&g->sleeping, 1);
}

void gate_sleep(struct gate *g, unsigned ticket, int64_t ns)
{
    struct timespec left = {ns / 1000000000, ns % 1000000000};

    if (ns > 0) {
        (void)syscall(SYS_futex, &g->epoch, FUTEX_WAIT_PRIVATE, ticket, &left, NULL, 0);
    }
    atomic_fetch_sub(&g->sleeping, 1);
}

bool gate_wake(struct gate *g)
{
    if (atomic_load(&g->sleeping) == 0) {
        return false;
    }
    atomic_fetch_add(&g->epoch, 1);
    (void)syscall(SYS_futex, &g->epoch, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    return true;
}

bool gate_can_order(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void gate_order(void)
{
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
