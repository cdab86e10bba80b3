#include "base/mem.h"
#include "config_testing.h"

static enum status finish_work(void *ctx)
{
    return config_finish(ctx);
}

/* Finish a config of this text; the status goes with what is said. */
static struct config finish(const char *text, enum status expected)
{
    struct config cfg = testing_read(text);
    enum status st;

    cr_assert_not(testing_failed(), "%s: %s", text, testing_messages());
    st = testing_catch(finish_work, &cfg);
    cr_assert_eq(st, expected, "%s: %s %s", text, status_text(st), testing_messages());
    cr_assert(expected == ST_OK || testing_n_messages() == 1, "%s", testing_messages());
    return cfg;
}

static void check_batches(const char *text, long per_device, long global)
{
    struct config cfg = finish(text, ST_OK);

    cr_assert_not(testing_failed(), "%s", testing_messages());
    cr_assert_eq(cfg.train.batch_per_device, per_device, "%s", text);
    cr_assert_eq(cfg.train.global_batch, global, "%s", text);
    config_fini(&cfg);
}

Test(config_finish, batch_sizes_follow_from_each_other)
{
    check_batches("", 64, 64);
    check_batches("[device]\ncount=3\n", 64, 192);
    check_batches("[device]\ncount=4\n[train]\nbatch_per_device=8\naccum_steps=3\n", 8, 96);
    check_batches("[device]\ncount=4\n[train]\nglobal_batch=96\naccum_steps=3\n", 8, 96);
    check_batches("[device]\ncount=2\n[train]\nglobal_batch=48\naccum_steps=3\n"
                  "batch_per_device=8\n",
                  8, 48);
    check_batches("[device]\ncount=1024\n[train]\nbatch_per_device=1000000\naccum_steps=65536\n",
                  1000000, 1000000L * 1024 * 65536);
}

Test(config_finish, batch_sizes_that_do_not_multiply_out_name_all_four_numbers)
{
    struct config cfg = finish("[train]\nglobal_batch = 64\nbatch_per_device = 8\n"
                               "accum_steps = 3\n[device]\ncount = 2\n",
                               ST_INPUT);

    cr_assert(testing_said("global_batch 64") && testing_said("batch_per_device 8") &&
                  testing_said("accum_steps 3") && testing_said("count 2"),
              "%s", testing_messages());
    cr_assert(testing_said(":2)") && testing_said(":3)"), "%s", testing_messages());
    config_fini(&cfg);
    cfg = finish("[train]\nglobal_batch = 100\n[device]\ncount = 3\n", ST_INPUT);
    cr_assert(testing_said("global_batch 100") && testing_said("batch_per_device 0") &&
                  testing_said("accum_steps 1") && testing_said("count 3"),
              "%s", testing_messages());
    config_fini(&cfg);
}

/* The written config of a finished one finishes to the same. */
Test(config_finish, is_stable)
{
    static const char *const texts[] = {
        "", "[data]\ndataset=synthetic\n",
        "[train]\nglobal_batch=12\n[device]\ncount=3\n[optim]\npolicy=cosine\n"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct config a = finish(texts[i], ST_OK), b;
        char *first = testing_write(&a), *second;

        b = finish(first, ST_OK);
        second = testing_write(&b);
        cr_assert_str_eq(first, second);
        free(first);
        free(second);
        config_fini(&a);
        config_fini(&b);
    }
}

Test(config_finish, contradictions_name_keys_and_lines)
{
    static const struct {
        const char *text, *what, *line_a, *line_b;
    } cases[] = {
        {"[data]\nmean = 0.5, 0.5\nstd = 1\n", "mean has 2 values and std has 1", ":2", ":3"},
        {"[data]\nmean = 0.5\n", "mean has 1 values and std has 0", ":2", "default"},
        {"[data]\nshape = 3, 32\n", "data.shape has 2 values", ":2", ":2"},
        {"[data]\ndataset = idx\npath = /x\n", "train_images", ":2", ":2"},
        {"[data]\ndataset = synthetic\nclasses = 1\n", "data.classes", ":3", ":3"},
        {"[optim]\npolicy = multistep\n", "milestones", ":2", "default"},
        {"[optim]\nmilestones = 10, 5\n", "ascend", ":2", ":2"},
        {"[optim]\n\nmilestones = 5, 5\n", "ascend", ":3", ":3"},
        {"[optim]\npolicy = cosine\nlr_min = 0.2\n", "lr_min is above lr", ":3", "default"},
        {"[optim]\nnesterov = yes\nmomentum = 0\n", "Nesterov", ":2", ":3"},
        {"[optim]\nwarmup_epochs = 5\n[train]\nepochs = 4\n", "warm-up is longer", ":2", ":4"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config cfg = finish(cases[i].text, ST_INPUT);

        cr_assert(testing_said(cases[i].what), "%s: %s", cases[i].text, testing_messages());
        cr_assert(testing_said(cases[i].line_a), "%s: %s", cases[i].text, testing_messages());
        cr_assert(testing_said(cases[i].line_b), "%s: %s", cases[i].text, testing_messages());
        config_fini(&cfg);
    }
}

Test(config_finish, places_on_the_command_line_are_called_so)
{
    struct config cfg = testing_read("[data]\nmean = 0.5, 0.5\n");

    cr_assert_eq(config_set(&cfg, "data.std=1"), ST_OK);
    cr_assert_eq(testing_catch(finish_work, &cfg), ST_INPUT);
    cr_assert(testing_said("data.std (command line)"), "%s", testing_messages());
    cr_assert(testing_said(":2)"), "%s", testing_messages());
    config_fini(&cfg);
}

Test(config_finish, what_is_unusual_but_right_passes)
{
    static const char *const texts[] = {
        "[optim]\nwarmup_epochs = 5\n[train]\nepochs = 4\nmax_steps = 10\n",
        "[optim]\nwarmup_epochs = 4\n[train]\nepochs = 4\n",
        "[optim]\nlr = 1e30\n",
        "[optim]\nlr_min = 0.5\n",
        "[data]\ndataset = idx\ntrain_images=a\ntrain_labels=b\ntest_images=c\ntest_labels=d\n",
        "[data]\nmean = 0.5, 0.5, 0.5\nstd = 1, 1, 1\n",
        "[optim]\npolicy = multistep\nmilestones = 1, 2.5, 9\n",
        "[train]\nseed = 9223372036854775807\n",
        "[model]\nname = mlp\nhidden =\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct config cfg = finish(texts[i], ST_OK);

        cr_assert_not(testing_failed(), "%s: %s", texts[i], testing_messages());
        config_fini(&cfg);
    }
}

Test(config_finish, milestones_past_the_end_are_pointed_out)
{
    struct config cfg = finish("[optim]\npolicy = multistep\nmilestones = 5, 20\n", ST_OK);

    cr_assert(testing_said("never reached") && testing_said(":3"), "%s", testing_messages());
    config_fini(&cfg);
}

/* Or a run would train on other images than those it was given. */
Test(config_finish, what_a_dataset_does_not_read_is_refused)
{
    static const char *const datasets[] = {"fashion-mnist", "mnist", "cifar10", "synthetic", "idx"};
    static const char *const keys[] = {"train_images", "train_labels", "test_images", "test_labels",
                                       "shape"};
    char text[256], key[32];

    for (size_t d = 0; d < 5; d++) {
        for (size_t k = 0; k < 5; k++) {
            const bool shape = k == 4;
            struct config cfg;
            if (d == (shape ? 3 : 4)) {
                continue;
            }
            (void)snprintf(text, sizeof text, "[data]\n%s = %s\ndataset = %s\n%s", keys[k],
                           shape ? "1, 2, 3" : "file", datasets[d],
                           d == 4 ? "train_images=a\ntrain_labels=b\ntest_images=c\ntest_labels=d\n"
                                  : "");
            (void)snprintf(key, sizeof key, "data.%s", keys[k]);
            cfg = finish(text, ST_INPUT);
            cr_assert(testing_said(key) && testing_said(datasets[d]) && testing_said(":2)") &&
                          testing_said(shape ? "dataset = synthetic" : "dataset = idx"),
                      "%s", testing_messages());
            config_fini(&cfg);
        }
    }
}

Test(config_finish, synthetic_images_have_a_shape)
{
    struct config cfg = finish("[data]\ndataset = synthetic\n", ST_OK);

    cr_assert_eq(cfg.data.shape.n, 3);
    cr_assert(cfg.data.shape.v[0] == 3 && cfg.data.shape.v[1] == 32 && cfg.data.shape.v[2] == 32);
    cr_assert(cfg.data.classes == 10 && cfg.data.n_train == 2048 && cfg.data.n_test == 512);
    config_fini(&cfg);
    cfg = finish("[data]\ndataset = synthetic\nshape = 1, 8, 4\nclasses = 2\nn_train = 3\n"
                 "n_test = 1\n",
                 ST_OK);
    cr_assert(cfg.data.shape.v[2] == 4 && cfg.data.classes == 2 && cfg.data.n_train == 3 &&
              cfg.data.n_test == 1);
    config_fini(&cfg);
    cr_assert_eq(mem_live(), 0);
}

/* Each file of configs/ is read and finished without a word. */
Test(config_finish, the_shipped_configs_are_right)
{
    static const char *const names[] = {"quickstart.ini",
                                        "mlp.ini",
                                        "lenet.ini",
                                        "resnet.ini",
                                        "cifar10-resnet20.ini",
                                        "resnet18-synthetic.ini",
                                        "resnet50-synthetic.ini"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512];
        struct config cfg;

        (void)snprintf(path, sizeof path, TEST_SOURCE_DIR "/configs/%s", names[i]);
        cr_assert_eq(config_init(&cfg), ST_OK);
        cr_assert_eq(config_read(&cfg, path), ST_OK, "%s", path);
        cr_assert_eq(testing_catch(finish_work, &cfg), ST_OK, "%s", path);
        cr_assert_not(testing_failed(), "%s: %s", path, testing_messages());
        cr_assert_str_eq(cfg.file, path);
        config_fini(&cfg);
    }
}
