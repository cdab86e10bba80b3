#ifndef CONFIG_CONFIG_VALUE_H
#define CONFIG_CONFIG_VALUE_H

#include <stdio.h>

#include "base/status.h"
#include "config/config_table.h"

/* Private to the config module: one value between its text and its field in struct config. */

/*
 * Convert `text` and store it in `cfg`. Errors: ST_INPUT, logged with `place` and the remedy;
 * ST_NOMEM. The old value stays after an error.
 */
MUST_CHECK enum status config_value_set(struct config *cfg, const struct config_key *k,
                                        const char *text, const char *place);

/* Hand the text of a value to `put`, in pieces; text that config_value_set would take. */
void config_value_emit(const struct config *cfg, const struct config_key *k,
                       void (*put)(void *ctx, const char *piece), void *ctx);

/* Release what the value owns and zero it. */
void config_value_fini(struct config *cfg, const struct config_key *k);

/* The range or the choices of `k` for people ("0 to below 1"), into `out`, which is returned. */
const char *config_value_range(const struct config_key *k, char out[160]);

/* The name of the type of `k` for people. */
const char *config_value_type(const struct config_key *k);

/* `v` as the shortest text that reads back to the same number, with a decimal point in every
 * locale. */
const char *config_value_number(double v, char out[32]);

#endif
