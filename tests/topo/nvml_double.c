/*
 * Answers as NVML would on the machine that NVML_DOUBLE names: dgx1v, nvswitch (8 GPUs of 12 links
 * into switches), pcie (2 GPUs without NVLink), broken (it does not start), none (no GPU). Built
 * with OLD: without the functions that old drivers lack; with BARE: without one that is needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/nvml.h"

#define SHOW __attribute__((visibility("default")))

enum {
    N = 8,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    DRIVER_NOT_LOADED = 9
};

static const unsigned buses[N] = {0x06, 0x07, 0x0a, 0x0b, 0x85, 0x86, 0x89, 0x8a};

#ifndef OLD
/* The ends of the six links of each GPU of a DGX-1. */
static const int ends[N][6] = {{1, 2, 3, 3, 4, 4}, {0, 2, 2, 3, 5, 5}, {0, 1, 1, 3, 3, 6},
                               {0, 0, 1, 2, 2, 7}, {0, 0, 5, 6, 7, 7}, {1, 1, 4, 6, 6, 7},
                               {2, 4, 5, 5, 7, 7}, {3, 4, 4, 5, 6, 6}};
#endif

static char handles[N]; /* their addresses are */

static int is(const char *machine)
{
    const char *name = getenv("NVML_DOUBLE");

    return name != NULL && strcmp(name, machine) == 0;
}

static unsigned index_of(nvml_device d)
{
    return (unsigned)((char *)d - handles);
}

static void fill_pci(struct nvml_pci *p, unsigned bus, unsigned device)
{
    *p = (struct nvml_pci){.bus = bus, .device = device};
    (void)snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:%02X.0", bus, device);
}

#define ANSWER(name, ...)                                                                          \
    SHOW nvml_result nvml##name(__VA_ARGS__);                                                      \
    SHOW nvml_result nvml##name(__VA_ARGS__)

ANSWER(Init_v2, void)
{
    return is("broken") ? DRIVER_NOT_LOADED : NVML_OK;
}

ANSWER(Shutdown, void)
{
    return NVML_OK;
}

SHOW const char *nvmlErrorString(nvml_result r);
SHOW const char *nvmlErrorString(nvml_result r)
{
    return r == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Some Error";
}

ANSWER(DeviceGetCount_v2, unsigned *n)
{
    *n = is("none") ? 0 : is("pcie") ? 2 : N;
    return NVML_OK;
}

ANSWER(DeviceGetHandleByIndex_v2, unsigned i, nvml_device *d)
{
    *d = handles + i;
    return NVML_OK;
}

#ifndef BARE
ANSWER(DeviceGetUUID, nvml_device d, char *uuid, unsigned bytes)
{
    (void)snprintf(uuid, bytes, "GPU-%08x-0000-0000-0000-00000000000%u", 0xabc00000 + index_of(d),
                   index_of(d));
    return NVML_OK;
}
#endif

ANSWER(DeviceGetPciInfo_v3, nvml_device d, struct nvml_pci *p)
{
    fill_pci(p, buses[index_of(d)], 0);
    return NVML_OK;
}

#ifndef OLD
ANSWER(DeviceGetNvLinkState, nvml_device d, unsigned l, int *active)
{
    (void)d;
    if (is("pcie")) {
        return NOT_SUPPORTED;
    }
    *active = l < (is("nvswitch") ? 12u : 6u);
    return NVML_OK;
}

ANSWER(DeviceGetNvLinkVersion, nvml_device d, unsigned l, unsigned *version)
{
    (void)d;
    (void)l;
    *version = is("nvswitch") ? 4 : 2;
    return NVML_OK;
}

ANSWER(DeviceGetNvLinkRemotePciInfo_v2, nvml_device d, unsigned l, struct nvml_pci *p)
{
    if (is("nvswitch")) {
        fill_pci(p, 0xc0 + l / 2, 0);
    } else {
        fill_pci(p, buses[ends[index_of(d)][l]], 0);
    }
    return NVML_OK;
}

ANSWER(DeviceGetTopologyCommonAncestor, nvml_device a, nvml_device b, int *level)
{
    *level = index_of(a) / 2 == index_of(b) / 2   ? NVML_LEVEL_SWITCH
             : index_of(a) / 4 == index_of(b) / 4 ? 40
                                                  : 50;
    return NVML_OK;
}

ANSWER(DeviceGetMaxPcieLinkGeneration, nvml_device d, unsigned *generation)
{
    (void)d;
    *generation = is("nvswitch") ? 4 : 3;
    return NVML_OK;
}

ANSWER(DeviceGetMaxPcieLinkWidth, nvml_device d, unsigned *width)
{
    (void)d;
    *width = 16;
    return NVML_OK;
}
#endif
