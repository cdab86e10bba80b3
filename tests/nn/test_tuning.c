#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "nn/graph_internal.h"
#include "nn/tuning_table.h"
#include "tests/caught.h"
#include "tests/nn/reference.h"

static char folder[] = "/tmp/test_tuning_XXXXXX";
static char path[64], other[64];

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a/b/cache", folder);
    snprintf(other, sizeof other, "%s/run", folder);
}

static void remove_folder(void)
{
    char command[96];

    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(tuning, .init = make_folder, .fini = remove_folder);

static void write_text(const char *where, const char *text)
{
    FILE *f = fopen(where, "w");

    cr_assert_not_null(f);
    cr_assert_geq(fputs(text, f), 0);
    cr_assert_eq(fclose(f), 0);
}

Test(tuning, files_keep_times)
{
    struct tuning *t, *u;
    int64_t ns = 0;

    cr_assert_eq(tuning_create(NULL, &t), ST_OK);
    cr_assert_not(tuning_may_time(t));
    cr_assert_not(tuning_find(t, "a key", &ns));
    cr_assert_eq(tuning_put(t, "a key", 12), ST_OK);
    cr_assert_eq(tuning_put(t, "a key", 99), ST_OK);
    cr_assert_eq(tuning_put(t, "unused", 5), ST_OK);
    cr_assert(tuning_find(t, "a key", &ns));
    cr_assert_eq(ns, 12, "the first time stays");
    cr_assert_eq(tuning_write(t, other), ST_OK);

    cr_assert_eq(tuning_create(path, &u), ST_OK);
    cr_assert(tuning_may_time(u));
    cr_assert_eq(tuning_put(u, "a key", 77), ST_OK);
    cr_assert_eq(tuning_read(u, other), ST_OK);
    cr_assert(tuning_find(u, "a key", &ns));
    cr_assert_eq(ns, 12, "what was read wins");
    cr_assert_not(tuning_find(u, "unused", &ns), "only used times are written");
    tuning_save(u);
    tuning_destroy(u);
    cr_assert_eq(tuning_create(path, &u), ST_OK);
    cr_assert(tuning_find(u, "a key", &ns));
    tuning_destroy(t);
    tuning_destroy(u);
    cr_assert_eq(mem_live(), 0);
}

Test(tuning, bad_files_are_refused)
{
    static const char *const bad[] = {"",
                                      "something else\n",
                                      "espalier-tuning 1\n12x key\n",
                                      "espalier-tuning 1\n-1 key\n",
                                      "espalier-tuning 1\n12\n",
                                      "espalier-tuning 1\n12 \n"};
    struct tuning *t;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(other, bad[i]);
        cr_assert_eq(tuning_create(NULL, &t), ST_OK);
        cr_assert_eq(tuning_read(t, other), ST_INPUT, "file %zu", i);
        tuning_destroy(t);
        cr_assert_eq(tuning_create(other, &t), ST_OK, "a damaged cache is only a warning");
        tuning_destroy(t);
    }
    cr_assert_eq(tuning_create(NULL, &t), ST_OK);
    cr_assert_eq(tuning_read(t, path), ST_INPUT);
    cr_assert_eq(tuning_write(t, "/nowhere/at/all"), ST_IO);
    tuning_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

Test(tuning, what_takes_long_and_what_is_lost_is_told_once)
{
    char text[1024], below[sizeof other + 8];
    struct tuning *t;

    write_text(other, "espalier-tuning 1\n");
    (void)snprintf(below, sizeof below, "%s/below", other); /* a file is no folder */
    cr_assert_eq(tuning_create(below, &t), ST_OK);
    cr_assert(tuning_may_time(t));
    struct caught c = caught_begin(STDERR_FILENO);
    for (int k = 0; k < 2; k++) {
        tuning_announce(t);
        tuning_save(t);
    }
    caught_end(c, text, sizeof text);
    const char *note = strstr(text, ": note: timing "), *warning = strstr(text, ": warning: ");
    cr_assert(note != NULL && warning != NULL, "%s", text);
    cr_assert_null(strstr(note + 1, ": note: "), "%s", text);
    cr_assert_null(strstr(warning + 1, ": warning: "), "%s", text);
    cr_assert_not_null(strstr(warning, below), "%s", text);
    tuning_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

Test(tuning, injected_failures_leave_nothing)
{
    enum status st = ST_NOMEM;

    write_text(other, "espalier-tuning 1\n12 a key\n13 another\n");
    for (size_t k = 1; st != ST_OK; k++) {
        struct tuning *t = NULL;
        mem_fail_at(k);
        st = tuning_create(other, &t);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        tuning_destroy(t);
        cr_assert_eq(mem_live(), 0);
    }
}

static struct net *wide_net(void)
{
    struct conv_desc d = {.channels = 32, .kernel = 3, .pad = 1};
    struct net *n;
    int x;

    cr_assert_eq(net_create("wide", (struct shape){3, 8, 8}, &n), ST_OK);
    x = net_relu(n, net_batch_norm(n, net_conv2d(n, 0, "c1", d), "n1"));
    x = net_relu(n, net_batch_norm(n, net_conv2d(n, x, "c2", d), "n2"));
    cr_assert_eq(net_finish(n, net_dense(n, x, "d", 3, true), 3), ST_OK);
    return n;
}

static struct bench tuned_bench(struct tuning *t)
{
    static const size_t n = 8;
    struct bench_args args = {.batches = &n, .n_batches = 1, .tuning = t};

    return bench_create(wide_net(), &args);
}

static size_t file_bytes(const char *where)
{
    FILE *f = fopen(where, "r");
    long n = -1;

    if (f != NULL && fseek(f, 0, SEEK_END) == 0) {
        n = ftell(f);
    }
    if (f != NULL) {
        fclose(f);
    }
    return n < 0 ? 0 : (size_t)n;
}

/* What was timed is kept, and what is kept decides: a second process chooses the same. */
Test(tuning, choices_are_kept_and_obeyed)
{
    struct tuning *t, *u;
    struct bench b, c;
    struct graph_result r, s;

    cr_assert_eq(tuning_create(path, &t), ST_OK);
    b = tuned_bench(t);
    cr_assert_gt(file_bytes(path), 20, "nothing was timed");
    bench_check_loss(&b, 8, true, 2e-5);
    bench_check_gradients(&b, 8, 1.0f, 4, 5e-3);
    cr_assert_eq(tuning_write(t, other), ST_OK);

    cr_assert_eq(tuning_create(NULL, &u), ST_OK);
    cr_assert_eq(tuning_read(u, other), ST_OK);
    c = tuned_bench(u);
    cr_assert_eq(graph_arena_n(b.graph), graph_arena_n(c.graph));
    for (int i = 0; i < b.graph->n_nodes; i++) {
        cr_assert_arr_eq(b.graph->nodes[i].info.algorithm, c.graph->nodes[i].info.algorithm,
                         sizeof(int[OP_CALLS]));
        cr_assert_eq(b.graph->values[b.graph->nodes[i].op_node.output].layout,
                     c.graph->values[c.graph->nodes[i].op_node.output].layout);
    }
    cr_assert_eq(graph_forward(b.graph, b.x, b.labels, 8, true, 0, NULL, &r), ST_OK);
    cr_assert_eq(graph_forward(c.graph, c.x, c.labels, 8, true, 0, NULL, &s), ST_OK);
    cr_assert_eq(r.loss_sum, s.loss_sum);
    bench_destroy(&b);
    bench_destroy(&c);
    tuning_destroy(t);
    tuning_destroy(u);
    cr_assert_eq(mem_live(), 0);
}
