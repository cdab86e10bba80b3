#ifndef CONFIG_CONFIG_LINES_H
#define CONFIG_CONFIG_LINES_H

#include <stddef.h>

#include "base/status.h"

/* Private to the config module: a text file as cleaned lines. */
struct config_lines {
    char *text, *end, *next;
    char *line; /* the current line: no line end, no comment, no blanks around it */
    int number; /* of the current line, from 1 */
};

/*
 * Read a whole file. Refuses a folder, NUL bytes and files above 1 MiB. `l` owns the text.
 * Errors: ST_INPUT, ST_NOMEM; `l` is then empty.
 */
MUST_CHECK enum status config_lines_open(struct config_lines *l, const char *path);

/* The next line, or NULL at the end. It may be changed in place. */
char *config_lines_next(struct config_lines *l);

/*
 * Take the quotes off a value: "a \"b\" #c" with \" and \\ inside. Other text stays as it is.
 * Returns NULL, or what is wrong with the quotes.
 */
const char *config_lines_unquote(char *value);

void config_lines_close(struct config_lines *l);

#endif
