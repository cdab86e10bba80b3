#include "nn/ops.h"

#include <string.h>

#include "device/module.h"
#include "nn/onednn/od.h"

/* The op libraries of this build, by device type. */
static const struct {
    const char *device_type;
    const struct nn_ops *ops;
} libraries[] = {
    {"cpu", &od_ops},
};

const struct nn_ops *nn_ops_find(const char *device_type)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (strcmp(libraries[i].device_type, device_type) == 0) {
            return libraries[i].ops;
        }
    }
    if (strcmp(device_type, "cuda") == 0) {
        const void *found;
        return module_find(MODULE_NN, &found) == ST_OK ? found : NULL;
    }
    return NULL;
}

const char *nn_ops_version(const struct nn_ops *ops)
{
    return ops->version();
}
