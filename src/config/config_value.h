#ifndef CONFIG_CONFIG_VALUE_H
#define CONFIG_CONFIG_VALUE_H

#include "base/status.h"
#include "config/config_table.h"

/* Private to the config module: from text to a field of struct config. */

/*
 * Convert `text` and store it in `cfg`. Errors: ST_INPUT, logged with `place` and the remedy;
 * ST_NOMEM. The old value stays after an error.
 */
MUST_CHECK enum status config_value_set(struct config *cfg, const struct config_key *k,
                                        const char *text, const char *place);

/* Release what the value owns and zero it. */
void config_value_fini(struct config *cfg, const struct config_key *k);

#endif
