/*
 * Ranks that post in orders of their own on the CPU as a machine with several devices, by the
 * engine's own streams and by NCCL's double, whose work a thread watches; they read the times of
 * their buckets, and one of them aborts: a driver for ThreadSanitizer, which a test framework's
 * processes do not start under. Exits with 0 if every sum was right.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rank_race.h"

enum {
    STEPS = 60
};

static enum status count_all(int *n)
{
    *n = RACE_RANKS;
    return ST_OK;
}

/* Returns the number of failures. */
static size_t run(const char *backend, int abort_at)
{
    static const int devices[RACE_RANKS] = {0};
    struct config_comm cfg = {.backend = (char *)(uintptr_t)backend,
                              .nccl = (char *)TEST_BINARY_DIR "/lib/tests/nccl_double.so",
                              .nccl_log = (char *)"",
                              .chunk_bytes = 1024,
                              .chunks = (char *)"",
                              .timeout_s = 300,
                              .plan = (char *)"",
                              .treepack = (char *)"exact",
                              .wire = (char *)"fp32",
                              .fabric = (char *)"memory",
                              .order = (char *)"fifo",
                              .sync = (char *)"allreduce"};
    static const size_t sizes[RACE_BUCKETS] = {3000, 3, 500};
    struct device_place places[RACE_RANKS];
    struct device_ops device = device_cpu;
    size_t failures;
    void *set;

    device.count = count_all;
    if (device.open(devices, RACE_RANKS, &set) != ST_OK) {
        return 1;
    }
    for (int r = 0; r < RACE_RANKS; r++) {
        places[r] = (struct device_place){.ops = &device, .set = set, .rank = r, .device = r};
        if (device.stream_create(set, r, &places[r].stream) != ST_OK) {
            return 1;
        }
    }
    failures = rank_race((struct comm_args){.cfg = &cfg, .places = places, .timed = true}, sizes,
                         STEPS, abort_at);
    for (int r = 0; r < RACE_RANKS; r++) {
        device.stream_destroy(set, places[r].stream);
    }
    device.close(set);
    return failures;
}

int main(void)
{
    static const char *const backends[] = {"onehop", "ring", "nccl"};
    size_t failures = 0;

    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        failures += run(backends[i], -1) + run(backends[i], STEPS / 2);
    }
    printf("race_device: %zu failures\n", failures);
    return failures == 0 && mem_live() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
