#ifndef CONFIG_CONFIG_FIND_H
#define CONFIG_CONFIG_FIND_H

#include "base/status.h"

/*
 * The path of the config file that `name` means, into `*out` (free with mem_free): `name` itself if
 * there is such a file; else, for a name without a folder, `configs/name` and `configs/name.ini`
 * here, and then in the folders above the one that the running program lies in. Errors: ST_INPUT
 * with the nearest name there is; ST_NOMEM.
 */
MUST_CHECK enum status config_find_file(const char *name, char **out);

#endif
