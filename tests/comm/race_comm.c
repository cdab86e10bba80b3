/*
 * Ranks that post and wait in orders of their own, step after step, with and without workers, and
 * an abort in the middle: a driver for ThreadSanitizer, which a test framework's processes do not
 * start under. Exits with 0 if every sum was right.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rank_race.h"

enum {
    STEPS = 100
};

/* Returns the number of failures. */
static size_t run(const char *backend, int64_t workers, int abort_at, const char *fabric)
{
    struct config_comm cfg = {.backend = (char *)(uintptr_t)backend,
                              .chunk_bytes = 8192,
                              .chunks = (char *)(uintptr_t) "",
                              .timeout_s = 300,
                              .topology = (char *)(uintptr_t) "",
                              .plan = (char *)(uintptr_t) "",
                              .treepack = (char *)(uintptr_t) "exact",
                              .wire = (char *)"fp32",
                              .fabric = (char *)(uintptr_t)fabric,
                              .fabric_scale = 1e-7,
                              .workers = workers,
                              .order = (char *)(uintptr_t) "fifo",
                              .buckets = (char *)(uintptr_t) "size",
                              .sync = (char *)(uintptr_t) "allreduce"};
    static const size_t sizes[RACE_BUCKETS] = {30000, 3, 5000};

    return rank_race((struct comm_args){.cfg = &cfg}, sizes, STEPS, abort_at);
}

int main(void)
{
    size_t failures = 0;

    for (size_t i = 0; planner_at(i) != NULL; i++) {
        const char *backend = planner_at(i)->name;
        failures += run(backend, 0, -1, "memory") + run(backend, 2, -1, "memory");
        failures += run(backend, 1, STEPS / 2, "memory") + run(backend, 0, -1, "emulate");
    }
    printf("race_comm: %zu failures\n", failures);
    return failures == 0 && mem_live() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
