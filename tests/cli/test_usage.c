#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_testing.h"
#include "config/config.h"

static struct cli_outcome o;

TestSuite(usage, .fini = cli_clean);

Test(usage, help_lists_flags_keys_networks_and_backends)
{
    static const char *const parts[] = {
        "--config FILE",
        "--set",
        "--dry-run",
        "--version",
        "--help",
        "--batch-size",
        "\n  lenet",
        "\n  resnet20",
        "\n  mlp",
        "\n  onehop",
        "\n  ring",
        "\n  central",
        "[train] ",
        "[debug] ",
        "  weight_decay = 0\n",
        "Exit codes",
        "batch_per_device * accum_steps * devices",
    };
    char *keys = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&keys, &n);

    config_help(f);
    cr_assert_eq(fclose(f), 0);
    CLI_RUN(&o, "--help");
    cr_assert_eq(o.code, 0);
    cr_assert_eq(o.n_err, 0);
    cr_assert_not_null(strstr(o.out, keys));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        cr_assert_not_null(strstr(o.out, parts[i]), "%s", parts[i]);
    }
    free(keys);
    CLI_RUN(&o, "-h");
    cr_assert_eq(o.code, 0);
}

Test(usage, version_names_commit_and_libraries)
{
    CLI_RUN(&o, "--version");
    cr_assert_eq(o.code, 0);
    cr_assert_not_null(strstr(o.out, "commit"));
    cr_assert_not_null(strstr(o.out, "oneDNN"));
    cr_assert_not_null(strstr(o.out, "compiler"));
}

Test(usage, mistakes_end_with_2_and_a_hint)
{
    CLI_RUN(&o, "--confg", "x.ini");
    CLI_REFUSED(&o, 2, "unknown flag", "--confg", "did you mean --config?");
    CLI_RUN(&o, "--config", "quickstart.ini", "--batchsize=3");
    CLI_REFUSED(&o, 2, "--batchsize=3", "did you mean --batch-size?");
    CLI_RUN(&o, "--set", "optim.lr=1");
    CLI_REFUSED(&o, 2, "no config file", "--config quickstart.ini");
    CLI_RUN(&o, "quickstart.ini");
    CLI_REFUSED(&o, 2, "quickstart.ini", "--help");
    CLI_RUN(&o, "--config");
    CLI_REFUSED(&o, 2, "--config has no value");
    CLI_RUN(&o, "--config", "--dry-run");
    CLI_REFUSED(&o, 2, "--config has no value");
    CLI_RUN(&o, "--config", "a.ini", "--config", "b.ini");
    CLI_REFUSED(&o, 2, "twice", "a.ini", "b.ini");
    CLI_RUN(&o, "--dry-run=yes");
    CLI_REFUSED(&o, 2, "--dry-run takes no value");
    CLI_RUN(&o, "--config", "quikstart.ini");
    CLI_REFUSED(&o, 2, "no such config file", "quikstart.ini", "did you mean quickstart.ini?");
    CLI_RUN(&o, "--config", "quickstart.ini", "--lr", "0,1");
    CLI_REFUSED(&o, 2, "optim.lr", "'0,1'", "point");
    cli_run(&o, (const char *const[]){NULL});
    CLI_REFUSED(&o, 2, "no config file");
}

/* All ways to say the same give the same effective config, and --set wins over the file. */
Test(usage, forms_of_flags_agree)
{
    char first[CLI_TEXT_BYTES];

    cli_write_tiny(40);
    CLI_RUN(&o, "--config", cli_path("tiny.ini"), "--dry-run", "--lr", "0.25", "--seed", "7");
    cr_assert_eq(o.code, 0, "%s", o.err);
    cr_assert_not_null(strstr(o.out, "\nlr = 0.25\n"));
    cr_assert_not_null(strstr(o.out, "\nseed = 7\n"));
    cr_assert_not_null(strstr(o.out, "\nhidden = 8\n"));
    memcpy(first, o.out, sizeof first);
    CLI_RUN(&o, "--lr=0.25", "--seed=7", "--dry-run", "--config=tiny.ini");
    cr_assert_eq(o.code, 0, "%s", o.err);
    cr_assert_str_eq(o.out, first);
    CLI_RUN(&o, "--set", "optim.lr=9", "--set=train.seed=7", "--set", "optim.lr=0.25", "--config",
            "tiny", "--dry-run");
    CLI_REFUSED(&o, 2, "no such config file", "tiny");
    CLI_RUN(&o, "--set", "optim.lr=9", "--set=train.seed=7", "--set", "optim.lr=0.25", "--config",
            "tiny.ini", "--dry-run");
    cr_assert_str_eq(o.out, first);
    cr_assert_not(cli_exists("run"), "a dry run leaves nothing behind");
}

/* Batch arithmetic is shown and multiplies out; the rate is not touched by the number of devices.
 */
Test(usage, dry_run_shows_the_batches)
{
    static const char *const counts[] = {"1", "2", "4"};

    cli_write_tiny(96);
    for (int i = 0; i < 3; i++) {
        char global[64], steps[64];

        CLI_RUN(&o, "--config", "tiny.ini", "--dry-run", "--devices", counts[i], "--max-steps", "6",
                "--set", "train.accum_steps=2");
        cr_assert_eq(o.code, 0, "%s", o.err);
        (void)snprintf(global, sizeof global, "global batch      %d = 8 * 2 * %s", 16 << i,
                       counts[i]);
        (void)snprintf(steps, sizeof steps, "steps per epoch   %d", 6 >> i == 1 ? 2 : 6 >> i);
        cr_assert_not_null(strstr(o.out, global), "%s", o.out);
        cr_assert_not_null(strstr(o.out, steps), "%s", o.out);
        cr_assert_not_null(strstr(o.out, "learning rate     0.05"), "%s", o.out);
        cr_assert_not_null(strstr(o.out, "batch per device  8"), "%s", o.out);
    }
}

Test(usage, lost_output_is_no_success)
{
    static const char *const help[] = {"--help", NULL}, *const version[] = {"--version", NULL};
    static const char *const dry[] = {"--config", "tiny.ini", "--dry-run", NULL};
    static const char *const whole[] = {"--config", "tiny.ini", NULL};

    cli_write_tiny(40);
    cli_run_to(&o, "/dev/full", help);
    CLI_REFUSED(&o, 1, "cannot write", "No space left", "standard output");
    cli_run_to(&o, "/dev/full", version);
    CLI_REFUSED(&o, 1, "cannot write");
    cli_run_to(&o, "/dev/full", dry);
    CLI_REFUSED(&o, 1, "cannot write");
    cli_run_to(&o, "/dev/full", whole);
    CLI_REFUSED(&o, 1, "cannot write");
}
