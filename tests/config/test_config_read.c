#include <sys/stat.h>

#include "config_testing.h"

/* --- names (unknown, misplaced, misspelt) */

Test(config_read, wrong_names_are_reported_with_line_and_remedy)
{
    static const struct {
        const char *text, *where, *what, *remedy;
    } cases[] = {
        {"[optim]\nlearnig_rate = 0.5\n", ":2", "'learnig_rate'", "did you mean lr?"},
        {"\n[train]\n\nlr=1\n", ":4", "'lr' in [train]", "lr in [optim]"},
        {"[train]\nnum-epochs=3\n", ":2", "'num-epochs'", "did you mean epochs?"},
        {"[train]\nbatch-per-device=3\n", ":2", "'batch-per-device'", "mean batch_per_device?"},
        {"[train]\nbatch_size=3\n", ":2", "'batch_size'", "mean batch_per_device?"},
        {"[optim]\nLR=0.5\n", ":2", "'LR'", "did you mean lr?"},
        {"[optim]\nmomemtum=0.5\n", ":2", "'momemtum'", "did you mean momentum?"},
        {"[optim]\nbackend=ring\n", ":2", "'backend' in [optim]", "backend in [comm]"},
        {"[data]\nzzzzzzzzz=1\n", ":2", "'zzzzzzzzz'", "this section has dataset, path"},
        {"[optimizer]\nlr=0.5\n", ":1", "unknown section [optimizer]", "did you mean [optim]?"},
        {"[Optim]\nlr=0.5\n", ":1", "unknown section [Optim]", "did you mean [optim]?"},
        {"[ optim ]\nlr=0.5\n", ":1", "unknown section [ optim ]", "did you mean [optim]?"},
        {"[zzzzzzzzz]\nlr=0.5\n", ":1", "[zzzzzzzzz]", "there are [data], [model]"},
        {"[]\nlr=0.5\n", ":1", "unknown section []", "there are [data], [model]"},
        {"lr=0.5\n[optim]\n", ":1", "'lr' has no section", "belongs to [optim]"},
        {"zzzzzzzzz=0.5\n[optim]\n", ":1", "'zzzzzzzzz' has no section", "[section]"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config cfg = testing_read(cases[i].text);
        char where[128];

        (void)snprintf(where, sizeof where, "%s%s,", testing_path(), cases[i].where);
        cr_assert(testing_said(cases[i].what), "%s: %s", cases[i].text, testing_messages());
        cr_assert(testing_said(cases[i].remedy), "%s: %s", cases[i].text, testing_messages());
        cr_assert(testing_said(where), "%s: %s", cases[i].text, testing_messages());
        cr_assert_eq(testing_n_messages(), 1, "%s: %s", cases[i].text, testing_messages());
        config_fini(&cfg);
    }
}

/* The name of any key in any wrong section leads to the right one. */
Test(config_read, every_key_in_a_wrong_section_is_sent_home)
{
    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        const char *other = strcmp(k->section, "debug") == 0 ? "log" : "debug";
        struct config cfg;
        char text[128], remedy[128];

        (void)snprintf(text, sizeof text, "[%s]\n%s = 1\n", other, k->name);
        cfg = testing_read(text);
        (void)snprintf(remedy, sizeof remedy, "did you mean %s in [%s]?", k->name, k->section);
        cr_assert(testing_said(remedy), "%s: %s", text, testing_messages());
        config_fini(&cfg);
    }
}

Test(config_read, all_errors_of_a_file_are_reported)
{
    struct config cfg = testing_read("[optim]\nlr = x\nmomentum = 2\nwhat = 1\njunk\n[nowhere]\n"
                                     "a = 1\n[train]\nseed = 5\nseed = 6\nepochs = 0\n");

    cr_assert_eq(testing_n_messages(), 7, "%s", testing_messages());
    for (int line = 2; line <= 6; line++) {
        char where[128];
        (void)snprintf(where, sizeof where, "%s:%d", testing_path(), line);
        cr_assert(testing_said(where), "%s: %s", where, testing_messages());
    }
    cr_assert(testing_said("seed is set twice") && testing_said(":10 and line 9"));
    cr_assert(testing_said("epochs cannot be '0'"));
    config_fini(&cfg);
}

/* --- the text of the file */

/* Read each text and compare the effective configs. */
static void check_same(const char *const *texts, size_t n)
{
    char *first = NULL;

    for (size_t i = 0; i < n; i++) {
        struct config cfg = testing_read(texts[i]);
        char *written = testing_write(&cfg);

        cr_assert_not(testing_failed(), "form %zu: %s", i, testing_messages());
        if (first == NULL) {
            first = written;
        } else {
            cr_assert_str_eq(written, first, "form %zu", i);
            free(written);
        }
        config_fini(&cfg);
    }
    free(first);
}

Test(config_read, harmless_forms_are_the_same)
{
    static const char *const texts[] = {
        "[train]\nepochs = 30\n\n[data]\npath = /my data/a#b;c\nmean = 0.5, 0.25\n",
        "[train]\r\nepochs = 30\r\n\r\n[data]\r\npath = /my data/a#b;c\r\nmean = 0.5, 0.25\r\n",
        "\xEF\xBB\xBF[train]\nepochs=30\n[data]\npath=/my data/a#b;c\nmean=0.5,0.25\n",
        "\xEF\xBB\xBF[train]\r\nepochs=30\r\n[data]\r\npath=/my data/a#b;c\r\nmean=0.5,0.25",
        ("\t[train]\n\tepochs\t=\t30\t\n  [data]  \n\n\tpath = /my data/a#b;c\t\n"
         "mean\t=0.5\t,0.25\n"),
        "[train]\nepochs = 30 # x\n[data] ; y\npath = /my data/a#b;c ; z\nmean = 0.5, 0.25\t#",
        "# [x]\n; y\n[train] # a = b\nepochs=30;\n",
        "[train]\nepochs = 30 ; x # y\n[data]\npath = \"/my data/a#b;c\" # \"q\"\nmean = 0.5,0.25",
        "[data]\n  path = \"/my data/a#b;c\"\n   mean = 0.5, 0.25\n[train]\n epochs = 30",
        "[train]\n[data]\nmean = .5, 25e-2\n[train]\nepochs = 30\n[data]\npath: /my data/a#b;c\n",
    };
    const char *good[sizeof texts / sizeof texts[0]];
    size_t n = 0;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (i != 6) {
            good[n++] = texts[i];
        }
    }
    check_same(good, n);
    {
        struct config cfg = testing_read(texts[6]);
        cr_assert(testing_said("'30;'"), "a comment sign counts after a blank only");
        config_fini(&cfg);
    }
}

Test(config_read, an_empty_file_gives_the_defaults)
{
    static const char *const texts[] = {
        "",        "\n",   "\r\n\r\n",          "\xEF\xBB\xBF", "# only a comment",
        "[train]", " \t ", "[data]\n[train]\n",
    };

    check_same(texts, sizeof texts / sizeof texts[0]);
}

/* inih's own buffer ends at 200 bytes. */
Test(config_read, long_lines_are_read_whole)
{
    enum {
        LENGTHS = 5
    };
    static const size_t lengths[LENGTHS] = {190, 197, 450, 5000, 100000};

    for (size_t i = 0; i < LENGTHS; i++) {
        size_t n = lengths[i];
        char *path = malloc(n + 1), *text = malloc(3 * n + 200);
        struct config cfg;

        memset(path, 'p', n);
        path[n] = '\0';
        path[0] = '/';
        path[n / 2] = '%';
        path[n / 3] = ' ';
        (void)sprintf(text, "#%s\n[data]\npath = %s # %s\nflip = yes\n[train]\nseed = 7\n", path,
                      path, path);
        cfg = testing_read(text);
        cr_assert_not(testing_failed(), "%zu: %s", n, testing_messages());
        cr_assert_str_eq(cfg.data.path, path);
        cr_assert(cfg.data.flip);
        cr_assert_eq(cfg.train.seed, 7);
        config_fini(&cfg);
        free(path);
        free(text);
    }
}

Test(config_read, long_junk_is_one_short_message)
{
    static const char *const before[] = {"[", "", "[data]\n",
                                         "[data]\nn_train = ", "[data]\nflip = 1 # \nx = "};
    char text[6000];

    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        struct config cfg;

        (void)snprintf(text, sizeof text, "%s", before[i]);
        memset(text + strlen(before[i]), 'j', 5000);
        text[strlen(before[i]) + 5000] = '\0';
        text[5500] = '\0';
        cfg = testing_read(text);
        cr_assert_eq(testing_n_messages(), 1, "%zu: %s", i, testing_messages());
        cr_assert_lt(strlen(testing_messages()), 1000);
        cr_assert(testing_said(testing_path()), "%s", testing_messages());
        config_fini(&cfg);
    }
}

Test(config_read, malformed_lines_are_reported)
{
    static const struct {
        const char *text, *where, *what;
    } cases[] = {
        {"[train\nepochs=3\n", ":1", "no section"},
        {"[train] epochs=3\n", ":1", "no section"},
        {"[train]]\n", ":1", "no section"},
        {"[train]\nepochs\n[data]\nflip=yes", ":2", "'epochs' is no setting"},
        {"[train]\nepochs 3", ":2", "'epochs 3' is no setting"},
        {"[train]\n= 3\n", ":2", "unknown key ''"},
        {"[data]\npath = \"abc\n", ":2", "closing quote"},
        {"[data]\npath = \"a\" b\n", ":2", "after the closing quote"},
        {"[data]\npath = \"a\\\"\n", ":2", "closing quote"},
        {"[data]\npath = a\x01z\n", ":2", "control character 1"},
        {"[data]\npath = a\rz\n", ":2", "control character 13"},
        {"[data]\npath = \x7f\n", ":2", "control character 127"},
        {"[data]\nflip = yes\nflip = yes\n", ":3 and line 2", "set twice"},
        {"[data]\nflip = yes\n[train]\n[data]\nflip = no\n", ":5 and line 2", "set twice"},
        {"[optim]\nmilestones = 1, 2,\n", ":2", "comma too many"},
        {"[optim]\nmilestones = ,\n", ":2", "comma too many"},
        {"[optim]\nmilestones = 1,,2\n", ":2", "comma too many"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config cfg = testing_read(cases[i].text);

        cr_assert(testing_said(cases[i].what), "%s: %s", cases[i].text, testing_messages());
        cr_assert(testing_said(cases[i].where), "%s: %s", cases[i].text, testing_messages());
        cr_assert_eq(testing_n_messages(), 1, "%s: %s", cases[i].text, testing_messages());
        config_fini(&cfg);
    }
}

Test(config_read, nul_bytes_are_refused_with_their_line)
{
    static const char text[] = "[train]\nepochs = 3\n\0\n";
    static const char utf16[] = "\xFF\xFE[\0t\0r\0a\0i\0n\0]\0\n\0";
    struct config cfg = testing_read_bytes(text, sizeof text - 1);

    cr_assert(testing_said("NUL") && testing_said(":3"), "%s", testing_messages());
    config_fini(&cfg);
    cfg = testing_read_bytes(utf16, sizeof utf16 - 1);
    cr_assert(testing_said("NUL") && testing_said("UTF-8"), "%s", testing_messages());
    config_fini(&cfg);
}

Test(config_read, a_file_is_cut_anywhere_without_harm)
{
    static const char text[] = "\xEF\xBB\xBF[data]\r\npath = \"a \\\" # b\" # c\r\nmean = 1, 2\r\n"
                               "[optim]\r\nlr = 0.5 ; x\r\n";

    for (size_t n = 0; n < sizeof text; n++) {
        struct config cfg = testing_read_bytes(text, n);
        config_fini(&cfg);
    }
}

/* --- finding the file */

static enum status read_named(void *ctx)
{
    struct config cfg;
    enum status st = config_init(&cfg);

    cr_assert_eq(st, ST_OK);
    st = config_read(&cfg, ctx);
    config_fini(&cfg);
    return st;
}

Test(config_read, bare_names_are_found_in_configs)
{
    static char bare[] = "quickstart.ini", short_name[] = "quickstart", path[] = "configs/mlp.ini";
    char folder[64];

    (void)snprintf(folder, sizeof folder, "/tmp/espalier-find-%ld", (long)getpid());
    cr_assert_eq(chdir(TEST_SOURCE_DIR), 0);
    cr_assert_eq(testing_catch(read_named, bare), ST_OK, "%s", testing_messages());
    cr_assert_eq(testing_catch(read_named, short_name), ST_OK, "%s", testing_messages());
    cr_assert_eq(testing_catch(read_named, path), ST_OK, "%s", testing_messages());
    cr_assert_eq(chdir("/"), 0);
    cr_assert_eq(testing_catch(read_named, bare), ST_OK, "found above the program: %s",
                 testing_messages());
    cr_assert_eq(mkdir(folder, 0700), 0);
    cr_assert_eq(chdir(folder), 0);
    cr_assert_eq(mkdir(short_name, 0700), 0);
    cr_assert_eq(testing_catch(read_named, short_name), ST_OK, "a folder is no config file: %s",
                 testing_messages());
    cr_assert_eq(rmdir(short_name), 0);
    cr_assert_eq(rmdir(folder), 0);
}

Test(config_read, what_is_no_config_file_is_refused)
{
    static const struct {
        char name[40];
        const char *what;
    } cases[] = {
        {"quikstart.ini", "did you mean quickstart.ini?"},
        {"resnt", "did you mean resnet.ini?"},
        {"cifar10-resnet20.in", "did you mean cifar10-resnet20.ini?"},
        {"no/such/file.ini", "no such config file, no/such/file.ini"},
        {"configs", "is a folder, configs,"},
        {"", "no such config file"},
        {"/dev/zero", "larger than 1 MiB"},
        {"nothing-like-it", "a name in configs/"},
    };

    cr_assert_eq(chdir(TEST_SOURCE_DIR), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(testing_catch(read_named, (void *)cases[i].name), ST_INPUT);
        cr_assert(testing_said(cases[i].what), "%s: %s", cases[i].name, testing_messages());
        cr_assert_eq(testing_n_messages(), 1);
    }
}
