#ifndef TOPO_TOPO_IMPORT_H
#define TOPO_TOPO_IMPORT_H

#include <stddef.h>

#include "topo/topo.h"

/*
 * Topologies described by other programs. Each takes a text of `n` bytes that a zero byte follows
 * (it may be changed); `path` is for messages. Errors: ST_INPUT as path:line with the reason,
 * ST_NOMEM.
 */

/*
 * NCCL's and RCCL's topology XML: GPUs, PCIe switches, sockets, NVLink or xGMI, chip-to-chip links
 * and NICs. Links have the raw rate of the wire and, as effective rate, what NCCL's model takes.
 * GPUs without a <gpu> element (files for virtual machines) are found by their PCI class.
 */
MUST_CHECK enum status topo_import_nccl(const char *path, char *text, size_t n, struct topo **out);

/*
 * The matrix of `nvidia-smi topo -m`. It gives numbers of NVLink lanes and levels of the PCIe
 * hierarchy, no rates: 25 GB/s a lane and PCIe 3.0 x16 are assumed. A matrix in which all pairs
 * have more lanes than a GPU could spread is a switch, and becomes a star.
 */
MUST_CHECK enum status topo_import_smi(const char *path, char *text, size_t n, struct topo **out);

/*
 * hwloc's XML of a machine (lstopo machine.xml) or, where `text` is NULL, the machine at hand: a
 * CPU device for each core; caches, NUMA nodes and packages are switches. The rates are assumed,
 * but for those of memory that the firmware tells. Errors: also ST_UNSUPPORTED if built without
 * hwloc.
 */
MUST_CHECK enum status topo_import_hwloc(const char *path, const char *text, size_t n,
                                         struct topo **out);

/* Any of these or a .topo file, found out from the text. */
MUST_CHECK enum status topo_import_any(const char *path, struct topo **out);

#endif
