#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli_testing.h"

static struct cli_outcome o;

TestSuite(runs, .fini = cli_clean);

static void remove_run(void)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", cli_path("run"));
    cr_assert_eq(system(command), 0);
}

/* JSON has no word for a value that is not finite. */
static void check_json(void)
{
    static const char *const words[] = {": nan", ": -nan", ": inf", ": -inf", "NaN", "Infinity"};

    cr_assert_not_null(strchr(cli_read_file("run/summary.json"), '}'));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        cr_assert_null(strstr(cli_read_file("run/summary.json"), words[i]), "%s", words[i]);
    }
}

/* 103 images do not divide by anything here; nobody hangs, and every image is used. */
Test(runs, any_number_of_images_works_on_any_number_of_devices)
{
    static const char *const backends[] = {"comm.backend=central", "comm.backend=onehop",
                                           "comm.backend=ring"};
    static const int counts[] = {1, 2, 3, 4, 7};

    cli_write_tiny(103);
    for (size_t b = 0; b < 3; b++) {
        for (size_t i = 0; i < 5; i++) {
            char devices[32], steps[64];
            int per_epoch = (103 + 8 * counts[i] - 1) / (8 * counts[i]);

            remove_run();
            (void)snprintf(devices, sizeof devices, "device.count=%d", counts[i]);
            CLI_TINY(&o, backends[b], devices, "train.epochs=3");
            cr_assert_eq(o.code, 0, "%s %s: %s", backends[b], devices, o.err);
            (void)snprintf(steps, sizeof steps, "finished after %d of %d steps: 309 images",
                           3 * per_epoch, 3 * per_epoch);
            cr_assert_not_null(strstr(o.out, steps), "%s not in %s", steps, o.out);
            cr_assert_eq(cli_count(o.out, "test_images=21"), 3, "%s", o.out);
        }
    }
}

Test(runs, a_diverging_run_ends_with_3_and_names_step_and_layer)
{
    cli_write_tiny(103);
    CLI_TINY(&o, "optim.lr=1e30", "device.count=2");
    cr_assert_eq(o.code, 3, "%d: %s", o.code, o.err);
    cr_assert_eq(o.n_err, 1, "%s", o.err);
    cr_assert(strstr(o.err, "step ") != NULL && strstr(o.err, "layer ") != NULL, "%s", o.err);
    cr_assert_null(strstr(o.out, "-nan"));
    cr_assert_null(strstr(cli_read_file("run/steps.csv"), "-nan"));
}

Test(runs, a_planted_nan_is_found_where_it_was_planted)
{
    cli_write_tiny(103);
    CLI_TINY(&o, "debug.inject=nan:1@3", "device.count=2");
    cr_assert_eq(o.code, 3, "%d: %s", o.code, o.err);
    cr_assert_eq(o.n_err, 1, "%s", o.err);
    cr_assert(strstr(o.err, "step 3") != NULL && strstr(o.err, "rank 1") != NULL, "%s", o.err);
    check_json();
    remove_run();
    CLI_TINY(&o, "debug.inject=nan:1@3", "device.count=2", "train.on_nan=skip");
    cr_assert_eq(o.code, 0, "%d: %s", o.code, o.err);
    cr_assert_not_null(strstr(o.out, "skipped 1 step"), "%s", o.out);
    remove_run();
    CLI_TINY(&o, "debug.inject=nan:1@3", "device.count=2", "train.on_nan=ignore");
    cr_assert_eq(o.code, 0, "%d: %s", o.code, o.err);
    cr_assert_not_null(strstr(cli_read_file("run/steps.csv"), "nan"), "%s",
                       cli_read_file("run/steps.csv"));
    check_json();
    cr_assert_not_null(strstr(cli_read_file("run/summary.json"), "null"));
}

Test(runs, a_failing_rank_is_the_last_word)
{
    static const char *const backends[] = {"comm.backend=central", "comm.backend=onehop",
                                           "comm.backend=ring"};

    cli_write_tiny(103);
    for (size_t b = 0; b < 3; b++) {
        const char *last;

        remove_run();
        CLI_TINY(&o, backends[b], "debug.inject=fail:1@2", "device.count=3");
        cr_assert(o.code != 0 && o.code != -1, "%d", o.code);
        cr_assert_eq(cli_count(o.err, "rank 1"), 1, "%s", o.err);
        last = strstr(o.err, "rank 1");
        cr_assert_eq(cli_count(last, "\n"), 1, "not the last line: %s", o.err);
        cr_assert_null(strstr(o.out, "finished"));
    }
}

Test(runs, a_stalled_rank_times_out_with_4)
{
    cli_write_tiny(103);
    CLI_TINY(&o, "debug.inject=stall:1@2:2s", "device.count=3", "comm.timeout_s=1");
    cr_assert_eq(o.code, 4, "%d: %s", o.code, o.err);
    cr_assert_not_null(strstr(o.err, "rank 1"), "%s", o.err);
}

/* A thread that never comes back: the process ends without it, with what there is. */
Test(runs, a_hanging_rank_does_not_keep_the_process)
{
    cli_write_tiny(103);
    CLI_TINY(&o, "debug.inject=stall:0@3", "device.count=3", "comm.timeout_s=1");
    cr_assert_eq(o.code, 4, "%d: %s", o.code, o.err);
    cr_assert_eq(o.n_err, 1, "%s", o.err);
    cr_assert_not_null(strstr(o.err, "waiting for rank 0,"), "%s", o.err);
    cr_assert_not_null(strstr(cli_read_file("run/summary.json"), "timed out"));
    cr_assert_not_null(strstr(o.out, "stopped after 2 of"), "%s", o.out);
}

static void wait_for(const char *name, const char *part)
{
    const struct timespec pause = {0, 5000000};

    for (int i = 0; i < 12000 && strstr(cli_read_file(name), part) == NULL; i++) {
        (void)nanosleep(&pause, NULL);
    }
    cr_assert_not_null(strstr(cli_read_file(name), part), "%s never held %s", name, part);
}

static const char *const long_run[] = {"--config", "tiny.ini", "--devices", "2",
                                       "--epochs", "1000000",  NULL};

/* The terminal was closed, or somebody pressed ^C, or asked the process to end. */
Test(runs, signals_end_after_the_step_with_what_there_is)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

    cli_write_tiny(103);
    for (int i = 0; i < 3; i++) {
        int process;

        remove_run();
        (void)unlink(cli_path("stdout"));
        process = cli_start(long_run);
        wait_for("stdout", "step=3");
        cr_assert_eq(kill(process, signals[i]), 0);
        cli_finish(process, &o);
        cr_assert_eq(o.code, 128 + signals[i], "%d: %s", o.code, o.err);
        cr_assert_not_null(strstr(cli_read_file("run/summary.json"), "}"));
    }
}

/* Under nohup a closed terminal is no reason to end. */
Test(runs, an_ignored_signal_stays_ignored)
{
    int process;

    cli_write_tiny(103);
    cr_assert_neq(signal(SIGHUP, SIG_IGN), SIG_ERR); /* the program inherits that */
    process = cli_start(long_run);
    wait_for("stdout", "step=3");
    cr_assert_eq(kill(process, SIGHUP), 0);
    wait_for("stdout", "step=40");
    cr_assert_eq(kill(process, SIGTERM), 0);
    cli_finish(process, &o);
    cr_assert_eq(o.code, 128 + SIGTERM, "%d: %s", o.code, o.err);
}

/* What is in a folder but the shared memory of other tests' processes, which comes and goes. */
static size_t count_entries(const char *folder)
{
    DIR *d = opendir(folder);
    size_t n = 0;

    cr_assert_not_null(d, "%s", folder);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        n += strncmp(e->d_name, "bxf", 3) != 0;
    }
    (void)closedir(d);
    return n;
}

/* Twenty times: four ranks, ended in every way there is; nothing is left, and the next one runs. */
Test(runs, twenty_ends_leave_nothing_behind)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
    const char *const words[] = {"--config", "tiny.ini", "--devices", "4",
                                 "--epochs", "1000000",  NULL};

    size_t temporary = 0;

    cli_write_tiny(103);
    for (int i = 0; i < 20; i++) {
        const int number = signals[i % 4];
        const size_t shared = count_entries("/dev/shm");
        struct timespec from, now;
        int process;

        (void)unlink(cli_path("stdout"));
        process = cli_start(words);
        wait_for("stdout", "step=3");
        (void)clock_gettime(CLOCK_MONOTONIC, &from);
        cr_assert_eq(kill(process, number), 0);
        cli_finish(process, &o);
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        cr_assert_eq(o.code, 128 + number, "%d: %s", o.code, o.err);
        cr_assert_leq(now.tv_sec - from.tv_sec, 5);
        cr_assert_eq(kill(process, 0), -1, "a process is left");
        cr_assert_leq(count_entries("/dev/shm"), shared, "shared memory is left");
        remove_run();
        temporary = i == 0 ? count_entries(cli_folder()) : temporary; /* output, and a cache */
        cr_assert_eq(count_entries(cli_folder()), temporary, "more than its output is left");
    }
}

Test(runs, results_that_vanish_are_noticed)
{
    char command[256];
    int process;

    cli_write_tiny(103);
    process = cli_start(long_run);
    wait_for("stdout", "step=3");
    (void)snprintf(command, sizeof command, "rm -rf '%s'", cli_path("run"));
    cr_assert_eq(system(command), 0);
    cli_finish(process, &o);
    cr_assert_eq(o.code, 1, "%d: %s", o.code, o.err);
    cr_assert_not_null(strstr(o.err, cli_path("run")), "%s", o.err);
}

/* The program never asks for the user's locale, so LC_ALL has no say. */
Test(runs, numbers_have_points_in_every_locale)
{
    const char *csv;

    cli_write_tiny(40);
    cr_assert_eq(setenv("LC_ALL", "de_DE.UTF-8", 1), 0);
    CLI_TINY(&o, "optim.lr=0.25");
    cr_assert_eq(o.code, 0, "%s", o.err);
    csv = cli_read_file("run/steps.csv");
    cr_assert_not_null(strstr(csv, "0.25"), "%s", csv);
    cr_assert_null(strstr(csv, "0,25"));
}
