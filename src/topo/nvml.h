#ifndef TOPO_NVML_H
#define TOPO_NVML_H

#include <stddef.h>

#include "base/status.h"

/*
 * What is used of NVML, the library of NVIDIA's driver that knows its GPUs. It is loaded at run
 * time and declared here, so that nothing needs it to build or to start.
 */
typedef void *nvml_device;
typedef int nvml_result; /* 0: success */

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

enum {
    NVML_OK = 0,
    NVML_MAX_LINKS = 18, /* of a GPU */
    NVML_UUID_BYTES = 96,
    NVML_REMOTE_GPU = 0, /* what is at the other end of a link */
    NVML_REMOTE_SWITCH = 2,
    NVML_LEVEL_BOARD = 0, /* what two GPUs have in common */
    NVML_LEVEL_SWITCH = 10,
    NVML_LEVEL_SWITCHES = 20,
};

/* Those without which nothing can be said, and those that may be missing in old drivers. */
#define NVML_FUNCTIONS(MUST, MAY)                                                                  \
    MUST(nvml_result, Init, "Init_v2", (void))                                                     \
    MUST(nvml_result, Shutdown, "Shutdown", (void))                                                \
    MUST(const char *, ErrorString, "ErrorString", (nvml_result r))                                \
    MUST(nvml_result, GetCount, "DeviceGetCount_v2", (unsigned *n))                                \
    MUST(nvml_result, GetHandle, "DeviceGetHandleByIndex_v2", (unsigned i, nvml_device *d))        \
    MUST(nvml_result, GetUUID, "DeviceGetUUID", (nvml_device d, char *uuid, unsigned bytes))       \
    MUST(nvml_result, GetPci, "DeviceGetPciInfo_v3", (nvml_device d, struct nvml_pci * p))         \
    MAY(nvml_result, LinkState, "DeviceGetNvLinkState", (nvml_device d, unsigned l, int *active))  \
    MAY(nvml_result, LinkVersion, "DeviceGetNvLinkVersion",                                        \
        (nvml_device d, unsigned l, unsigned *version))                                            \
    MAY(nvml_result, LinkRemotePci, "DeviceGetNvLinkRemotePciInfo_v2",                             \
        (nvml_device d, unsigned l, struct nvml_pci *p))                                           \
    MAY(nvml_result, LinkRemoteType, "DeviceGetNvLinkRemoteDeviceType",                            \
        (nvml_device d, unsigned l, int *type))                                                    \
    MAY(nvml_result, CommonAncestor, "DeviceGetTopologyCommonAncestor",                            \
        (nvml_device a, nvml_device b, int *level))                                                \
    MAY(nvml_result, PcieGeneration, "DeviceGetMaxPcieLinkGeneration",                             \
        (nvml_device d, unsigned *generation))                                                     \
    MAY(nvml_result, PcieWidth, "DeviceGetMaxPcieLinkWidth", (nvml_device d, unsigned *width))

/* clang-format off */
struct nvml {
#define X(type, name, symbol, args) type(*name) args;
    NVML_FUNCTIONS(X, X)
#undef X
};
/* clang-format on */

/* Load the library of that name, NULL: the driver's, and start it. Errors: ST_UNSUPPORTED, logged
 * with what is missing: the library, a function, or its own reason. */
MUST_CHECK enum status nvml_open(const char *path, struct nvml *out);
void nvml_close(struct nvml *n);

#endif
