#include "cli/backends.h"

#include "comm/plan.h"

void backends_print(FILE *out)
{
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        (void)fprintf(out, "  %-14s %s\n", planner_at(i)->name, planner_at(i)->desc);
    }
    (void)fprintf(out, "  %-14s %s\n", "auto", "the one of these with the least predicted time");
    (void)fprintf(out, "  %-14s %s\n", "nccl", "NVIDIA's library, between GPUs only");
}
