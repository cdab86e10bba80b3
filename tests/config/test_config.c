#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/config.h"
#include "config/config_table.h"

#include "config_testing.h"

Test(config, defaults_are_in_range_and_finish)
{
    struct config cfg;

    cr_assert_eq(config_init(&cfg), ST_OK);
    cr_assert_eq(config_finish(&cfg), ST_OK);
    cr_assert_eq(cfg.train.batch_per_device, 64);
    cr_assert_eq(cfg.train.global_batch, 64);
    cr_assert_eq(cfg.comm.bucket_bytes, 25u << 20);
    cr_assert_str_eq(cfg.data.dataset, "fashion-mnist");
    cr_assert_eq(cfg.optim.momentum, 0.9);
    cr_assert_str_eq(cfg.file, "");
    config_fini(&cfg);
    config_fini(&cfg);
    cr_assert_eq(mem_live(), 0);
}

Test(config, a_file_sets_every_type)
{
    struct config cfg = testing_read("[data]\nmean = 0.5,0.25 , 1e-3\nflip = Yes\n"
                                     "path = \"/a b/#1; \\\"x\\\" %s\" # here\n"
                                     "std=1,2,3\n"
                                     "[comm]\nbucket_bytes = 4k\npolicy=\n");

    cr_assert(testing_failed(), "policy is no key of [comm]");
    cr_assert(testing_said("policy"));
    cr_assert_eq(cfg.data.mean.n, 3);
    cr_assert_eq(cfg.data.mean.v[2], 1e-3);
    cr_assert(cfg.data.flip);
    cr_assert_str_eq(cfg.data.path, "/a b/#1; \"x\" %s");
    cr_assert_eq(cfg.comm.bucket_bytes, 4096);
    config_fini(&cfg);
}

Test(config, later_assignments_win)
{
    struct config cfg = testing_read("[optim]\nlr = 0.5\n[train]\nseed = 3\n");

    cr_assert_not(testing_failed());
    cr_assert_eq(config_set(&cfg, "optim.lr=0.25"), ST_OK);
    cr_assert_eq(config_set(&cfg, "optim.lr= 0.125 "), ST_OK);
    cr_assert_eq(config_set(&cfg, "data.path=/x=y z"), ST_OK);
    cr_assert_eq(cfg.optim.lr, 0.125);
    cr_assert_eq(cfg.train.seed, 3);
    cr_assert_str_eq(cfg.data.path, "/x=y z");
    config_fini(&cfg);
}

/* Every key, set to something that is not its default, survives writing and reading. */
Test(config, what_is_written_reads_back)
{
    struct config a, b;
    char *first, *second;

    cr_assert_eq(config_init(&a), ST_OK);
    for (size_t i = 0; i < config_table_n(); i++) {
        char assignment[256];
        testing_other_value(config_table_at(i), assignment);
        cr_assert_eq(config_set(&a, assignment), ST_OK, "%s", assignment);
    }
    first = testing_write(&a);
    b = testing_read(first);
    cr_assert_not(testing_failed(), "%s", first);
    second = testing_write(&b);
    cr_assert_str_eq(first, second);
    cr_assert_eq(config_digest(&a), config_digest(&b));
    cr_assert_eq(memcmp(&a.train, &b.train, offsetof(struct config_train, on_nan)), 0);
    cr_assert_eq(a.optim.lr, b.optim.lr);
    free(first);
    free(second);
    config_fini(&a);
    config_fini(&b);
}

Test(config, awkward_numbers_and_texts_read_back)
{
    static const char *const assignments[] = {
        "optim.lr=0.1",
        "optim.lr=0.30000000000000004",
        "optim.lr=1e30",
        "optim.lr=5e-324",
        "optim.lr=123456789012345678",
        "train.seed=9223372036854775807",
        "comm.bucket_bytes=1025",
        "comm.bucket_bytes=1073741824",
        "data.path= lead and trail ",
        "data.path=\"",
        "data.path=\\",
        "data.path=a;b #c",
        "data.path=%n%s%d",
        "data.path=[x]",
        "data.path=\xc3\xa4\xff",
    };

    for (size_t i = 0; i < sizeof assignments / sizeof assignments[0]; i++) {
        struct config a, b;
        char *text, *again;

        cr_assert_eq(config_init(&a), ST_OK);
        cr_assert_eq(config_set(&a, assignments[i]), ST_OK, "%s", assignments[i]);
        text = testing_write(&a);
        b = testing_read(text);
        cr_assert_not(testing_failed(), "%s", assignments[i]);
        again = testing_write(&b);
        cr_assert_str_eq(text, again);
        cr_assert_str_eq(a.data.path, b.data.path);
        cr_assert(a.optim.lr == b.optim.lr && a.train.seed == b.train.seed);
        cr_assert_eq(a.comm.bucket_bytes, b.comm.bucket_bytes);
        free(text);
        free(again);
        config_fini(&a);
        config_fini(&b);
    }
}

/* Only keys in which ranks may differ leave the digest alone. */
Test(config, digest_covers_the_keys_that_all_ranks_share)
{
    struct config a;
    uint64_t plain;

    cr_assert_eq(config_init(&a), ST_OK);
    plain = config_digest(&a);
    config_fini(&a);
    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        char assignment[256];

        testing_other_value(k, assignment);
        cr_assert_eq(config_init(&a), ST_OK);
        cr_assert_eq(config_set(&a, assignment), ST_OK);
        cr_assert_eq(config_digest(&a) == plain, (k->flags & KEY_LOCAL) != 0, "%s", assignment);
        config_fini(&a);
    }
}

Test(config, failed_allocations_leak_nothing)
{
    static const char text[] = "[data]\nmean = 0.5, 1\nstd = 1, 1\npath = /x\n"
                               "dataset = synthetic\n[optim]\npolicy = cosine\n";
    enum status st = ST_NOMEM;

    testing_write_file(text, sizeof text - 1);
    for (size_t k = 1; st != ST_OK; k++) {
        struct config cfg = {0};

        mem_fail_at(k);
        st = config_init(&cfg);
        st = st == ST_OK ? config_read(&cfg, testing_path()) : st;
        st = st == ST_OK ? config_set(&cfg, "train.output=/y") : st;
        st = st == ST_OK ? config_finish(&cfg) : st;
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "allocation %zu: %s", k, status_text(st));
        config_fini(&cfg);
        cr_assert_eq(mem_live(), 0, "allocation %zu leaks", k);
    }
    (void)unlink(testing_path());
}
