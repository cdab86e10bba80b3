#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli_testing.h"

/* Wrong input ends with 2 and one line that names it, before the first step. */

static struct cli_outcome o;

TestSuite(input, .fini = cli_clean);

Test(input, missing_data_file)
{
    cli_write_tiny(40);
    cr_assert_eq(unlink(cli_path("train-images")), 0);
    CLI_TINY(&o, "train.epochs=1");
    CLI_REFUSED(&o, 2, "train-images");
    CLI_TINY(&o, "data.path=/no/such/folder");
    CLI_REFUSED(&o, 2, "/no/such/folder/train-images");
    CLI_TINY(&o, "data.dataset=cifar10", "data.path=/no/such/folder",
             "data.train_images=", "data.train_labels=", "data.test_images=", "data.test_labels=");
    CLI_REFUSED(&o, 2, "/no/such/folder", "cifar-10-binary.tar.gz");
}

Test(input, a_file_or_folder_in_place_of_the_other)
{
    cli_write_tiny(40);
    CLI_TINY(&o, "data.train_images=.");
    CLI_REFUSED(&o, 2, cli_folder(), "irectory");
    CLI_TINY(&o, "data.path=/dev/null");
    CLI_REFUSED(&o, 2, "/dev/null");
}

Test(input, truncated_files)
{
    static const long lengths[] = {0, 3, 15, 16, 1000, 16 + 40 * 64 - 1};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        cli_write_tiny(40);
        cr_assert_eq(truncate(cli_path("train-images"), lengths[i]), 0);
        CLI_TINY(&o, "train.epochs=1");
        CLI_REFUSED(&o, 2, "train-images");
    }
    cli_write_tiny(40);
    cr_assert_eq(truncate(cli_path("test-labels"), 8 + 20), 0);
    CLI_TINY(&o, "train.epochs=1");
    CLI_REFUSED(&o, 2, "test-labels");
}

Test(input, labels_out_of_range)
{
    cli_write_tiny(200);
    cli_set_label("train", 57, 10);
    CLI_TINY(&o, "data.classes=10");
    CLI_REFUSED(&o, 2, "train-labels", "sample 57", "found 10");
    cli_set_label("train", 57, 255);
    CLI_TINY(&o, "data.classes=10", "device.count=2");
    CLI_REFUSED(&o, 2, "train-labels", "sample 57", "found 255");
    cli_write_tiny(200);
    cli_set_label("test", 20, 11);
    CLI_TINY(&o, "data.classes=10");
    CLI_REFUSED(&o, 2, "test-labels", "sample 20", "found 11");
    cli_write_tiny(200);
    CLI_TINY(&o, "data.classes=1");
    CLI_REFUSED(&o, 2, "train-labels", "sample 1:", "found 1,", "data.classes");
}

Test(input, images_and_labels_of_different_count)
{
    cli_write_tiny(40);
    cli_write_idx("other", 39, 10);
    CLI_TINY(&o, "data.train_labels=other-labels");
    CLI_REFUSED(&o, 2, "other-labels", "39", "40");
    CLI_TINY(&o, "data.train_labels=train-images", "data.train_images=train-labels");
    CLI_REFUSED(&o, 2, "train-");
}

Test(input, unknown_names)
{
    static const char text[] = "[optim]\nlr = 0.1\nlearnig_rate = 0.5\n";

    cli_write_file("wrong.ini", text, sizeof text - 1);
    CLI_RUN(&o, "--config", "wrong.ini");
    CLI_REFUSED(&o, 2, "learnig_rate", "wrong.ini:3", "did you mean lr?");
    cli_write_tiny(40);
    CLI_TINY(&o, "comm.backend=rings", "device.count=2");
    CLI_REFUSED(&o, 2, "rings", "ring");
    CLI_TINY(&o, "model.name=lenett");
    CLI_REFUSED(&o, 2, "lenett", "lenet");
    CLI_TINY(&o, "data.dataset=mnst");
    CLI_REFUSED(&o, 2, "data.dataset", "mnst", "did you mean mnist");
}

Test(input, no_devices)
{
    cli_write_tiny(40);
    CLI_TINY(&o, "device.count=0");
    CLI_REFUSED(&o, 2, "device.count", "'0'", "at least 1");
    CLI_TINY(&o, "device.count=-1");
    CLI_REFUSED(&o, 2, "device.count", "'-1'");
}

Test(input, batch_larger_than_the_data)
{
    cli_write_tiny(5);
    CLI_TINY(&o, "device.count=7", "data.classes=10");
    CLI_REFUSED(&o, 2, "5 training images", "batch_per_device 8 ", "7 devices = 56");
    cli_write_tiny(16);
    CLI_TINY(&o, "device.count=2", "train.batch_per_device=32", "data.drop_last=yes");
    CLI_REFUSED(&o, 2, "16 training images", "batch_per_device 32 ", "2 devices = 64");
    CLI_TINY(&o, "train.batch_per_device=17");
    CLI_REFUSED(&o, 2, "16 training images", "batch_per_device 17 ");
    CLI_TINY(&o, "train.batch_per_device=16");
    cr_assert_eq(o.code, 0, "%s", o.err);
}

Test(input, batches_that_do_not_multiply_out)
{
    cli_write_tiny(200);
    CLI_TINY(&o, "train.global_batch=64", "train.accum_steps=3", "device.count=2");
    CLI_REFUSED(&o, 2, "global_batch 64", "batch_per_device 8", "accum_steps 3", "count 2");
    CLI_TINY(&o, "train.global_batch=100", "train.batch_per_device=0", "device.count=3");
    CLI_REFUSED(&o, 2, "global_batch 100", "batch_per_device 0", "accum_steps 1", "count 3");
}

Test(input, numbers_that_are_none)
{
    static const char *const sets[] = {
        "optim.lr=0,1",
        "optim.lr=nan",
        "optim.lr=inf",
        "optim.momentum=1.5",
        "optim.lr=",
        "train.batch_per_device=abc",
        "train.batch_per_device=32abc",
        "train.batch_per_device=-1",
        "train.batch_per_device=1e3",
        "train.batch_per_device=99999999999",
        "train.batch_per_device=0x20",
    };

    cli_write_tiny(40);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        CLI_TINY(&o, sets[i]);
        CLI_REFUSED(&o, 2, sets[i]);
    }
}

/* --- where the results go */

Test(input, folders_that_cannot_be_made)
{
    char set[600];

    cli_write_tiny(40);
    cli_write_file("file", "x", 1);
    (void)snprintf(set, sizeof set, "train.output=%s", cli_path("file"));
    CLI_TINY(&o, set);
    cr_assert(o.code == 2 && o.n_err == 1, "%d: %s", o.code, o.err);
    CLI_REFUSED(&o, 2, cli_path("file"));
    (void)snprintf(set, sizeof set, "train.output=%s", cli_path("file/below"));
    CLI_TINY(&o, set);
    CLI_REFUSED(&o, 2, cli_path("file/below"));
    CLI_TINY(&o, "train.output=/proc/no-such-place/x");
    CLI_REFUSED(&o, 2, "/proc/no-such-place/x");
    cr_assert_str_eq(cli_read_file("file"), "x", "the file is left alone");
}

Test(input, strange_but_possible_folders_work)
{
    char set[1024], name[512], deep[450];

    cli_write_tiny(40);
    memset(deep, 'd', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    deep[200] = '/';
    for (int i = 0; i < 3; i++) {
        const char *const names[] = {"new/and/deep", "100%d of %s it #1", deep};
        (void)snprintf(set, sizeof set, "train.output=%s", cli_path(names[i]));
        CLI_TINY(&o, set);
        cr_assert_eq(o.code, 0, "%s: %s", names[i], o.err);
        (void)snprintf(name, sizeof name, "%s/summary.json", names[i]);
        cr_assert(cli_exists(name), "%s", name);
        (void)snprintf(name, sizeof name, "%s/config.ini", names[i]);
        cr_assert(cli_exists(name), "%s", name);
    }
}

/* The config that a run leaves is read again and gives the same run. */
Test(input, the_effective_config_repeats_the_run)
{
    char first[CLI_TEXT_BYTES], set[600];

    cli_write_tiny(40);
    CLI_TINY(&o, "train.seed=5", "device.count=2");
    cr_assert_eq(o.code, 0, "%s", o.err);
    memcpy(first, cli_read_file("run/config.ini"), sizeof first);
    (void)snprintf(set, sizeof set, "train.output=%s", cli_path("again"));
    CLI_RUN(&o, "--config", "run/config.ini", "--set", set);
    cr_assert_eq(o.code, 0, "%s", o.err);
    CLI_RUN(&o, "--config", "run/config.ini");
    cr_assert_eq(o.code, 2, "a folder with results is not written over");
    cr_assert_not_null(strstr(o.err, cli_path("run")), "%s", o.err);
    cr_assert_str_eq(cli_read_file("run/config.ini"), first);
}

/* --- devices */

/* On a machine with a GPU this is no error; what is missing elsewhere is named. */
Test(input, cuda_without_a_gpu_is_one_line)
{
    if (access("/dev/nvidiactl", F_OK) == 0) {
        cr_skip_test("there is a GPU");
    }
    cli_write_tiny(40);
    CLI_TINY(&o, "device.type=cuda");
    CLI_REFUSED(&o, 2, "type = cuda", "type = cpu");
}
