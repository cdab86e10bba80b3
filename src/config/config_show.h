#ifndef CONFIG_CONFIG_SHOW_H
#define CONFIG_CONFIG_SHOW_H

#include "config/config_table.h"

/* Private to the config module: values, ranges and types as text. */

enum {
    CONFIG_RANGE_BYTES = 160
};

/* Hand the text of a value to `put`, in pieces; text that config_value_set would take after
 * config_lines_unquote. */
void config_show_value(const struct config *cfg, const struct config_key *k,
                       void (*put)(void *ctx, const char *piece), void *ctx);

/* The range or the choices of `k` for people, into `out`, which is returned; "" without either. */
const char *config_show_range(const struct config_key *k, char out[CONFIG_RANGE_BYTES]);

/* The name of the type of `k` for people. */
const char *config_show_type(const struct config_key *k);

/* `v` as the shortest text that reads back to the same number, with a decimal point in every
 * locale. */
const char *config_show_number(double v, char out[32]);

#endif
