#include "topo/nccl_rates.h"

#include <string.h>

static void set(struct topo_link *l, double raw_gbs, double effective_gbs)
{
    l->bytes_per_s = (int64_t)(raw_gbs * 1e9 + 0.5);
    l->effective_bytes_per_s = (int64_t)(effective_gbs * 1e9 + 0.5);
}

void nccl_pci_rates(const char *speed, int width, struct topo_link *l)
{
    static const struct {
        const char *prefix;
        double raw, effective; /* GB/s a lane */
    } rates[] = {{"2.5", 0.25, 15 / 80.0},   {"5", 0.5, 30 / 80.0},
                 {"8", 0.984375, 60 / 80.0}, {"16", 1.96875, 120 / 80.0},
                 {"32", 3.9375, 240 / 80.0}, {"64", 7.5625, 480 / 80.0}};
    size_t r = 2; /* PCIe 3.0 where the file does not say */

    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        size_t n = strlen(rates[i].prefix);
        if (strncmp(speed, rates[i].prefix, n) == 0 && (speed[n] < '0' || speed[n] > '9')) {
            r = i;
        }
    }
    set(l, rates[r].raw * width, rates[r].effective * width);
}

void nccl_nvlink_rates(int sm, int lanes, struct topo_link *l)
{
    static const struct {
        int below;
        double raw, effective;
    } rates[] = {{70, 20, 18}, {86, 25, 20}, {90, 14.0625, 12}, {100, 25, 20.6}, {9999, 50, 40.1}};
    size_t r = 0;

    while (sm >= rates[r].below && r + 1 < sizeof rates / sizeof rates[0]) {
        r++;
    }
    set(l, rates[r].raw * lanes, rates[r].effective * lanes);
}

void nccl_xgmi_rates(const char *gcn, int lanes, struct topo_link *l)
{
    if (strstr(gcn, "94") != NULL) {
        set(l, 64.0 * lanes, 48.0 * lanes);
    } else if (strstr(gcn, "90a") != NULL || strcmp(gcn, "910") == 0) {
        set(l, 50.0 * lanes, 36.0 * lanes);
    } else {
        set(l, 25.0 * lanes, 24.0 * lanes);
    }
}

int64_t nccl_socket_rate(const char *arch, const char *vendor, int family, int model)
{
    double gbs = 6; /* Broadwell and what is unknown */

    if (strncmp(arch, "ppc64", 5) == 0) {
        gbs = 32;
    } else if (strcmp(vendor, "AuthenticAMD") == 0) {
        gbs = 16;
    } else if (strcmp(vendor, "GenuineIntel") == 0 && family == 6) {
        gbs = model >= 0xCF ? 40 : model >= 0x8F ? 22 : model >= 0x55 ? 10 : 6;
    }
    return (int64_t)(gbs * 1e9);
}
