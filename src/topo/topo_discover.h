#ifndef TOPO_TOPO_DISCOVER_H
#define TOPO_TOPO_DISCOVER_H

#include "topo/topo.h"

/* Where to look; NULL is this machine's own. */
struct topo_discovery {
    const char *library; /* NVML */
    const char *visible; /* instead of CUDA_VISIBLE_DEVICES */
    const char *sysfs;   /* "/sys" */
};

/*
 * The GPUs of this machine and their links, as the driver tells: NVLink by pairs or through
 * switches, PCIe switches, NUMA nodes. GPU i is the i-th visible one in the order of PCI addresses,
 * which is CUDA's with CUDA_DEVICE_ORDER=PCI_BUS_ID, and where all GPUs are alike.
 *
 * `visible` is a list of indices or beginnings of UUIDs; the first entry that names no GPU ends it,
 * as it does for CUDA. Errors: ST_UNSUPPORTED (no driver, no GPU, none visible), ST_NOMEM.
 */
MUST_CHECK enum status topo_discover(const struct topo_discovery *where, struct topo **out);

#endif
