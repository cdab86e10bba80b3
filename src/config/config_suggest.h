#ifndef CONFIG_CONFIG_SUGGEST_H
#define CONFIG_CONFIG_SUGGEST_H

#include "base/status.h"

/* Private to the config module: what somebody meant who wrote a name that does not exist. */

/* Log that [section] has no key `name` (section "": it stands before any section), with the place
 * and the key that was probably meant. Returns ST_INPUT. */
MUST_CHECK enum status config_suggest_key(const char *section, const char *name, const char *place);

/* The same for a section. */
MUST_CHECK enum status config_suggest_section(const char *section, const char *place);

#endif
