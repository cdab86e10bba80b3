/* Ranks on one machine share its cores instead of each taking all of them. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_testing.h"

static struct cli_outcome o;

TestSuite(cores, .fini = cli_clean);

/* Leave this process and its children the first `n` of the cores that it has; false if it has
 * fewer. */
static bool restrict_cores(int n)
{
    cpu_set_t all, some;

    CPU_ZERO(&some);
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&some) < n; c++) {
        if (CPU_ISSET(c, &all)) {
            CPU_SET(c, &some);
        }
    }
    return CPU_COUNT(&some) == n && sched_setaffinity(0, sizeof some, &some) == 0;
}

static void check_threads(const char *devices, const char *more, int want)
{
    char line[64];

    CLI_RUN(&o, "--config", "tiny.ini", "--dry-run", "--devices", devices, "--set", more);
    cr_assert_eq(o.code, 0, "%s", o.err);
    (void)snprintf(line, sizeof line, "devices           %s x cpu, %d thread%s each", devices, want,
                   want == 1 ? "" : "s");
    cr_assert_not_null(strstr(o.out, line), "%s not in %s", line, o.out);
}

static const char *const nothing = "device.threads_per_device=0";

Test(cores, are_shared_out_among_the_ranks)
{
    static const char *const devices[] = {"1", "2", "3", "4"};
    cpu_set_t mask;
    int n_cores;

    cli_write_tiny(103);
    cr_assert_eq(unsetenv("OMP_NUM_THREADS"), 0);
    cr_assert_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    n_cores = CPU_COUNT(&mask);
    for (int p = 1; p <= 4; p++) {
        check_threads(devices[p - 1], nothing, n_cores / p > 1 ? n_cores / p : 1);
    }
}

Test(cores, are_those_that_the_process_may_use)
{
    cli_write_tiny(103);
    cr_assert_eq(unsetenv("OMP_NUM_THREADS"), 0);
    if (restrict_cores(2)) {
        check_threads("1", nothing, 2);
        check_threads("2", nothing, 1);
    }
    cr_assert(restrict_cores(1));
    check_threads("1", nothing, 1);
    check_threads("2", nothing, 1);
}

/* The variable counts for each rank; the config counts more. */
Test(cores, are_what_the_user_says)
{
    cli_write_tiny(103);
    cr_assert_eq(setenv("OMP_NUM_THREADS", "3", 1), 0);
    check_threads("2", nothing, 3);
    check_threads("2", "device.threads_per_device=2", 2);
    cr_assert_eq(setenv("OMP_NUM_THREADS", "8", 1), 0);
    check_threads("4", nothing, 8);
    cr_assert_eq(unsetenv("OMP_NUM_THREADS"), 0);
    check_threads("3", "device.threads_per_device=5", 5);
}
