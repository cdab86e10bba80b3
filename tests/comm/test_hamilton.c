#include "comm/hamilton.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "grid.h"

enum {
    MOST = 20
};

static void edge(bool *joined, int n, int a, int b)
{
    joined[a * n + b] = joined[b * n + a] = true;
}

static bool find(const bool *joined, int n, int first, bool closed, int *order)
{
    struct hamilton q = {joined, n, first, closed};
    bool found;

    cr_assert_eq(hamilton_find(&q, order, &found), ST_OK);
    return found;
}

/* The next permutation in dictionary order. */
static bool permute(int *p, int n)
{
    int i = n - 2, j = n - 1;

    while (i >= 0 && p[i] > p[i + 1]) {
        i--;
    }
    if (i < 0) {
        return false;
    }
    while (p[j] < p[i]) {
        j--;
    }
    int x = p[i];
    p[i] = p[j];
    p[j] = x;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) {
        x = p[a];
        p[a] = p[b];
        p[b] = x;
    }
    return true;
}

static bool fits(const bool *joined, int n, int first, bool closed, const int *p)
{
    bool ok = first < 0 || p[0] == first;

    for (int k = 0; ok && k + 1 < n; k++) {
        ok = joined[p[k] * n + p[k + 1]];
    }
    return ok && (!closed || n == 1 || joined[p[n - 1] * n + p[0]]);
}

Test(hamilton, is_the_first_of_all_permutations_that_fit)
{
    struct rng rng = rng_make(1, RNG_TEST, 0);
    uint64_t drawn = 0;
    int n_found = 0, n_none = 0;

    for (int k = 0; k < 300; k++) {
        bool joined[36] = {false}, closed = k % 2 == 0, any = false;
        int n = 1 + k % 6, first = k % 3 == 0 ? -1 : k % n, order[6], p[6];
        for (int i = 0; i < n * n; i++) { /* directed */
            joined[i] = rng_below(&rng, drawn++, 100) < 45;
        }
        for (int i = 0; i < n; i++) {
            p[i] = i;
        }
        do {
            any = fits(joined, n, first, closed, p);
        } while (!any && permute(p, n));
        cr_assert_eq(find(joined, n, first, closed, order), any, "case %d", k);
        cr_assert(!any || memcmp(order, p, (size_t)n * sizeof *p) == 0, "case %d", k);
        n_found += any;
        n_none += !any;
    }
    cr_assert_gt(n_found, 50);
    cr_assert_gt(n_none, 50);
}

/* Two halves that meet at vertex 7 alone: a search would try all orders of a half in vain. */
Test(hamilton, sixteen_vertices_are_decided_where_a_search_would_not_end)
{
    bool joined[256] = {false};
    int order[16];

    for (int a = 0; a < 16; a++) {
        for (int b = 0; b < a; b++) {
            if ((a < 15 && b < 15 && a / 8 == b / 8) || (a == 15 && b == 14) || (a == 7 && b < 7) ||
                (a > 7 && b == 7)) {
                edge(joined, 16, a, b);
            }
        }
    }
    cr_assert(find(joined, 16, -1, false, order));
    cr_assert_not(find(joined, 16, -1, true, order));
    cr_assert_not(find(joined, 16, 7, false, order)); /* it is needed in the middle */
}

Test(hamilton, larger_rings_are_found_by_search)
{
    bool joined[MOST * MOST] = {false};
    int order[MOST];

    for (int v = 0; v < MOST; v++) { /* a ring in steps of 7 */
        edge(joined, MOST, v, (v + 7) % MOST);
    }
    cr_assert(find(joined, MOST, -1, true, order));
    for (int k = 0; k < MOST; k++) {
        cr_assert_eq(order[k], 7 * k % MOST);
    }
    cr_assert(find(joined, MOST, 3, false, order));
    cr_assert_eq(order[0], 3);
    memset(joined, 0, sizeof joined);
    cr_assert_not(find(joined, MOST, -1, false, order));
    cr_assert_eq(mem_live(), 0);
}

/* Devices behind switches in a row: every chain is as wide, but one crosses each link only once. */
Test(route, a_chain_goes_from_each_to_the_nearest)
{
    static const int place[] = {3, 0, 5, 2, 4, 1}; /* of the devices in the row */
    struct topo *t;
    struct plan *plan;
    int sw[6], device;

    cr_assert_eq(topo_create("row", "", &t), ST_OK);
    for (int i = 0; i < 6; i++) {
        char name[] = {'s', (char)('0' + i), '\0'};
        cr_assert_eq(topo_add_vertex(t, name, TOPO_SWITCH, &sw[i]), ST_OK);
    }
    for (int i = 0; i < 6; i++) {
        char name[] = {'d', (char)('0' + i), '\0'};
        struct topo_link port = {.bytes_per_s = 4000, .kind = (char *)"x"};
        struct topo_link wire = {.bytes_per_s = 1000, .kind = (char *)"x"};
        cr_assert_eq(topo_add_vertex(t, name, TOPO_GPU, &port.from), ST_OK);
        device = port.from;
        for (int back = 0; back < 2; back++) {
            port.from = back ? sw[place[i]] : device;
            port.to = back ? device : sw[place[i]];
            cr_assert_eq(topo_add_link(t, &port), ST_OK);
            if (i > 0) {
                wire.from = back ? sw[i] : sw[i - 1];
                wire.to = back ? sw[i - 1] : sw[i];
                cr_assert_eq(topo_add_link(t, &wire), ST_OK);
            }
        }
    }
    plan = grid_plan("lp", t, COLL_BROADCAST, 1); /* the one at the end */
    cr_assert_float_eq(plan_link_seconds_per_byte(plan, t), 1e-3, 1e-9);
    plan_destroy(plan);
    topo_destroy(t);
}
