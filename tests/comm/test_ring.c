#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "comm/ring/cycles.h"
#include "grid.h"

/* The NVLinks of the 8-GPU box. */
static struct topo *nvlinks(void)
{
    struct topo *all, *t;

    cr_assert_eq(topo_read(TEST_SOURCE_DIR "/topologies/dgx1v.topo", &all), ST_OK);
    cr_assert_eq(topo_keep_links(all, "nvlink", &t), ST_OK);
    topo_destroy(all);
    return t;
}

/* No link carries more than it can, and each ring is followed by its reverse. */
static void check_cycles(const struct topo *t, const struct cycles *c)
{
    for (int l = 0; l < t->n_links; l++) {
        int64_t load = 0;
        for (int i = 0; i < c->n; i++) {
            for (int k = 0; k < t->n_devices; k++) {
                for (int h = 0; h < c->cycles[i].hops[k].n; h++) {
                    load += c->cycles[i].hops[k].links[h] == l ? c->cycles[i].width : 0;
                }
            }
        }
        cr_assert_leq(load, t->links[l].bytes_per_s);
    }
    cr_assert_eq(c->n % 2, 0);
    for (int i = 0; i < c->n; i += 2) {
        for (int k = 0; k < t->n_devices; k++) {
            cr_assert_eq(c->cycles[i].order[k], c->cycles[i + 1].order[t->n_devices - 1 - k]);
        }
        cr_assert_eq(c->cycles[i].width, c->cycles[i + 1].width);
    }
}

/* Rings of one lane, both ways, that fit between the GPUs `ranks`. */
static int64_t n_rings(const struct topo *box, const int *ranks, int n)
{
    struct topo *t;
    struct cycles c;
    int64_t width = 0;

    cr_assert_eq(topo_subset(box, ranks, n, &t), ST_OK);
    cr_assert_eq(cycles_find(t, &c), ST_OK);
    check_cycles(t, &c);
    for (int i = 0; i < c.n; i++) {
        width += c.cycles[i].width;
    }
    cycles_fini(&c);
    topo_destroy(t);
    cr_assert_eq(width % (2 * 25000000000), 0);
    return width / (2 * 25000000000);
}

Test(ring, as_many_rings_as_fit_in_every_class_of_the_box)
{
    /* Blink's representatives of the classes on DGX-1V and the most edge-disjoint rings in each. */
    static const struct {
        char gpus[9];
        int rings;
    } classes[] = {{"567", 1},    {"367", 0},    {"156", 0},     {"3567", 0},    {"3457", 0},
                   {"2357", 0},   {"1567", 0},   {"1456", 0},    {"1356", 0},    {"1256", 1},
                   {"23567", 1},  {"14567", 0},  {"13467", 0},   {"13456", 0},   {"12467", 0},
                   {"12456", 1},  {"01457", 1},  {"134567", 1},  {"123567", 2},  {"123457", 1},
                   {"014567", 1}, {"013456", 1}, {"0134567", 2}, {"01234567", 3}};
    struct topo *box = nvlinks();

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        int n = (int)strlen(classes[i].gpus), ranks[8];
        for (int k = 0; k < n; k++) {
            ranks[k] = classes[i].gpus[k] - '0';
        }
        cr_assert_eq(n_rings(box, ranks, n), classes[i].rings, "%s", classes[i].gpus);
    }
    topo_destroy(box);
    cr_assert_eq(mem_live(), 0);
}

/* What planning over n devices that are wired in `pairs` ("01 12") says on stderr. */
static void check_refusal(const char *backend, int n, const char *pairs, const char *want)
{
    struct plan_request q = {.collective = COLL_ALLREDUCE, .n_ranks = n, .root = -1};
    struct plan *p = NULL;
    struct topo *t;
    char said[1024] = "";

    cr_assert_eq(topo_create("wired", "", &t), ST_OK);
    for (int v = 0; v < n; v++) {
        char name[] = {'g', 'p', 'u', (char)('0' + v), '\0'};
        cr_assert_eq(topo_add_vertex(t, name, TOPO_GPU, NULL), ST_OK);
    }
    for (size_t i = 0; i < strlen(pairs); i += 3) {
        struct topo_link l = {pairs[i] - '0', pairs[i + 1] - '0', 1000, 0, 5, 1, (char *)"wire"};
        cr_assert_eq(topo_add_link(t, &l), ST_OK);
        l.from = pairs[i + 1] - '0';
        l.to = pairs[i] - '0';
        cr_assert_eq(topo_add_link(t, &l), ST_OK);
    }
    cr_assert_eq(plan_create(backend, t, &q, &p), ST_INPUT);
    cr_assert_null(p);
    rewind(cr_get_redirected_stderr());
    (void)!fread(said, 1, sizeof said - 1, cr_get_redirected_stderr());
    cr_assert_not_null(strstr(said, want), "%s", said);
    topo_destroy(t);
}

Test(ring, the_reason_names_a_device_with_one_neighbour, .init = cr_redirect_stderr)
{
    check_refusal("ring", 4, "01 12 02 23", "has none: gpu3 has no neighbour but gpu2, choose");
}

Test(ring, the_reason_is_the_order_where_all_have_neighbours, .init = cr_redirect_stderr)
{
    check_refusal("ring", 5, "01 12 02 23 34 24", "has none: no order of them leads from each");
}

Test(lp, the_reason_names_three_ends, .init = cr_redirect_stderr)
{
    check_refusal("lp", 5, "01 12 13 34", "has none: gpu0, gpu2 and gpu4 have only one neighbour");
}

Test(lp, the_reason_names_a_device_without_neighbours, .init = cr_redirect_stderr)
{
    check_refusal("lp", 3, "01", "has none: gpu2 has no neighbour, choose");
}

/* A full mesh of wires of n devices holds (n - 1) / 2 edge-disjoint cycles (Walecki). */
Test(ring, a_full_mesh_holds_all_the_rings_of_the_textbook)
{
    for (int n = 3; n <= 9; n++) {
        struct topo *t;
        struct cycles c;
        int64_t width = 0;
        cr_assert_eq(topo_mesh(n, 1000, 5, &t), ST_OK);
        for (int l = 0; l < t->n_links; l++) {
            strcpy(t->links[l].kind, "wire");
        }
        cr_assert_eq(cycles_find(t, &c), ST_OK);
        check_cycles(t, &c);
        for (int i = 0; i < c.n; i++) {
            width += c.cycles[i].width;
        }
        cr_assert_eq(width, 2 * ((n - 1) / 2) * 1000, "%d devices: %d", n, (int)width);
        cycles_fini(&c);
        topo_destroy(t);
    }
}

Test(ring, failing_allocations_are_reported_without_a_leak)
{
    struct topo *t = nvlinks();
    enum status st = ST_NOMEM;
    size_t live = mem_live();

    for (size_t k = 1; st != ST_OK; k++) {
        struct cycles c;
        mem_fail_at(k);
        st = cycles_find(t, &c);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        cycles_fini(&c);
        cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
    }
    topo_destroy(t);
}

/* One ring each way uses up the ports of a switch; nothing may be found on what is left. */
Test(ring, used_up_ports_give_no_further_ring)
{
    static const char *const boxes[] = {"dgx-a100", "dgx-h100", "pcie4", "pcie8"};

    for (size_t b = 0; b < sizeof boxes / sizeof *boxes; b++) {
        char path[256];
        struct topo *t;
        struct cycles c;
        int64_t port = 0;
        (void)snprintf(path, sizeof path, TEST_SOURCE_DIR "/topologies/%s.topo", boxes[b]);
        cr_assert_eq(topo_read(path, &t), ST_OK);
        cr_assert_eq(cycles_find(t, &c), ST_OK);
        for (int l = 0; l < t->n_links; l++) {
            port = t->links[l].bytes_per_s > port ? t->links[l].bytes_per_s : port;
        }
        cr_assert_geq(c.n, 1, "%s has a ring", boxes[b]);
        for (int i = 0; i < c.n; i++) {
            cr_assert(c.cycles[i].width > 0 && c.cycles[i].width <= port, "%s: ring %d", boxes[b],
                      i);
            for (int k = 0; k < t->n_devices; k++) {
                cr_assert_geq(c.cycles[i].hops[k].n, 1, "%s: ring %d, hop %d", boxes[b], i, k);
            }
        }
        cycles_fini(&c);
        topo_destroy(t);
    }
}
