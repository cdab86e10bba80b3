#ifndef TOPO_NCCL_RATES_H
#define TOPO_NCCL_RATES_H

#include "topo/topo.h"

/*
 * What is known of links by their generation: the raw rate of the wire, each way, and the rate that
 * NCCL's model takes (nccl 2.30, src/graph/topo.h; rccl for AMD). They fill the rates of `l`.
 */
void nccl_pci_rates(const char *speed, int width, struct topo_link *l);
void nccl_nvlink_rates(int sm, int lanes, struct topo_link *l);
void nccl_xgmi_rates(const char *gcn, int lanes, struct topo_link *l);

/* Between two sockets of a host, bytes per second. */
int64_t nccl_socket_rate(const char *arch, const char *vendor, int family, int model);

#endif
