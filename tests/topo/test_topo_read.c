#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/caught.h"
#include "topo/topo.h"

static enum status parse(const char *text, struct topo **t)
{
    size_t n = strlen(text);
    char *copy = mem_alloc(n + 1, 1);
    enum status st;

    memcpy(copy, text, n);
    st = topo_parse("test.topo", copy, n, t);
    mem_free(copy);
    return st;
}

Test(topo_read, a_lattice_with_everything)
{
    struct topo *t;

    cr_assert_eq(parse("\xef\xbb\xbf# a comment\r\n"
                       "topology box \"two \t GPUs # not a comment\"\r\n"
                       "device a b # both\n\ncpu c\nswitch s\nnic n\nnet w\n"
                       "link a b 50 GB/s 1.5 us nvlink x2 effective 36 GB/s\n"
                       "link a s 1e3 MB/s pcie\n"
                       "link s c 0.5 TB/s 2 ns\n"
                       "link s n 3 KB/s x16\n"
                       "link n w 7 B/s 1 ms\n"
                       "oneway b s 10 GB/s 0 s effective 1 GB/s",
                       &t),
                 ST_OK);
    cr_assert_str_eq(t->name, "box");
    cr_assert_str_eq(t->desc, "two \t GPUs # not a comment");
    cr_assert_eq(t->n_devices, 3);
    cr_assert_eq(t->n_vertices, 6);
    cr_assert_eq(t->n_links, 11);
    const struct topo_link *l = &t->links[topo_find_link(t, 1, 0)];
    cr_assert_eq(l->bytes_per_s, 50000000000);
    cr_assert_eq(l->effective_bytes_per_s, 36000000000);
    cr_assert_eq(l->latency_ns, 1500);
    cr_assert_eq(l->lanes, 2);
    cr_assert_str_eq(l->kind, "nvlink");
    l = &t->links[topo_find_link(t, 0, 3)];
    cr_assert_eq(l->bytes_per_s, 1000000000);
    cr_assert_eq(l->effective_bytes_per_s, 1000000000);
    cr_assert_str_eq(l->kind, "pcie");
    cr_assert_eq(t->links[topo_find_link(t, 3, 4)].lanes, 16);
    cr_assert_geq(topo_find_link(t, 1, 3), 0);
    cr_assert_lt(topo_find_link(t, 3, 1), 0, "oneway has no way back");
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}

static char message[512];

/* What is said of a text that must be refused. */
static const char *complaint(const char *text)
{
    struct caught c = caught_begin(STDERR_FILENO);
    struct topo *t = NULL;
    enum status st = parse(text, &t);

    caught_end(c, message, sizeof message);
    cr_assert_eq(st, ST_INPUT, "accepted: %s", text);
    cr_assert_null(t);
    return message;
}

#define TWO "topology t\ndevice a b\n"

Test(topo_read, malformed_text_is_refused)
{
    static const char *const texts[] = {
        "",
        "# nothing\n",
        "device a\n",
        "topology t\n",
        "topology\n",
        "topology t\ntopology u\n",
        "topology t \"no end\ndevice a b\nlink a b 1 GB/s\n",
        "topology bad/n\xc3\xa4me\n",
        TWO,
        TWO "link a b\n",
        TWO "link a b 1\n",
        TWO "link a b 1 GB\n",
        TWO "link a b 1 Gb/s\n",
        TWO "link a b GB/s 1\n",
        TWO "link a b 0 GB/s\n",
        TWO "link a b -1 GB/s\n",
        TWO "link a b nan GB/s\n",
        TWO "link a b inf GB/s\n",
        TWO "link a b 1e308 GB/s\n",
        TWO "link a b 1e999 GB/s\n",
        TWO "link a b 0x10 GB/s\n",
        TWO "link a b 1,5 GB/s\n",
        TWO "link a b 1 GB/s 5\n",
        TWO "link a b 1 GB/s 5 GB/s\n",
        TWO "link a b 1 GB/s -5 us\n",
        TWO "link a b 1 GB/s nvlink x0\n",
        TWO "link a b 1 GB/s nvlink x4x\n",
        TWO "link a b 1 GB/s nvlink x2 effective\n",
        TWO "link a b 1 GB/s nvlink x2 more\n",
        TWO "link a a 1 GB/s\n",
        TWO "link a c 1 GB/s\n",
        TWO "link a b 1 GB/s\nlink a b 2 GB/s\n",
        TWO "link a b 1 GB/s\nlink b a 1 GB/s\n",
        TWO "oneway a b 1 GB/s\n",
        TWO "oneway a b 1 GB/s\noneway a b 1 GB/s\n",
        TWO "device a\nlink a b 1 GB/s\n",
        TWO "device\nlink a b 1 GB/s\n",
        TWO "switch s\nlink a b 1 GB/s\n",
        TWO "device c d\nlink a b 1 GB/s\nlink c d 1 GB/s\n",
        TWO "lnik a b 1 GB/s\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char reason[256] = "";
        int line = 0;
        const char *said = complaint(texts[i]), *where = strstr(said, ": error: test.topo:");
        cr_assert_not_null(where, "no place in: %s", said);
        cr_assert_eq(sscanf(where, ": error: test.topo:%d: %255[^\n]", &line, reason), 2, "%s",
                     said);
        cr_assert(line >= 1 && strlen(reason) > 5, "%s", said);
        cr_assert_eq(mem_live(), 0);
    }
}

Test(topo_read, a_refusal_names_the_line_and_the_reason)
{
    cr_assert_not_null(strstr(complaint(TWO "\n\nlink a b 0 GB/s\n"), "test.topo:5: "));
    cr_assert_not_null(strstr(complaint(TWO "linc a b 1 GB/s\n"), "did you mean link"));
    cr_assert_not_null(strstr(complaint(TWO "link a b 1 GB/s\nlink b a 1 GB/s\n"), "test.topo:4:"));
    cr_assert_not_null(strstr(complaint(TWO "device c\nlink a b 1 GB/s\n"), "no link reaches 'c'"));
    cr_assert_not_null(strstr(complaint(TWO "link a b 1 GB/s\noneway a c 1 GB/s\n"),
                              "no vertex of that name was declared above: 'c'"));
}

Test(topo_read, long_lines_and_zero_bytes_are_refused)
{
    size_t n = 3 << 20;
    char *text = mem_alloc(n + 1, 1);
    struct topo *t;

    memset(text, 'x', n);
    cr_assert_eq(topo_parse("long", text, n, &t), ST_INPUT);
    memcpy(text, "topology t\ndevice a\n", 20);
    text[12] = '\0';
    cr_assert_eq(topo_parse("zero", text, 20, &t), ST_INPUT);
    mem_free(text);
    cr_assert_eq(topo_read("/nonexistent/file.topo", &t), ST_INPUT);
    cr_assert_eq(topo_read("/", &t), ST_INPUT);
    cr_assert_eq(mem_live(), 0);
}

/* A shipped file that is cut off: refused or, if it ends with a whole statement, still complete. */
Test(topo_read, every_cut_of_a_file_is_refused_or_sound)
{
    char path[512], *text, *copy;
    FILE *f;
    size_t n, accepted = 0;

    (void)snprintf(path, sizeof path, "%s/topologies/dgx1v.topo", TEST_SOURCE_DIR);
    f = fopen(path, "rb");
    cr_assert_not_null(f);
    text = mem_alloc(65536, 1);
    copy = mem_alloc(65536, 1);
    n = fread(text, 1, 65535, f);
    (void)fclose(f);
    for (size_t cut = 0; cut < n; cut += 7) {
        struct topo *t = NULL;
        memcpy(copy, text, cut);
        copy[cut] = '\0';
        enum status st = topo_parse("cut", copy, cut, &t);
        cr_assert(st == ST_OK || st == ST_INPUT);
        accepted += st == ST_OK;
        cr_assert(cut * 4 > n * 3 || st == ST_INPUT, "cut at %zu of %zu accepted", cut, n);
        topo_destroy(t);
    }
    cr_assert_lt(accepted, 12);
    mem_free(text);
    mem_free(copy);
    cr_assert_eq(mem_live(), 0);
}

Test(topo_read, every_failing_allocation_is_reported_without_a_leak)
{
    enum status st = ST_NOMEM;
    struct topo *t = NULL;
    char path[512];

    (void)snprintf(path, sizeof path, "%s/topologies/pcie4.topo", TEST_SOURCE_DIR);
    for (size_t k = 1; st != ST_OK; k++) {
        mem_fail_at(k);
        st = topo_read(path, &t);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        cr_assert(st == ST_OK || mem_live() == 0, "failure %zu leaks", k);
    }
    topo_destroy(t);
}

Test(topo_read, kept_links_and_their_kinds)
{
    struct topo *t, *s;

    cr_assert_eq(
        parse(TWO "link a b 1 GB/s nvlink\nlink a b 2 GB/s pcie\nlink a b 3 GB/s ib\n", &t), ST_OK);
    cr_assert_eq(topo_keep_links(t, "ib,nvlink", &s), ST_OK);
    cr_assert_eq(s->n_links, 4);
    topo_destroy(s);
    cr_assert_eq(topo_keep_links(t, "nvlin", &s), ST_INPUT);
    cr_assert_eq(topo_keep_links(t, "", &s), ST_INPUT);
    cr_assert_eq(topo_keep_links(t, "pcie,", &s), ST_INPUT);
    topo_destroy(t);
    cr_assert_eq(mem_live(), 0);
}
