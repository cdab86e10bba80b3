#include <criterion/criterion.h>

#include "base/mem.h"
#include "topo/topo.h"

Test(topo, mesh_joins_every_ordered_pair)
{
    struct topo *t;

    for (int n = 1; n <= 16; n++) {
        cr_assert_eq(topo_mesh(n, 1000, 5, &t), ST_OK);
        cr_assert_eq(t->n_devices, n);
        cr_assert_eq(t->n_links, n * (n - 1));
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) {
                cr_assert_eq(topo_find_link(t, i, j) >= 0, i != j);
            }
        }
        topo_destroy(t);
    }
}

Test(topo, subset_keeps_order_and_links)
{
    int ranks[] = {3, 1}, bad[] = {1, 1}, unknown[] = {4};
    struct topo *t, *s;

    cr_assert_eq(topo_mesh(4, 1000, 5, &t), ST_OK);
    cr_assert_eq(topo_subset(t, ranks, 2, &s), ST_OK);
    cr_assert_str_eq(s->vertices[s->devices[0]].name, "cpu3");
    cr_assert_eq(s->n_links, 2);
    topo_destroy(s);
    cr_assert_eq(topo_subset(t, bad, 2, &s), ST_INPUT);
    cr_assert_eq(topo_subset(t, unknown, 1, &s), ST_INPUT);
    topo_destroy(t);
}

Test(topo, every_failing_allocation_is_reported_without_a_leak)
{
    enum status st = ST_NOMEM;
    struct topo *t = NULL;

    for (size_t k = 1; st != ST_OK; k++) {
        mem_fail_at(k);
        st = topo_mesh(5, 1000, 5, &t);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        cr_assert(st == ST_OK || mem_live() == 0, "failure %zu leaks", k);
    }
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}
