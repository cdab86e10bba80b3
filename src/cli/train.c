/* train: trains the network of a config file. See --help. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/args.h"
#include "cli/backends.h"
#include "cli/train_options.h"
#include "cli/version.h"
#include "config/config.h"
#include "models/models.h"
#include "train/trainer.h"

/* A signal handler has no other way to its trainer. Set once before, and cleared after the run. */
static struct trainer *volatile running;
static volatile sig_atomic_t signalled;

/* The first signal ends the run after its step; the second one, or one when nothing runs yet, at
 * once. */
static void on_signal(int number)
{
    if (running == NULL || signalled != 0) {
        _exit(128 + number);
    }
    signalled = number;
    trainer_cancel(running, number);
}

/* A signal that is ignored already, as under nohup, stays so. */
static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;

    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (sigaction(signals[i], NULL, &before) != 0 || before.sa_handler != SIG_IGN) {
            (void)sigaction(signals[i], &action, NULL);
        }
    }
}

static void print_help(void)
{
    (void)fputs("Trains the network of a config file with data-parallel SGD.\n\n"
                "  train --config FILE [--set SECTION.KEY=VALUE]... [FLAG]...\n\n"
                "Flags (--flag VALUE or --flag=VALUE; in brackets the key that a flag sets):\n",
                stdout);
    train_options_print(stdout);
    (void)fputs("\nNetworks, [model] name:\n", stdout);
    for (size_t i = 0; model_at(i) != NULL; i++) {
        (void)printf("  %-14s %s\n", model_at(i)->name, model_at(i)->desc);
    }
    (void)fputs("\nBackends, [comm] backend:\n", stdout);
    backends_print(stdout);
    (void)fputs("\nKeys, their defaults and ranges:\n\n", stdout);
    config_help(stdout);
    (void)fputs("\nExit codes: 0 success; 1 run-time failure; 2 bad usage, config or input; 3 "
                "non-finite loss;\n4 communication time-out or lost rank; 128 + n ended by signal "
                "n.\n",
                stdout);
}

static enum status train(const struct config *cfg, bool dry_run)
{
    struct trainer *t = NULL;
    struct trainer_summary summary;
    enum status st;

    if (dry_run) {
        config_write(cfg, stdout);
        (void)fputc('\n', stdout);
    } else {
        (void)printf("config            %s\n", cfg->file);
    }
    TRY(args_flush_stdout()); /* lost output is found before the work is done */
    st = trainer_create(cfg, dry_run, &t);
    if (st == ST_OK && dry_run) {
        trainer_describe(t, stdout);
    } else if (st == ST_OK) {
        running = t;
        st = trainer_run(t, &summary);
        running = NULL;
        if (trainer_is_stuck(t)) {
            _exit(status_exit_code(st)); /* what is left may be in use */
        }
    }
    trainer_destroy(t);
    return st;
}

static enum status run(int argc, const char *const *argv)
{
    struct train_options options;
    struct config cfg = {0};
    enum status st = train_options_parse(argc, argv, &options);

    if (st == ST_OK && options.help) {
        print_help();
    } else if (st == ST_OK && options.version) {
        version_print("train", stdout);
    } else if (st == ST_OK) {
        st = train_options_config(&options, &cfg);
        st = st == ST_OK ? train(&cfg, options.dry_run) : st;
    }
    config_fini(&cfg);
    train_options_fini(&options);
    return st;
}

int main(int argc, char **argv)
{
    enum status st;

    catch_signals();
    st = run(argc, (const char *const *)argv);
    if (st == ST_OK) {
        st = args_flush_stdout();
    }
    return status_exit_code(st) + (st == ST_CANCELLED ? signalled : 0);
}
