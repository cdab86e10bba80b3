/* Rates of links, measured by copies. */
#include <time.h>

#include <criterion/criterion.h>

#include "base/mem.h"
#include "comm/link_rates.h"

static const int64_t GB = 1000000000;

static void join(struct topo *t, int from, int to, int64_t gb_per_s)
{
    struct topo_link l = {
        .from = from, .to = to, .bytes_per_s = gb_per_s * GB, .kind = (char *)"link"};

    cr_assert_eq(topo_add_both(t, &l), ST_OK);
}

static void expect_rates(const struct topo *t, int from, int to, int64_t effective_mb, int64_t gb)
{
    const struct topo_link *l = &t->links[topo_find_link(t, from, to)];

    cr_assert_eq(l->effective_bytes_per_s, effective_mb * 1000000, "%d to %d: %lld", from, to,
                 (long long)l->effective_bytes_per_s);
    cr_assert_eq(l->bytes_per_s, gb * 1000000, "%d to %d: %lld", from, to,
                 (long long)l->bytes_per_s);
}

/* a and b have a link, all three are below a switch, and the switch below another one. */
Test(link_rates, are_those_of_the_fastest_pair_on_each_link)
{
    enum {
        A,
        B,
        C,
        SWITCH,
        HOST
    };
    const double g = 1e9, rates[9] = {0, 23.4567 * g, 9 * g, 26 * g, 0, 12 * g, 8 * g, 7 * g, 0};
    struct topo *t;

    cr_assert_eq(topo_create("three", "", &t), ST_OK);
    cr_assert_eq(topo_add_vertex(t, "a", TOPO_GPU, NULL), ST_OK);
    cr_assert_eq(topo_add_vertex(t, "b", TOPO_GPU, NULL), ST_OK);
    cr_assert_eq(topo_add_vertex(t, "c", TOPO_GPU, NULL), ST_OK);
    cr_assert_eq(topo_add_vertex(t, "s", TOPO_SWITCH, NULL), ST_OK);
    cr_assert_eq(topo_add_vertex(t, "host", TOPO_SWITCH, NULL), ST_OK);
    join(t, A, B, 25);
    join(t, A, SWITCH, 16);
    join(t, B, SWITCH, 16);
    join(t, C, SWITCH, 16);
    join(t, SWITCH, HOST, 16);
    cr_assert_eq(link_rates_apply(t, rates), ST_OK);
    expect_rates(t, A, B, 23456, 25000);
    expect_rates(t, B, A, 26000, 26000); /* it carried more than was said of it */
    expect_rates(t, A, SWITCH, 9000, 16000);
    expect_rates(t, B, SWITCH, 12000, 16000);
    expect_rates(t, SWITCH, C, 12000, 16000);
    expect_rates(t, C, SWITCH, 8000, 16000);
    expect_rates(t, SWITCH, A, 8000, 16000);
    expect_rates(t, SWITCH, B, 7000, 16000);
    expect_rates(t, SWITCH, HOST, 16000, 16000); /* nobody's way */
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

static enum status copy_slowly(void *set, void *stream, void *dst, const void *src, size_t bytes)
{
    const struct timespec ms = {0, 1000000};

    (void)nanosleep(&ms, NULL);
    return device_cpu.copy(set, stream, dst, src, bytes);
}

static enum status copy_never(void *set, void *stream, void *dst, const void *src, size_t bytes)
{
    (void)set, (void)stream, (void)dst, (void)src, (void)bytes;
    return ST_INTERNAL;
}

static void measure(struct device_ops *ops, size_t bytes, double *rates, enum status expected)
{
    const int devices[3] = {0, 0, 0};
    void *set;

    cr_assert_eq(ops->open(devices, 3, &set), ST_OK);
    cr_assert_eq(link_rates_measure(ops, set, 3, bytes, rates), expected);
    ops->close(set);
}

Test(link_rates, are_bytes_over_the_time_of_their_copy)
{
    struct device_ops ops = device_cpu;
    double fast[9], slow[9];

    measure(&ops, 4096, fast, ST_OK);
    ops.copy = copy_slowly;
    measure(&ops, 4096, slow, ST_OK);
    for (int i = 0; i < 9; i++) {
        if (i % 4 == 0) {
            cr_assert(fast[i] == 0 && slow[i] == 0);
        } else {
            cr_assert(slow[i] > 0 && slow[i] <= 4096 / 1e-3, "%g", slow[i]);
            cr_assert_gt(fast[i], slow[i]);
        }
    }
    cr_assert_eq(mem_live(), 0);
}

Test(link_rates, of_devices_that_fail_are_an_error)
{
    struct device_ops ops = device_cpu;
    double rates[9];

    ops.copy = copy_never;
    measure(&ops, 4096, rates, ST_INTERNAL);
    ops = device_cpu;
    for (size_t k = 1; k < 200; k++) {
        const int devices[3] = {0, 0, 0};
        enum status st;
        void *set;
        cr_assert_eq(ops.open(devices, 3, &set), ST_OK);
        mem_fail_at(k);
        st = link_rates_measure(&ops, set, 3, 64, rates);
        mem_fail_at(0);
        ops.close(set);
        cr_assert_eq(mem_live(), 0);
        if (st == ST_OK) {
            cr_assert_gt(k, 3);
            return;
        }
        cr_assert_eq(st, ST_NOMEM);
    }
    cr_assert_fail("never through");
}
