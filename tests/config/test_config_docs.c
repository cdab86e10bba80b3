#include "config_testing.h"

static char *printed(void (*print)(FILE *))
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    cr_assert_not_null(f);
    print(f);
    cr_assert_eq(fclose(f), 0);
    return text;
}

Test(config_docs, help_lists_every_key_with_its_default)
{
    char *help = printed(config_help);

    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        char line[256];

        (void)snprintf(line, sizeof line, "\n  %s = %s\n      %s\n", k->name, k->fallback, k->help);
        cr_assert_not_null(strstr(help, line), "%s", line);
        (void)snprintf(line, sizeof line, "[%s] ", k->section);
        cr_assert_not_null(strstr(help, line), "%s", line);
    }
    free(help);
}

/* If this fails: the table has changed, and `cmake --build build/release --target docs` writes the
 * page anew. */
Test(config_docs, configuration_page_is_what_the_table_says)
{
    char *expected = printed(config_markdown), *found = calloc(1, 1 << 20);
    FILE *f = fopen(TEST_SOURCE_DIR "/docs/configuration.md", "r");

    cr_assert_not_null(f);
    cr_assert_gt(fread(found, 1, (1 << 20) - 1, f), 0);
    (void)fclose(f);
    cr_assert(strcmp(found, expected) == 0, "run cmake --build build/release --target docs");
    free(expected);
    free(found);
}

Test(config_docs, the_table_is_sound)
{
    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        size_t n = strlen(k->help);

        cr_assert_eq(config_table_find(k->section, k->name), i, "%s.%s is there twice", k->section,
                     k->name);
        cr_assert(n > 0 && k->help[n - 1] == '.', "%s", k->help);
        cr_assert_not_null(config_table_section_help(k->section), "%s", k->section);
        for (size_t j = 0; j + 1 < i && strcmp(k->section, k[-1].section) != 0; j++) {
            cr_assert_str_neq(config_table_at(j)->section, k->section, "[%s] is there twice",
                              k->section);
        }
        cr_assert_lt(strlen(k->name), 48, "inih cuts longer names");
        cr_assert((k->type == KEY_CHOICE) == (k->choices != NULL), "%s", k->name);
    }
}
