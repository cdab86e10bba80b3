#include "topo/topo_discover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "topo/nvml.h"
#include "topo/topo_text.h"

enum {
    MAX_GPUS = 64,
    NVLINK_NS = 1000,
    PCIE_NS = 1000
};

struct gpu {
    nvml_device handle;
    struct nvml_pci pci;
    char uuid[NVML_UUID_BYTES];
    int numa;
    int64_t pcie_bytes_per_s, lane_bytes_per_s;
    int pcie_lanes;
    int lanes[MAX_GPUS], switch_lanes;
    int group; /* of GPUs below common PCIe switches: the first of them */
};

struct machine {
    struct nvml nvml;
    const char *sysfs;
    struct gpu gpus[MAX_GPUS]; /* all, then the visible ones */
    int n;
    struct nvml_pci all[MAX_GPUS];
    int n_all;
};

static bool same_place(const struct nvml_pci *a, const struct nvml_pci *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

/* --- reading --- */

/* A lane of PCIe in each direction, after its coding. */
static int64_t pcie_lane(unsigned generation)
{
    static const int64_t mb_per_s[] = {0, 250, 500, 985, 1969, 3938, 7563};
    const unsigned last = sizeof mb_per_s / sizeof *mb_per_s - 1;

    return mb_per_s[generation > last ? last : generation] * 1000000;
}

/* One direction of an NVLink of that version, as NVML counts them: 1 is 1.0, 2 to 6 are 2.0 to 4.0,
 * 7 is 5.0. */
static int64_t nvlink_lane(unsigned version)
{
    return (int64_t)(version <= 1 ? 20 : version <= 6 ? 25 : 50) * 1000000000;
}

static int read_numa(const struct machine *m, const struct nvml_pci *p)
{
    char path[256], text[16] = "";
    int64_t node;
    FILE *f;

    (void)snprintf(path, sizeof path, "%.128s/bus/pci/devices/%04x:%02x:%02x.0/numa_node", m->sysfs,
                   p->domain, p->bus, p->device);
    f = fopen(path, "r");
    if (f == NULL) {
        return 0;
    }
    if (fgets(text, sizeof text, f) != NULL) {
        text[strcspn(text, "\n")] = '\0';
    }
    (void)fclose(f);
    return text_to_i64(text, &node) && node > 0 && node < 1024 ? (int)node : 0;
}

static void read_pcie(const struct machine *m, struct gpu *g)
{
    unsigned generation = 3, width = 16;

    if (m->nvml.PcieGeneration == NULL ||
        m->nvml.PcieGeneration(g->handle, &generation) != NVML_OK || generation == 0) {
        generation = 3;
    }
    if (m->nvml.PcieWidth == NULL || m->nvml.PcieWidth(g->handle, &width) != NVML_OK ||
        width == 0) {
        width = 16;
    }
    g->pcie_lanes = (int)width;
    g->pcie_bytes_per_s = pcie_lane(generation) * (int64_t)width;
}

static enum status read_gpus(struct machine *m)
{
    unsigned n = 0;
    nvml_result r = m->nvml.GetCount(&n);

    for (unsigned i = 0; r == NVML_OK && i < n && i < MAX_GPUS; i++) {
        struct gpu *g = &m->gpus[m->n];
        r = m->nvml.GetHandle(i, &g->handle);
        r = r == NVML_OK ? m->nvml.GetPci(g->handle, &g->pci) : r;
        r = r == NVML_OK ? m->nvml.GetUUID(g->handle, g->uuid, sizeof g->uuid) : r;
        g->numa = read_numa(m, &g->pci);
        read_pcie(m, g);
        m->all[m->n_all++] = g->pci;
        m->n++;
    }
    if (r != NVML_OK) {
        return log_fail(ST_UNSUPPORTED, "NVML: %s, check the driver with nvidia-smi",
                        m->nvml.ErrorString(r));
    }
    return ST_OK;
}

/* --- CUDA_VISIBLE_DEVICES --- */

/* The GPU that an entry names, or -1. */
static int find_entry(const struct machine *m, const char *entry, size_t n)
{
    char text[NVML_UUID_BYTES];
    int64_t index;
    int found = -1;

    if (n == 0 || n >= sizeof text) {
        return -1;
    }
    memcpy(text, entry, n);
    text[n] = '\0';
    if (text_to_i64(text, &index)) {
        return index >= 0 && index < m->n ? (int)index : -1;
    }
    for (int i = 0; i < m->n && strncmp(text, "GPU-", 4) == 0; i++) {
        if (strncmp(m->gpus[i].uuid, text, n) == 0) {
            if (found >= 0) {
                return -1; /* of two GPUs */
            }
            found = i;
        }
    }
    return found;
}

static enum status keep_visible(struct machine *m, const char *visible)
{
    struct gpu *kept;
    int n = 0;

    if (visible == NULL) {
        return ST_OK;
    }
    kept = mem_alloc(MAX_GPUS, sizeof *kept);
    if (kept == NULL) {
        return ST_NOMEM;
    }
    for (const char *at = visible; n < MAX_GPUS;) {
        size_t length = strcspn(at, ",");
        int found = find_entry(m, at, length);
        for (int k = 0; found >= 0 && k < n; k++) {
            found = same_place(&kept[k].pci, &m->gpus[found].pci) ? -1 : found; /* named twice */
        }
        if (found < 0) {
            break;
        }
        kept[n++] = m->gpus[found];
        if (at[length] == '\0') {
            break;
        }
        at += length + 1;
    }
    memcpy(m->gpus, kept, sizeof m->gpus);
    m->n = n;
    mem_free(kept);
    return ST_OK;
}

/* --- links --- */

static bool is_gpu(const struct machine *m, const struct nvml_pci *p)
{
    for (int i = 0; i < m->n_all; i++) {
        if (same_place(&m->all[i], p)) {
            return true;
        }
    }
    return false;
}

/* A link that is up: to a visible GPU, to a switch, or to something that does not count. */
static void read_link(struct machine *m, struct gpu *g, unsigned link)
{
    struct nvml_pci remote = {.domain = 0};
    unsigned version = 2;
    int type = -1;

    if (m->nvml.LinkRemotePci(g->handle, link, &remote) != NVML_OK) {
        return;
    }
    if (m->nvml.LinkVersion != NULL) {
        (void)m->nvml.LinkVersion(g->handle, link, &version);
    }
    g->lane_bytes_per_s = nvlink_lane(version);
    for (int k = 0; k < m->n; k++) {
        if (same_place(&m->gpus[k].pci, &remote)) {
            g->lanes[k]++;
            return;
        }
    }
    if (m->nvml.LinkRemoteType == NULL ||
        m->nvml.LinkRemoteType(g->handle, link, &type) != NVML_OK) {
        type = is_gpu(m, &remote) ? NVML_REMOTE_GPU : NVML_REMOTE_SWITCH;
    }
    g->switch_lanes += type == NVML_REMOTE_SWITCH;
}

static void read_links(struct machine *m)
{
    for (int i = 0; i < m->n && m->nvml.LinkState != NULL && m->nvml.LinkRemotePci != NULL; i++) {
        for (unsigned l = 0; l < NVML_MAX_LINKS; l++) {
            int active = 0;
            if (m->nvml.LinkState(m->gpus[i].handle, l, &active) == NVML_OK && active) {
                read_link(m, &m->gpus[i], l);
            }
        }
    }
}

static void read_groups(struct machine *m)
{
    for (int i = 0; i < m->n; i++) {
        m->gpus[i].group = i;
        for (int k = i - 1; k >= 0 && m->nvml.CommonAncestor != NULL; k--) {
            int level = -1;
            if (m->nvml.CommonAncestor(m->gpus[i].handle, m->gpus[k].handle, &level) == NVML_OK &&
                level >= NVML_LEVEL_BOARD && level <= NVML_LEVEL_SWITCHES) {
                m->gpus[i].group = m->gpus[k].group;
            }
        }
    }
}

/* --- the topology --- */

static enum status add_nvlinks(const struct machine *m, struct topo *t)
{
    int hub = -1;

    for (int i = 0; i < m->n; i++) {
        const struct gpu *g = &m->gpus[i];
        struct topo_link l = {.from = i, .latency_ns = NVLINK_NS, .kind = (char *)"nvlink"};
        for (int k = 0; k < m->n; k++) {
            l.to = k;
            l.lanes = g->lanes[k];
            l.bytes_per_s = g->lane_bytes_per_s * l.lanes;
            if (k != i && l.lanes > 0) {
                TRY(topo_add_link(t, &l)); /* the other end tells the other direction */
            }
        }
        if (g->switch_lanes > 0 && hub < 0) {
            TRY(topo_add_vertex(t, "nvswitch", TOPO_SWITCH, &hub));
        }
        l.to = hub;
        l.lanes = g->switch_lanes;
        l.bytes_per_s = g->lane_bytes_per_s * l.lanes;
        if (l.lanes > 0) {
            TRY(topo_add_both(t, &l));
        }
    }
    return ST_OK;
}

static enum status add_pcie(struct topo *t, const struct gpu *g, int from, int to)
{
    return topo_add_both(t, &(struct topo_link){.from = from,
                                                .to = to,
                                                .bytes_per_s = g->pcie_bytes_per_s,
                                                .latency_ns = PCIE_NS,
                                                .lanes = g->pcie_lanes,
                                                .kind = (char *)"pcie"});
}

static bool has_others(const struct machine *m, int i)
{
    for (int k = 0; k < m->n; k++) {
        if (k != i && m->gpus[k].group == m->gpus[i].group) {
            return true;
        }
    }
    return false;
}

/* The switch of that name, made if it is not there; *is_new then. */
static enum status find_switch(struct topo *t, const char *kind, int index, int *out, bool *is_new)
{
    char name[32];

    (void)snprintf(name, sizeof name, "%s%d", kind, index);
    *out = topo_find_vertex(t, name);
    *is_new = *out < 0;
    return *is_new ? topo_add_vertex(t, name, TOPO_SWITCH, out) : ST_OK;
}

/* gpu -- switch of its group -- NUMA node -- host, without steps that join nothing. */
static enum status add_host_links(const struct machine *m, struct topo *t)
{
    int host = -1, numa, plx;
    bool is_new;

    for (int i = 0; i < m->n; i++) {
        const struct gpu *g = &m->gpus[i];
        int top = i;
        if (has_others(m, i)) {
            TRY(find_switch(t, "plx", g->group, &plx, &is_new));
            TRY(add_pcie(t, g, i, plx));
            top = is_new ? plx : -1;
        }
        TRY(find_switch(t, "numa", g->numa, &numa, &is_new));
        if (top >= 0) {
            TRY(add_pcie(t, g, top, numa));
        }
        if (is_new && host < 0) {
            host = numa;
        } else if (is_new) {
            TRY(add_pcie(t, g, host, numa)); /* a lower bound for what joins processors */
        }
    }
    return ST_OK;
}

static enum status build(const struct machine *m, struct topo *t)
{
    for (int i = 0; i < m->n; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "gpu%d", i);
        TRY(topo_add_vertex(t, name, TOPO_GPU, NULL));
    }
    TRY(add_nvlinks(m, t));
    TRY(add_host_links(m, t));
    return topo_check(t, "the driver's answers", 0);
}

static enum status discover(struct machine *m, const char *visible, struct topo **out)
{
    struct topo *t = NULL;
    enum status st;

    TRY(read_gpus(m));
    TRY(keep_visible(m, visible));
    if (m->n == 0) {
        return log_fail(ST_UNSUPPORTED,
                        "there is no GPU, %d without CUDA_VISIBLE_DEVICES%s%s, make one visible",
                        m->n_all, visible != NULL ? " = " : ", which is not set",
                        visible != NULL ? visible : "");
    }
    read_links(m);
    read_groups(m);
    st = topo_create("discovered", "GPUs and links as the driver tells", &t);
    st = st == ST_OK ? build(m, t) : st;
    if (st != ST_OK) {
        topo_destroy(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

enum status topo_discover(const struct topo_discovery *where, struct topo **out)
{
    struct machine *m = mem_alloc(1, sizeof *m);
    enum status st;

    if (m == NULL) {
        return ST_NOMEM;
    }
    m->sysfs = where->sysfs != NULL ? where->sysfs : "/sys";
    st = nvml_open(where->library, &m->nvml);
    if (st == ST_OK) {
        st = discover(m, where->visible != NULL ? where->visible : getenv("CUDA_VISIBLE_DEVICES"),
                      out);
        nvml_close(&m->nvml);
    }
    mem_free(m);
    return st;
}
