#include "device/device.h"

#include <string.h>

#include "base/log.h"
#include "device/kernels/kernel_sgd.h"
#include "device/module.h"

enum status device_find(const char *type, const struct device_ops **out)
{
    const void *found;

    if (strcmp(type, device_cpu.type) == 0) {
        *out = &device_cpu;
        return ST_OK;
    }
    if (strcmp(type, "cuda") == 0) {
        TRY(module_find(MODULE_DEVICE, &found));
        *out = found;
        return ST_OK;
    }
    return log_fail(ST_INPUT, "there are no devices of type '%s', [device] type, use cpu or cuda",
                    type);
}

size_t device_tile(struct device_range *ranges, size_t n_ranges)
{
    size_t tiles = 0;

    for (size_t i = 0; i < n_ranges; i++) {
        ranges[i].first_tile = tiles;
        tiles += kernel_sgd_tiles(ranges[i].n);
    }
    return tiles;
}
