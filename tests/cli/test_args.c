#include <string.h>

#include "base/mem.h"
#include "cli/args.h"
#include "cli/train_options.h"
#include "cli_testing.h"

static const struct args_flag flags[] = {
    {.name = "begin", .value = "SIZE", .help = "first size", .letter = 'b'},
    {.name = "check", .help = "check", .letter = 'c'},
    {.name = "checks", .value = "N", .help = "how often"},
};

Test(args, values_stand_apart_or_after_an_equals_sign)
{
    static const char *const words[] = {"p",  "--begin",      "4K", "-b",
                                        "-1", "--checks=a=b", "-c", "--checks="};
    static const struct {
        int flag;
        const char *value;
    } expected[] = {{0, "4K"}, {0, "-1"}, {2, "a=b"}, {1, ""}, {2, ""}};
    struct args a = {flags, 3, 8, words, 1};
    const struct args_flag *f;
    const char *value;

    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        cr_assert_eq(args_next(&a, &f, &value), ST_OK);
        cr_assert_eq(f, &flags[expected[i].flag]);
        cr_assert_str_eq(value, expected[i].value);
    }
    cr_assert_eq(args_next(&a, &f, &value), ST_OK);
    cr_assert_null(f);
    cr_assert_eq(args_next(&a, &f, &value), ST_OK);
    cr_assert_null(f);
}

Test(args, other_words_are_refused)
{
    static const char *const words[] = {"--chek", "--begin", "--check=1", "word",
                                        "--",     "-",       "-x",        "--b",
                                        "-begin", "",        "-b=3=",     "---begin"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *const argv[] = {"p", words[i], "--check"};
        struct args a = {flags, 3, 3, argv, 1};
        const struct args_flag *f;
        const char *value;
        enum status st = args_next(&a, &f, &value);

        cr_assert(strcmp(words[i], "-b=3=") == 0 ? st == ST_OK && strcmp(value, "3=") == 0
                                                 : st == ST_BADARG && f == NULL,
                  "%s", words[i]);
    }
}

/* Whatever --help lists is accepted, with a value exactly if it shows one. */
Test(args, every_flag_of_help_is_taken)
{
    char *text = NULL, *rest;
    size_t n = 0, n_flags = 0;
    FILE *f = open_memstream(&text, &n);

    train_options_print(f);
    cr_assert_eq(fclose(f), 0);
    rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
        char name[64], value[64] = "", *at = strstr(line, "--");
        const char *const argv[] = {"train", "--config", "x", name, "3"};
        struct train_options o;

        cr_assert_not_null(at, "%s", line);
        cr_assert_geq(sscanf(at, "%63s %63[A-Z.=]", name, value), 1);
        if (strcmp(name, "--config") == 0) {
            continue;
        }
        cr_assert_eq(train_options_parse(value[0] != '\0' ? 5 : 4, argv, &o), ST_OK, "%s", line);
        train_options_fini(&o);
        n_flags++;
    }
    cr_assert_geq(n_flags, 13);
    free(text);
    cr_assert_eq(mem_live(), 0);
}

Test(args, failed_allocations_leak_nothing)
{
    const char *const argv[] = {"train", "--config",     "x",        "--lr", "0.5",
                                "--set", "train.seed=3", "--dry-run"};
    enum status st = ST_NOMEM;

    for (size_t k = 1; st != ST_OK; k++) {
        struct train_options o;

        mem_fail_at(k);
        st = train_options_parse(8, argv, &o);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        cr_assert(st != ST_OK ||
                  (o.n_sets == 2 && o.dry_run && strcmp(o.sets[0], "optim.lr=0.5") == 0));
        train_options_fini(&o);
        cr_assert_eq(mem_live(), 0, "allocation %zu leaks", k);
    }
}
