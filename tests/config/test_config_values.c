#include <locale.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "config_testing.h"

struct assignment {
    struct config *cfg;
    const char *text;
};

static enum status set_work(void *ctx)
{
    struct assignment *a = ctx;

    return config_set(a->cfg, a->text);
}

static enum status set_caught(struct config *cfg, const char *text)
{
    return testing_catch(set_work, &(struct assignment){cfg, text});
}

/* Neither in a file nor on the command line, and the message names the key. */
static void check_refused(const char *section, const char *name, const char *value)
{
    char text[256];
    struct config cfg;

    (void)snprintf(text, sizeof text, "[%s]\n%s = %s\n", section, name, value);
    cfg = testing_read(text);
    cr_assert(testing_failed(), "%s", text);
    cr_assert(testing_said(name) && testing_said(":2"), "%s", testing_messages());
    cr_assert_eq(testing_n_messages(), 1);
    (void)snprintf(text, sizeof text, "%s.%s=%s", section, name, value);
    cr_assert_eq(set_caught(&cfg, text), ST_INPUT, "%s", text);
    cr_assert(testing_said(text), "%s", testing_messages());
    config_fini(&cfg);
}

Test(config_values, junk_numbers_are_refused)
{
    static const char *const junk_int[] = {"",    "abc",         "32abc", "-1",  "1e3",
                                           "4x",  "99999999999", "0x20",  "1.5", "1 2",
                                           "1,2", "nan",         "inf",   "--3", "yes"};
    static const char *const junk_real[] = {"",      "abc", "0,1",   "nan", "inf",  "-inf", "NaN",
                                            "1e999", "4x",  "0x1p3", "1 2", "1..2", "-1",   "0"};
    static const char *const junk_bytes[] = {"", "x", "-1", "1.5M", "4KB", "4 K", "1e3", "0", "K"};
    static const char *const junk_bool[] = {"", "maybe", "2", "y e s", "yess", "-1"};
    static const char *const junk_list[] = {"x", "1,x", "1;2", "1 2", "nan", "1,-2", "0"};

    for (size_t i = 0; i < sizeof junk_int / sizeof junk_int[0]; i++) {
        check_refused("train", "batch_per_device", junk_int[i]);
    }
    for (size_t i = 0; i < sizeof junk_real / sizeof junk_real[0]; i++) {
        check_refused("optim", "lr", junk_real[i]);
    }
    for (size_t i = 0; i < sizeof junk_bytes / sizeof junk_bytes[0]; i++) {
        check_refused("comm", "bucket_bytes", junk_bytes[i]);
    }
    for (size_t i = 0; i < sizeof junk_bool / sizeof junk_bool[0]; i++) {
        check_refused("data", "flip", junk_bool[i]);
    }
    for (size_t i = 0; i < sizeof junk_list / sizeof junk_list[0]; i++) {
        check_refused("optim", "milestones", junk_list[i]);
    }
    check_refused("model", "hidden", "1.5");
    check_refused("model", "name", "");
    check_refused("comm", "backend", "");
}

/* Just outside of every range, for every key that has one. */
Test(config_values, every_bound_holds)
{
    struct config cfg;

    cr_assert_eq(config_init(&cfg), ST_OK);
    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        double low = k->flags & KEY_OPEN_MIN ? k->min : k->min - 1;
        double high = k->flags & KEY_OPEN_MAX ? k->max : k->max + 1;
        char text[128];

        if (k->type == KEY_BOOL || k->type == KEY_TEXT || k->type == KEY_CHOICE) {
            continue;
        }
        (void)snprintf(text, sizeof text, "%s.%s=%.0f", k->section, k->name, low);
        cr_assert_eq(set_caught(&cfg, text), ST_INPUT, "%s", text);
        (void)snprintf(text, sizeof text, "%s.%s=%.0f", k->section, k->name, high);
        cr_assert_eq(set_caught(&cfg, text), ST_INPUT, "%s", text);
        cr_assert(testing_said(k->name), "%s", testing_messages());
        if (!(k->flags & KEY_OPEN_MIN)) {
            (void)snprintf(text, sizeof text, "%s.%s=%.0f", k->section, k->name, k->min);
            cr_assert_eq(set_caught(&cfg, text), ST_OK, "%s", testing_messages());
        }
    }
    config_fini(&cfg);
}

Test(config_values, wrong_choices_show_the_nearest_and_all)
{
    struct config cfg;

    cr_assert_eq(config_init(&cfg), ST_OK);
    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        char text[128], *rest, list[128];

        if (k->type != KEY_CHOICE) {
            continue;
        }
        (void)snprintf(text, sizeof text, "%s.%s=zzzzzzzzzz", k->section, k->name);
        cr_assert_eq(set_caught(&cfg, text), ST_INPUT);
        (void)snprintf(list, sizeof list, "%s", k->choices);
        rest = list;
        for (char *word; (word = strsep(&rest, "|")) != NULL;) {
            cr_assert(testing_said(word), "%s: %s", word, testing_messages());
            (void)snprintf(text, sizeof text, "%s.%s=%s", k->section, k->name, word);
            cr_assert_eq(config_set(&cfg, text), ST_OK, "%s", text);
        }
    }
    cr_assert_eq(set_caught(&cfg, "data.dataset=fashion_mnist"), ST_INPUT);
    cr_assert(testing_said("did you mean fashion-mnist"), "%s", testing_messages());
    cr_assert_eq(set_caught(&cfg, "optim.policy=Cosine"), ST_INPUT);
    cr_assert(testing_said("did you mean cosine"), "%s", testing_messages());
    config_fini(&cfg);
}

Test(config_values, an_error_leaves_the_old_value)
{
    struct config cfg;

    cr_assert_eq(config_init(&cfg), ST_OK);
    cr_assert_eq(config_set(&cfg, "data.mean=0.5,0.25"), ST_OK);
    cr_assert_eq(set_caught(&cfg, "data.mean=1,x"), ST_INPUT);
    cr_assert_eq(set_caught(&cfg, "optim.policy=x"), ST_INPUT);
    cr_assert_eq(set_caught(&cfg, "data.path=a\nb"), ST_INPUT);
    cr_assert_eq(set_caught(&cfg, "optim.lr=x"), ST_INPUT);
    cr_assert(cfg.data.mean.n == 2 && cfg.data.mean.v[1] == 0.25);
    cr_assert_str_eq(cfg.optim.policy, "fixed");
    cr_assert_str_eq(cfg.data.path, "");
    cr_assert_eq(cfg.optim.lr, 0.1);
    config_fini(&cfg);
    cr_assert_eq(mem_live(), 0);
}

Test(config_values, malformed_assignments_are_refused)
{
    static const struct {
        const char *text, *remedy;
    } cases[] = {
        {"", "section.key=value"},
        {"optim.lr", "section.key=value"},
        {"=1", "section.key=value"},
        {"lr=1", "belongs to [optim]"},
        {".lr=1", "unknown section []"},
        {"optim.=1", "this section has"},
        {"optim.lr.x=1", "this section has"},
        {"optm.lr=1", "did you mean [optim]?"},
        {"train.lr=1", "lr in [optim]"},
        {"optim.learning-rate=1", "did you mean lr?"},
    };
    struct config cfg;

    cr_assert_eq(config_init(&cfg), ST_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(set_caught(&cfg, cases[i].text), ST_INPUT, "%s", cases[i].text);
        cr_assert(testing_said(cases[i].remedy), "%s: %s", cases[i].text, testing_messages());
        cr_assert_eq(testing_n_messages(), 1);
    }
    config_fini(&cfg);
}

/* --- locales */

/* Switch to a locale with a decimal comma: one that is installed, or one made for the test. */
static bool use_decimal_comma(const char *name)
{
    char folder[64], command[256];

    if (setlocale(LC_ALL, name) == NULL) {
        (void)snprintf(folder, sizeof folder, "/tmp/espalier-locale-%ld", (long)getpid());
        (void)mkdir(folder, 0700);
        (void)snprintf(command, sizeof command, "localedef -i %.5s -f UTF-8 %s/%s 2>/dev/null",
                       name, folder, name);
        if (system(command) != 0) {
            (void)rmdir(folder);
            return false;
        }
        (void)setenv("LOCPATH", folder, 1);
        if (setlocale(LC_ALL, name) == NULL) {
            return false;
        }
        (void)snprintf(command, sizeof command, "rm -r %s", folder);
        cr_assert_eq(system(command), 0);
    }
    return strcmp(localeconv()->decimal_point, ",") == 0;
}

static void check_locale(const char *name)
{
    static const char text[] = "[optim]\nlr = 0.05\nweight_decay = 5e-4\nmilestones = 0.5, 1.25\n"
                               "policy = multistep\n[data]\nmean = 0.1\nstd = 0.3\n";
    struct config before = testing_read(text), after;
    char *plain = testing_write(&before), *there;

    if (!use_decimal_comma(name)) {
        cr_skip_test("no locale %s here, and no sources to make it from", name);
    }
    after = testing_read(text);
    cr_assert_not(testing_failed(), "%s", testing_messages());
    there = testing_write(&after);
    cr_assert_str_eq(there, plain);
    cr_assert_eq(after.optim.lr, 0.05);
    check_refused("optim", "lr", "0,1");
    free(plain);
    free(there);
    config_fini(&before);
    config_fini(&after);
}

Test(config_values, german_locale_changes_nothing)
{
    check_locale("de_DE.UTF-8");
}

Test(config_values, french_locale_changes_nothing)
{
    check_locale("fr_FR.UTF-8");
}
