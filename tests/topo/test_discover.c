/* What the driver's library tells becomes a topology; the library here is a double. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "topo/topo_discover.h"

#define LIBRARY(name) TEST_BINARY_DIR "/lib/tests/" name ".so"

static char stderr_text[4096];

static enum status discover(const char *library, const char *machine, const char *visible,
                            struct topo **t)
{
    struct topo_discovery where = {.library = library, .visible = visible};

    (void)setenv("NVML_DOUBLE", machine, 1);
    *t = NULL;
    return topo_discover(&where, t);
}

static struct topo *discover_ok(const char *library, const char *machine, const char *visible)
{
    struct topo *t;

    cr_assert_eq(discover(library, machine, visible, &t), ST_OK);
    return t;
}

static int64_t rate(const struct topo *t, int from, int to, const char *kind)
{
    for (int i = 0; i < t->n_links; i++) {
        if (t->links[i].from == from && t->links[i].to == to &&
            strcmp(t->links[i].kind, kind) == 0) {
            return t->links[i].bytes_per_s;
        }
    }
    return 0;
}

/* NUMA nodes as in a DGX-1, in a folder of our own. */
static void make_sysfs(char root[64])
{
    static const char *const buses[] = {"06", "07", "0a", "0b", "85", "86", "89", "8a"};
    char path[256];

    (void)snprintf(root, 64, "%s/espalier-sys-%d", P_tmpdir, (int)getpid());
    for (int i = -3; i < 8; i++) {
        FILE *f;
        (void)snprintf(path, sizeof path, "%s%s", root,
                       i == -3   ? ""
                       : i == -2 ? "/bus"
                       : i == -1 ? "/bus/pci"
                                 : "/bus/pci/devices");
        (void)mkdir(path, 0777);
        if (i < 0) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/bus/pci/devices/0000:%s:00.0", root, buses[i]);
        (void)mkdir(path, 0777);
        (void)strcat(path, "/numa_node");
        f = fopen(path, "w");
        cr_assert_not_null(f);
        (void)fprintf(f, "%d\n", i / 4);
        (void)fclose(f);
    }
}

Test(discover, a_dgx1_has_its_nvlinks_and_switches)
{
    struct topo_discovery where = {.library = LIBRARY("nvml_double"), .visible = NULL};
    struct topo *t, *want;
    char root[64], command[128];
    int numa0, numa1;

    (void)unsetenv("CUDA_VISIBLE_DEVICES");
    (void)setenv("NVML_DOUBLE", "dgx1v", 1);
    make_sysfs(root);
    where.sysfs = root;
    cr_assert_eq(topo_discover(&where, &t), ST_OK);
    cr_assert_eq(topo_read(TEST_SOURCE_DIR "/topologies/dgx1v.topo", &want), ST_OK);
    cr_assert_eq(t->n_devices, 8);
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 8; k++) {
            cr_assert_eq(rate(t, i, k, "nvlink"), rate(want, i, k, "nvlink"), "%d to %d", i, k);
        }
    }
    numa0 = topo_find_vertex(t, "numa0");
    numa1 = topo_find_vertex(t, "numa1");
    for (int i = 0; i < 8; i++) {
        char name[16];
        int plx;
        (void)snprintf(name, sizeof name, "plx%d", i / 2 * 2);
        plx = topo_find_vertex(t, name);
        cr_assert(plx >= 0);
        cr_assert_eq(rate(t, i, plx, "pcie"), 15760000000);
        cr_assert_eq(rate(t, plx, i < 4 ? numa0 : numa1, "pcie"), 15760000000);
        cr_assert_eq(rate(t, plx, i < 4 ? numa1 : numa0, "pcie"), 0);
    }
    cr_assert_gt(rate(t, numa0, numa1, "pcie"), 0);
    topo_destroy(t);
    topo_destroy(want);
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(mem_live(), 0);
}

Test(discover, links_into_switches_are_a_star)
{
    struct topo *t = discover_ok(LIBRARY("nvml_double"), "nvswitch", "0,1,2,3,4,5,6,7");
    int hub = topo_find_vertex(t, "nvswitch");

    cr_assert(hub >= 0);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(rate(t, i, hub, "nvlink"), 300000000000);
        cr_assert_eq(rate(t, hub, i, "nvlink"), 300000000000);
        cr_assert_eq(rate(t, i, (i + 1) % 8, "nvlink"), 0);
    }
    topo_destroy(t);
}

Test(discover, without_nvlink_there_is_pcie)
{
    struct topo *t = discover_ok(LIBRARY("nvml_double"), "pcie", "0,1");

    cr_assert_eq(t->n_devices, 2);
    cr_assert(rate(t, 0, topo_find_vertex(t, "plx0"), "pcie") > 0);
    topo_destroy(t);
}

/* Old drivers say less: no links, and PCIe 3.0 x16 into the host. */
Test(discover, missing_functions_leave_out_what_they_tell)
{
    struct topo *t = discover_ok(LIBRARY("nvml_double_old"), "dgx1v", "0,1,2,3,4,5,6,7");

    cr_assert_eq(t->n_devices, 8);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(rate(t, i, topo_find_vertex(t, "numa0"), "pcie"), 15760000000);
    }
    topo_destroy(t);
}

/* As CUDA reads it: order counts, and the first wrong entry ends the list. */
Test(discover, visible_devices_are_chosen_as_cuda_does)
{
    static const struct {
        const char *visible;
        int n, first, second; /* GPUs of the machine, by their links: 3 has two lanes to 0 */
    } cases[] = {{"0,3", 2, 0, 3},
                 {"3,0", 2, 3, 0},
                 {"GPU-abc00003,GPU-abc00000", 2, 3, 0},
                 {"0,GPU-abc00003", 2, 0, 3},
                 {"0,3,9,1", 2, 0, 3},
                 {"0,3,-1,1", 2, 0, 3},
                 {"0,3,0", 2, 0, 3},
                 {"0,3,x", 2, 0, 3}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo *t = discover_ok(LIBRARY("nvml_double"), "dgx1v", cases[i].visible);
        cr_assert_eq(t->n_devices, cases[i].n, "%s", cases[i].visible);
        cr_assert_eq(rate(t, 0, 1, "nvlink"), 50000000000, "%s", cases[i].visible);
        topo_destroy(t);
    }
    (void)setenv("CUDA_VISIBLE_DEVICES", "2,4,6", 1);
    struct topo *t = discover_ok(LIBRARY("nvml_double"), "dgx1v", NULL);
    cr_assert_eq(t->n_devices, 3);
    cr_assert_eq(rate(t, 0, 2, "nvlink"), 25000000000);
    topo_destroy(t);
}

static void read_stderr(void)
{
    FILE *f = cr_get_redirected_stderr();
    size_t n = fread(stderr_text, 1, sizeof stderr_text - 1, f);

    stderr_text[n] = '\0';
}

static void expect_refusal(const char *library, const char *machine, const char *visible,
                           const char *why)
{
    struct topo *t;

    cr_redirect_stderr();
    cr_assert_eq(discover(library, machine, visible, &t), ST_UNSUPPORTED);
    (void)fflush(stderr);
    read_stderr();
    cr_assert_not_null(strstr(stderr_text, why), "%s", stderr_text);
    cr_assert_eq(mem_live(), 0);
}

Test(discover, no_library)
{
    expect_refusal(LIBRARY("nvml_nowhere"), "dgx1v", NULL, "driver is missing");
}

Test(discover, a_needed_function_is_missing)
{
    expect_refusal(LIBRARY("nvml_double_bare"), "dgx1v", NULL, "has no nvmlDeviceGetUUID");
}

Test(discover, the_library_does_not_start)
{
    expect_refusal(LIBRARY("nvml_double"), "broken", NULL, "Driver Not Loaded");
}

Test(discover, no_gpu)
{
    expect_refusal(LIBRARY("nvml_double"), "none", NULL, "there is no GPU");
}

Test(discover, none_is_visible)
{
    expect_refusal(LIBRARY("nvml_double"), "dgx1v", "", "CUDA_VISIBLE_DEVICES = ");
}

Test(discover, minus_one_hides_all)
{
    expect_refusal(LIBRARY("nvml_double"), "dgx1v", "-1", "CUDA_VISIBLE_DEVICES = -1");
}

Test(discover, every_failed_allocation_is_cleaned_up)
{
    enum status st = ST_NOMEM;

    for (size_t k = 1; st != ST_OK; k++) {
        struct topo *t;
        mem_fail_at(k);
        st = discover(LIBRARY("nvml_double"), "dgx1v", "0,1,2", &t);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        topo_destroy(st == ST_OK ? t : NULL);
        cr_assert_eq(mem_live(), 0, "failure %zu leaks", k);
    }
}
