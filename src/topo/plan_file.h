#ifndef TOPO_PLAN_FILE_H
#define TOPO_PLAN_FILE_H

#include <jansson.h>

#include "base/status.h"

/* The JSON value in a plan file. Errors: ST_INPUT, logged with the line. */
MUST_CHECK enum status plan_file_load(const char *path, json_t **out);

#endif
