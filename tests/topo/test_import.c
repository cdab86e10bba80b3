#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/caught.h"
#include "topo/topo_export.h"
#include "topo/topo_import.h"

static struct topo *import(const char *name)
{
    char path[512];
    struct topo *t = NULL;

    (void)snprintf(path, sizeof path, "%s/tests/topo/imports/%s", TEST_SOURCE_DIR, name);
    cr_assert_eq(topo_import_any(path, &t), ST_OK, "%s", name);
    return t;
}

static const struct topo_link *link_of(const struct topo *t, const char *a, const char *b,
                                       const char *kind)
{
    int from = topo_find_vertex(t, a), to = topo_find_vertex(t, b);

    cr_assert(from >= 0 && to >= 0, "no vertex %s or %s", a, b);
    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        if (l->from == from && l->to == to && strcmp(l->kind, kind) == 0) {
            return l;
        }
    }
    cr_assert_fail("no %s link from %s to %s", kind, a, b);
    return NULL;
}

/* What is written as .topo reads back as the same topology. */
static void check_round_trip(const struct topo *t)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    struct topo *s;

    cr_assert_eq(topo_write(t, f), ST_OK);
    (void)fclose(f);
    cr_assert_eq(topo_parse("written", text, n, &s), ST_OK);
    cr_assert_eq(s->n_vertices, t->n_vertices);
    cr_assert_eq(s->n_links, t->n_links);
    cr_assert_eq(s->n_devices, t->n_devices);
    for (int r = 0; r < t->n_devices; r++) {
        cr_assert_str_eq(s->vertices[s->devices[r]].name, t->vertices[t->devices[r]].name);
    }
    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *a = &t->links[i];
        const struct topo_link *b =
            link_of(s, t->vertices[a->from].name, t->vertices[a->to].name, a->kind);
        cr_assert_eq(a->bytes_per_s, b->bytes_per_s);
        cr_assert_eq(a->effective_bytes_per_s, b->effective_bytes_per_s);
        cr_assert_eq(a->latency_ns, b->latency_ns);
        cr_assert_eq(a->lanes, b->lanes);
    }
    topo_destroy(s);
    free(text);
}

Test(import, nccl_of_two_v100_with_nvlink_pcie_and_nics)
{
    struct topo *t = import("v100x2.xml");
    const struct topo_link *l = link_of(t, "gpu0", "gpu1", "nvlink");

    cr_assert_eq(t->n_devices, 2);
    cr_assert_eq(l->lanes, 2);
    cr_assert_eq(l->bytes_per_s, 50000000000);
    cr_assert_eq(l->effective_bytes_per_s, 40000000000);
    l = link_of(t, "gpu1", "pci-0000:05:00.0", "pcie");
    cr_assert_eq(l->bytes_per_s, 15750000000);
    cr_assert_eq(l->effective_bytes_per_s, 12000000000);
    cr_assert_eq(link_of(t, "numa0", "numa1", "smp")->bytes_per_s, 10000000000);
    cr_assert_eq(link_of(t, "nic0", "net", "net")->bytes_per_s, 12500000000);
    cr_assert_eq(link_of(t, "nic0", "net", "net")->latency_ns, 500);
    cr_assert_eq(link_of(t, "nic1", "net", "net")->bytes_per_s, 1250000000, "unknown is 10 Gb/s");
    check_round_trip(t);
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

Test(import, nccl_nvswitches_are_one_star)
{
    struct topo *t = import("h100x4.xml");

    cr_assert_eq(t->n_devices, 4, "one GPU has no gpu element");
    for (int g = 0; g < 3; g++) {
        char name[16];
        (void)snprintf(name, sizeof name, "gpu%d", g);
        const struct topo_link *l = link_of(t, name, "nvswitch", "nvlink");
        cr_assert_eq(l->lanes, 18);
        cr_assert_eq(l->bytes_per_s, 450000000000);
        cr_assert_eq(l->effective_bytes_per_s, 370800000000);
        cr_assert_eq(link_of(t, "nvswitch", name, "nvlink")->lanes, 18);
    }
    cr_assert_eq(link_of(t, "gpu0", "numa0", "pcie")->effective_bytes_per_s, 48000000000);
    cr_assert_eq(link_of(t, "gpu2", "numa0", "pcie")->effective_bytes_per_s, 12000000000,
                 "an unknown speed counts as PCIe 3.0");
    check_round_trip(t);
    topo_destroy(t);
}

Test(import, rccl_with_xgmi)
{
    struct topo *t = import("mi250x2.xml");

    cr_assert_eq(link_of(t, "gpu1", "gpu0", "xgmi")->bytes_per_s, 200000000000);
    cr_assert_eq(link_of(t, "gpu1", "gpu0", "xgmi")->effective_bytes_per_s, 144000000000);
    check_round_trip(t);
    topo_destroy(t);
}

Test(import, smi_matrix_with_levels)
{
    struct topo *t = import("mixed.smi");
    int plx = topo_find_vertex(t, "plx0");

    cr_assert_eq(t->n_devices, 4);
    cr_assert_eq(link_of(t, "gpu0", "gpu1", "nvlink")->lanes, 1);
    cr_assert_eq(link_of(t, "gpu3", "gpu1", "nvlink")->bytes_per_s, 50000000000);
    cr_assert_lt(topo_find_link(t, topo_find_vertex(t, "gpu0"), topo_find_vertex(t, "gpu2")), 0);
    cr_assert_geq(plx, 0);
    cr_assert_geq(topo_find_link(t, topo_find_vertex(t, "gpu0"), plx), 0);
    cr_assert_geq(topo_find_link(t, topo_find_vertex(t, "gpu2"), plx), 0);
    cr_assert_geq(topo_find_link(t, topo_find_vertex(t, "NIC0"), plx), 0);
    cr_assert_lt(topo_find_link(t, topo_find_vertex(t, "gpu1"), plx), 0, "PHB is a level up");
    cr_assert_lt(topo_find_link(t, topo_find_vertex(t, "gpu3"), plx), 0);
    check_round_trip(t);
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

Test(import, smi_matrix_of_a_switch_is_a_star)
{
    struct topo *t = import("a100.smi");

    cr_assert_eq(link_of(t, "gpu7", "nvswitch", "nvlink")->bytes_per_s, 300000000000);
    cr_assert_lt(topo_find_link(t, 0, 1), 0);
    topo_destroy(t);
}

static enum status take(const char *text)
{
    size_t n = strlen(text);
    char *copy = mem_alloc(n + 1, 1);
    struct topo *t = NULL;
    enum status st;

    memcpy(copy, text, n);
    st = strncmp(text, "<topology", 9) == 0 ? topo_import_hwloc("text", copy, n, &t)
         : text[0] == '<'                   ? topo_import_nccl("text", copy, n, &t)
                                            : topo_import_smi("text", copy, n, &t);
    topo_destroy(t);
    mem_free(copy);
    return st;
}

/* The text is refused, and the one line about it says where and why. */
static void check_complaint(const char *text)
{
    char said[512] = "", reason[256] = "";
    const char *where;
    int line = 0;
    struct caught c = caught_begin(STDERR_FILENO);
    enum status st = take(text);

    caught_end(c, said, sizeof said);
    cr_assert_eq(st, ST_INPUT, "accepted: %s", text);
    cr_assert_eq(mem_live(), 0);
    where = strstr(said, ": error: text:");
    cr_assert_not_null(where, "no place in: %s", said);
    cr_assert_eq(sscanf(where, ": error: text:%d: %255[^\n]", &line, reason), 2, "%s", said);
    cr_assert(line >= 1 && strlen(reason) > 5, "%s", said);
    cr_assert_eq(strchr(said, '\n'), said + strlen(said) - 1, "more than a line: %s", said);
}

#define CPU(inside) "<system version=\"1\"><cpu numaid=\"0\">" inside "</cpu></system>"
#define GPU(attributes, inside)                                                                    \
    CPU("<pci busid=\"0:1:0.0\" class=\"0x030000\" " attributes                                    \
        "><gpu dev=\"0\" sm=\"70\">" inside                                                        \
        "</gpu></pci><pci busid=\"0:2:0.0\" class=\"0x030000\"/>")

Test(import, malformed_texts_are_refused)
{
    static const char *const texts[] = {
        "<",
        "<system>",
        "<system version=\"1\"/>",
        "<graphs version=\"1\"/>",
        CPU(""),
        CPU("<pci class=\"0x030000\"/>"),
        GPU("link_width=\"x16\"", ""),
        GPU("link_width=\"-1\"", ""),
        GPU("link_width=\"nan\"", ""),
        GPU("", "<nvlink target=\"0:9:0.0\" count=\"1\" tclass=\"\"/>"),
        GPU("", "<nvlink target=\"0:2:0.0\" count=\"0\" tclass=\"0x030200\"/>"),
        GPU("", "<nvlink target=\"0:2:0.0\" count=\"1e9\" tclass=\"0x030200\"/>"),
        GPU("", "<nvlink target=\"0:1:0.0\" count=\"1\" tclass=\"0x030200\"/>"),
        "",
        "no matrix\n",
        "\tGPU0\tGPU1\nGPU0\t X \tNV1\n",
        "\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tNV1\n",
        "\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tNV2\t X \n",
        "\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU2\tNV1\t X \n",
        "\tGPU0\tGPU1\nGPU0\tNV1\tNV1\nGPU1\tNV1\t X \n",
        "\tGPU0\tGPU1\nGPU0\t X \tNVx\nGPU1\tNVx\t X \n",
        "\tGPU0\tGPU1\nGPU0\t X \tXYZ\nGPU1\tXYZ\t X \n",
        "\tGPU0\tGPU1\nGPU0\t X \tNV0\nGPU1\tNV0\t X \n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        check_complaint(texts[i]);
    }
    cr_assert_eq(take(GPU("", "<nvlink target=\"0:2:0.0\" count=\"1\" tclass=\"0x030200\"/>")),
                 ST_OK);
}

Test(import, every_failing_allocation_is_reported_without_a_leak)
{
    static const char *const names[] = {"v100x2.xml", "mixed.smi"};

    for (int i = 0; i < 2; i++) {
        char path[512];
        enum status st = ST_NOMEM;
        (void)snprintf(path, sizeof path, "%s/tests/topo/imports/%s", TEST_SOURCE_DIR, names[i]);
        for (size_t k = 1; st != ST_OK; k++) {
            struct topo *t = NULL;
            mem_fail_at(k);
            st = topo_import_any(path, &t);
            mem_fail_at(0);
            cr_assert(st == ST_OK || st == ST_NOMEM);
            topo_destroy(t);
            cr_assert_eq(mem_live(), 0, "failure %zu leaks", k);
        }
    }
}

Test(import, shipped_topologies_pass_through_the_writer)
{
    static const char *const names[] = {"dgx1p",    "dgx1v",    "dgx2",   "dgx-a100", "dgx-h100",
                                        "mi250-16", "mi250-32", "pcie4",  "pcie8",    "nvl72",
                                        "a100x2",   "a100x4",   "h100x2", "h100x4",   "h100x8",
                                        "dgx1vx2",  "dgx1vx4"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512];
        struct topo *t;
        (void)snprintf(path, sizeof path, "%s/topologies/%s.topo", TEST_SOURCE_DIR, names[i]);
        cr_assert_eq(topo_read(path, &t), ST_OK);
        check_round_trip(t);
        topo_destroy(t);
    }
    cr_assert_eq(mem_live(), 0);
}

/* Built with hwloc or not? Then these tests say so instead. */
static bool has_hwloc(void)
{
    struct topo *t = NULL;
    enum status st = topo_open("host", &t);

    cr_assert(st == ST_OK || st == ST_UNSUPPORTED, "%s", status_text(st));
    topo_destroy(t);
    return st == ST_OK;
}

Test(import, hwloc_finds_packages_nodes_caches_and_cores)
{
    if (!has_hwloc()) {
        cr_skip_test("built without hwloc");
    }
    struct topo *t = import("two-packages.hwloc.xml");

    /* Package 0: two caches of two cores; package 1: two cores without a cache in common. */
    cr_assert_eq(t->n_devices, 6);
    cr_assert_eq(t->n_vertices, 10);
    cr_assert_eq(t->n_links, 2 * (4 + 2 + 2 + 1));
    for (int r = 0; r < t->n_devices; r++) {
        char name[16];
        (void)snprintf(name, sizeof name, "cpu%d", r);
        cr_assert_str_eq(t->vertices[t->devices[r]].name, name);
        cr_assert_eq(t->vertices[t->devices[r]].kind, TOPO_CPU);
    }
    cr_assert_eq(link_of(t, "cpu1", "l3.0", "core")->bytes_per_s, 12000000000);
    cr_assert_eq(link_of(t, "cpu3", "l3.1", "core")->latency_ns, 40);
    cr_assert_eq(link_of(t, "l3.1", "numa0", "memory")->bytes_per_s, 40000000000);
    cr_assert_eq(link_of(t, "cpu5", "numa1", "core")->bytes_per_s, 12000000000);
    cr_assert_eq(link_of(t, "numa1", "numa0", "socket")->bytes_per_s, 20000000000);
    check_round_trip(t);
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

Test(import, the_machine_at_hand_is_a_topology)
{
    struct topo *t = NULL;

    if (!has_hwloc()) {
        cr_skip_test("built without hwloc");
    }
    cr_assert_eq(topo_open("host", &t), ST_OK);
    cr_assert_geq(t->n_devices, 1);
    check_round_trip(t);
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

Test(import, malformed_machines_are_refused)
{
    static const char *const texts[] = {
        "<topology version=\"2.0\">", /* not closed */
        "<topology version=\"2.0\"/>",
        "<topology version=\"2.0\"><object type=\"Core\"/></topology>",
        "<topology version=\"99.0\"><object/></topology>",
    };

    if (!has_hwloc()) {
        cr_skip_test("built without hwloc");
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        check_complaint(texts[i]);
    }
}
