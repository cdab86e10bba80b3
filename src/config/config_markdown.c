#include <string.h>

#include "config/config_show.h"

static const char intro[] =
    "# Configuration\n"
    "\n"
    "This page is made from the table of keys in `src/config/config_table.c`; `./train --help`\n"
    "prints the same. A test compares the two.\n"
    "\n"
    "A config file is an INI file: `[section]` lines and `key = value` lines.\n"
    "\n"
    "- Comments begin with `#` or `;`, at the start of a line or after a blank.\n"
    "- A value that holds `#`, `;`, quotes or blanks at its ends is written in double quotes, "
    "with\n"
    "  `\\\"` and `\\\\` inside.\n"
    "- Lists are separated by commas. Numbers have a decimal point in every locale.\n"
    "- Bytes take the suffixes K, M and G, which are powers of 1024.\n"
    "- yes, no, true, false, on, off, 1 and 0 are the two truth values.\n"
    "- Windows line ends, a byte order mark and tabs do no harm.\n"
    "- A section may come twice, a key may not. Unknown names, values out of range and anything\n"
    "  after a value are errors, reported with file and line.\n"
    "\n"
    "Every key can be set on the command line too, after the file: `--set optim.lr=0.05`.\n"
    "`./train --config FILE --dry-run` shows the configuration that results, and every run writes\n"
    "it to its own directory, from where it can be given to `--config` again.\n";

/* Text in a table cell: a bar would end the cell. */
static void put_cell(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            (void)fputc('\\', out);
        }
        (void)fputc(*text, out);
    }
}

void config_markdown(FILE *out)
{
    const char *section = "";

    (void)fputs(intro, out);
    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        char range[CONFIG_RANGE_BYTES];

        if (strcmp(section, k->section) != 0) {
            section = k->section;
            (void)fprintf(out, "\n## [%s]\n\n%s\n\n", section, config_table_section_help(section));
            (void)fputs("| Key | Default | Takes | Meaning |\n|---|---|---|---|\n", out);
        }
        (void)config_show_range(k, range);
        (void)fprintf(out, "| `%s` | ", k->name);
        (void)fprintf(out, k->fallback[0] != '\0' ? "`%s`" : "%s", k->fallback);
        (void)fprintf(out, " | %s%s", config_show_type(k), range[0] != '\0' ? ": " : "");
        put_cell(range, out);
        (void)fputs(" | ", out);
        put_cell(k->help, out);
        (void)fputs(" |\n", out);
    }
}
