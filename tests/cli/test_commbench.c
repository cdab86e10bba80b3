#include <criterion/criterion.h>
#include <string.h>

#include "cli/bench_options.h"
#include "cli/bench_results.h"
#include "cli_testing.h"

/* Parse these words as a command line. */
static enum status parse(struct bench_options *o, const char *const *words)
{
    const char *argv[16] = {"commbench"};
    int argc = 1;

    while (words[argc - 1] != NULL) {
        argv[argc] = words[argc - 1];
        argc++;
    }
    return bench_options_parse(argc, argv, o);
}
#define PARSE(o, ...) parse(o, (const char *const[]){__VA_ARGS__, NULL})

Test(commbench, options_have_the_letters_and_units_of_the_field)
{
    struct bench_options o;

    cr_assert_eq(PARSE(&o, "-b", "8", "-e", "1G", "-f", "2", "-n", "20", "-w", "1", "-c", "0", "-g",
                       "4", "--backend=ring,auto,lp"),
                 ST_OK);
    cr_assert(o.begin == 8 && o.end == (uint64_t)1 << 30 && o.factor == 2);
    cr_assert(o.n_iterations == 20 && o.n_warmup == 1 && !o.check && o.n_devices == 4);
    cr_assert_eq(o.n_backends, 3);
    cr_assert_str_eq(o.backends[1], "auto");
    cr_assert_eq(o.collective, COLL_ALLREDUCE);
    cr_assert_eq(PARSE(&o, "--collective", "reduce-scatter", "-d", "bfloat16", "-o", "max",
                       "--place", "in", "--emulate", "10", "--startup", "0.5"),
                 ST_OK);
    cr_assert(o.collective == COLL_REDUCE_SCATTER && o.dtype == DTYPE_BF16);
    cr_assert(o.redop == REDOP_MAX && o.in_place && !o.out_of_place && o.emulate && o.scale == 10);
    cr_assert_eq(o.startup_us, 0.5);
    cr_assert_eq(o.n_backends > 5, true); /* all, where none is named */
    cr_assert_null(o.peer);
    cr_assert_eq(PARSE(&o, "--peer", "mpich"), ST_OK);
    cr_assert_str_eq(o.peer, "mpich");
}

Test(commbench, junk_is_refused)
{
    const char *bad[][2] = {{"-b", "4x"},
                            {"-f", "1"},
                            {"-n", "-1"},
                            {"--backend", "rign"},
                            {"--backend", "ring,"},
                            {"-d", "double"},
                            {"-o", "prod"},
                            {"-g", "0"},
                            {"--place", "inn"},
                            {"--out", "x.txt"},
                            {"-T", "0"},
                            {"--emulate", "0"},
                            {"--startup", "-1"},
                            {"--peer", "nccl"},
                            {"--colective", "reduce"}};
    struct bench_options o;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(PARSE(&o, bad[i][0], bad[i][1]), ST_BADARG, "%s %s", bad[i][0], bad[i][1]);
    }
    cr_assert_eq(PARSE(&o, "-b", "2K", "-e", "1K"), ST_BADARG);
}

static void write_results(const char *path)
{
    struct topo *t;
    struct bench_result r = {.time_s = 1e-6,
                             .algbw_gbs = 4.096,
                             .busbw_gbs = 4.096,
                             .predicted_s = 2e-6,
                             .backend = "ring",
                             .n_iterations = 5,
                             .wrong = 3};
    const struct bench_result *place[2] = {&r, &r};
    struct bench_results *results;
    struct bench_spec spec = {.backend = "ring", .collective = COLL_ALLREDUCE, .n = 1024};

    cr_assert_eq(topo_mesh(2, 1000, 5, &t), ST_OK);
    spec.topo = t;
    spec.check = true;
    cr_assert_eq(bench_results_open(path, &results), ST_OK);
    bench_results_line(results, &spec, place);
    spec.check = false;
    bench_results_line(results, &spec, place);
    cr_assert_eq(bench_results_close(results), ST_OK);
    topo_destroy(t);
}

Test(commbench, results_are_csv_and_json, .fini = cli_clean)
{
    const char *text;

    write_results(cli_path("r.csv"));
    text = cli_read_file("r.csv");
    cr_assert_eq(cli_count(text, "\n"), 5);
    cr_assert_eq(cli_count(text, "ring,allreduce,memory,2,4096,1024,float,sum,0,"), 4);
    cr_assert_eq(cli_count(text, ",3\n"), 2);
    cr_assert_eq(cli_count(text, ",nan\n"), 2);
    write_results(cli_path("r.json"));
    text = cli_read_file("r.json");
    cr_assert_eq(cli_count(text, "\"bytes\": 4096"), 4);
    cr_assert_eq(cli_count(text, "\"wrong\": null}"), 2);
    cr_assert(text[0] == '[' && strcmp(text + strlen(text) - 2, "]\n") == 0);
}

Test(commbench, a_block_has_its_heading_with_its_first_line, .fini = cli_clean)
{
    struct topo *t;
    struct bench_results *results;
    struct bench_result r = {.backend = "ring"};
    const struct bench_result *place[2] = {&r, NULL};
    struct bench_spec spec = {.backend = "ring", .collective = COLL_ALLREDUCE, .n = 1024};
    const char *text;

    cr_assert_not_null(freopen(cli_path("out"), "w", stdout));
    cr_assert_eq(topo_mesh(2, 1000, 5, &t), ST_OK);
    spec.topo = t;
    cr_assert_eq(bench_results_open("", &results), ST_OK);
    bench_results_begin(results);
    cr_assert_eq(fflush(stdout), 0);
    cr_assert_str_empty(cli_read_file("out"), "a heading, and then perhaps no measurement");
    bench_results_line(results, &spec, place);
    bench_results_line(results, &spec, place);
    cr_assert_eq(fflush(stdout), 0);
    text = cli_read_file("out");
    cr_assert_eq(cli_count(text, "# backend ring, allreduce over 2 devices"), 1);
    cr_assert_eq(cli_count(text, "\n"), 4);
    cr_assert_eq(bench_results_close(results), ST_OK);
    topo_destroy(t);
}

Test(commbench, a_place_that_cannot_be_written_is_an_error)
{
    struct bench_results *results;

    cr_assert_eq(bench_results_open("/nonexistent/r.csv", &results), ST_IO);
}
