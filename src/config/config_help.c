#include <string.h>

#include "config/config_show.h"

void config_help(FILE *out)
{
    const char *section = "";

    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        char range[CONFIG_RANGE_BYTES];

        if (strcmp(section, k->section) != 0) {
            section = k->section;
            (void)fprintf(out, "%s[%s] %s\n", i > 0 ? "\n" : "", section,
                          config_table_section_help(section));
        }
        (void)config_show_range(k, range);
        (void)fprintf(out, "  %s = %s\n      %s\n      %s%s%s\n", k->name, k->fallback, k->help,
                      config_show_type(k), range[0] != '\0' ? ": " : "", range);
    }
}
