#include "topo/plan_file.h"

#include "base/log.h"

enum status plan_file_load(const char *path, json_t **out)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);

    if (root == NULL && error.line < 1) { /* it was not even opened */
        return log_fail(ST_INPUT, "cannot read the plan, '%s', %s, make one with topo plan --json",
                        path, error.text);
    }
    if (root == NULL) {
        return log_fail(ST_INPUT, "%s:%d: not a plan file: %s", path, error.line, error.text);
    }
    *out = root;
    return ST_OK;
}
