#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
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
    cr_assert(o.nccl_log == NULL && !o.cuda);
    cr_assert_eq(PARSE(&o, "--type", "cuda", "--backend", "nccl", "--nccl-log", "nccl.log"), ST_OK);
    cr_assert(o.cuda && !o.oversubscribe);
    cr_assert_str_eq(o.nccl_log, "nccl.log");
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
                            {"--emulate", "1e300"},
                            {"--startup", "1e7"},
                            {"-T", "1e300"},
                            {"-T", "nan"},
                            {"--startup", "-1"},
                            {"--peer", "nccl"},
                            {"--colective", "reduce"}};
    struct bench_options o;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(PARSE(&o, bad[i][0], bad[i][1]), ST_BADARG, "%s %s", bad[i][0], bad[i][1]);
    }
    cr_assert_eq(PARSE(&o, "-b", "2K", "-e", "1K"), ST_BADARG);
}

static size_t count_sizes(uint64_t begin, uint64_t end, uint64_t factor, uint64_t *last)
{
    struct bench_options o = {.begin = begin, .end = end, .factor = factor, .dtype = DTYPE_F32};
    size_t n = 1;

    for (*last = begin; bench_options_next(&o, last); n++) {
    }
    return n;
}

Test(commbench, sizes_go_from_the_first_to_the_last_and_no_further)
{
    uint64_t last;

    cr_assert(count_sizes(8, 8, 2, &last) == 1 && last == 8);
    cr_assert(count_sizes(8, 100, 2, &last) == 4 && last == 64);
    cr_assert(count_sizes(8, 128, 2, &last) == 5 && last == 128);
    cr_assert(count_sizes(0, 0, 2, &last) == 1 && last == 0);
    cr_assert(count_sizes(0, 3, 2, &last) == 1 && last == 0);
    cr_assert(count_sizes(0, 16, 2, &last) == 4 && last == 16, "nothing, then one element");
    cr_assert(count_sizes(1, UINT64_MAX, 2, &last) == 64 && last == (uint64_t)1 << 63);
    cr_assert(count_sizes(UINT64_MAX, UINT64_MAX, 2, &last) == 1);
}

static void write_line(struct bench_results *results, bool checked, bool both, double predicted_s)
{
    struct topo *t;
    struct bench_result r = {.time_s = 1e-6,
                             .algbw_gbs = 4.096,
                             .busbw_gbs = 4.096,
                             .predicted_s = predicted_s,
                             .backend = "ring",
                             .n_iterations = 5,
                             .wrong = 3};
    const struct bench_result *place[2] = {&r, both ? &r : NULL};
    struct bench_spec spec = {
        .backend = "ring", .collective = COLL_ALLREDUCE, .n = 1024, .check = checked};

    cr_assert_eq(topo_mesh(2, 1000, 5, &t), ST_OK);
    spec.topo = t;
    bench_results_line(results, &spec, place);
    topo_destroy(t);
}

/* Two lines with two results each: what was compared, and what was not. */
static void write_results(const char *path, bool add, double predicted_s)
{
    struct bench_results *results;

    cr_assert_eq(bench_results_open(path, add, &results), ST_OK);
    write_line(results, true, true, predicted_s);
    write_line(results, false, true, predicted_s);
    cr_assert_eq(bench_results_close(results), ST_OK);
}

Test(commbench, results_are_csv_and_json, .fini = cli_clean)
{
    const char *text;

    write_results(cli_path("r.csv"), false, 2e-6);
    text = cli_read_file("r.csv");
    cr_assert_eq(cli_count(text, "\n"), 5);
    cr_assert_eq(cli_count(text, "ring,allreduce,memory,2,4096,1024,float,sum,0,"), 4);
    cr_assert_eq(cli_count(text, ",3\n"), 2);
    cr_assert_eq(cli_count(text, ",nan\n"), 2);
    write_results(cli_path("r.json"), false, 2e-6);
    text = cli_read_file("r.json");
    cr_assert_eq(cli_count(text, "\"bytes\": 4096"), 4);
    cr_assert_eq(cli_count(text, "\"wrong\": null}"), 2);
    cr_assert(text[0] == '[' && strcmp(text + strlen(text) - 2, "]\n") == 0);
}

/* As a peer does; the file is whole after each line. */
Test(commbench, another_program_adds_its_results, .fini = cli_clean)
{
    static const char *const names[] = {"r.csv", "r.json"};
    struct bench_results *results;
    const char *text;
    json_t *rows;

    for (int k = 0; k < 2; k++) {
        write_results(cli_path(names[k]), false, 2e-6); /* is overwritten */
        cr_assert_eq(bench_results_open(cli_path(names[k]), false, &results), ST_OK);
        write_line(results, true, false, 2e-6);
        text = cli_read_file(names[k]);
        cr_assert_eq(cli_count(text, "ring"), 1);
        write_results(cli_path(names[k]), true, NAN);
        cr_assert_eq(bench_results_close(results), ST_OK);
        cr_assert_eq(cli_count(cli_read_file(names[k]), "ring"), 5);
    }
    cr_assert_eq(cli_count(cli_read_file("r.csv"), "\n"), 6);
    cr_assert_eq(cli_count(cli_read_file("r.csv"), ",nan,4.096,"), 4);
    rows = json_loads(cli_read_file("r.json"), 0, NULL);
    cr_assert_eq(json_array_size(rows), 5);
    cr_assert(json_is_number(json_object_get(json_array_get(rows, 0), "predicted_s")));
    cr_assert(json_is_null(json_object_get(json_array_get(rows, 4), "predicted_s")));
    json_decref(rows);
}

Test(commbench, a_block_has_its_heading_with_its_first_line, .fini = cli_clean)
{
    struct bench_results *results;
    const char *text;

    cr_assert_not_null(freopen(cli_path("out"), "w", stdout));
    cr_assert_eq(bench_results_open("", false, &results), ST_OK);
    bench_results_begin(results);
    cr_assert_eq(fflush(stdout), 0);
    cr_assert_str_empty(cli_read_file("out"), "a heading, and then perhaps no measurement");
    write_line(results, true, false, 0);
    write_line(results, true, false, 0);
    cr_assert_eq(fflush(stdout), 0);
    text = cli_read_file("out");
    cr_assert_eq(cli_count(text, "# backend ring, allreduce over 2 devices"), 1);
    cr_assert_eq(cli_count(text, "\n"), 4);
    cr_assert_eq(bench_results_close(results), ST_OK);
}

Test(commbench, a_place_that_cannot_be_written_is_an_error)
{
    struct bench_results *results;

    cr_assert_eq(bench_results_open("/nonexistent/r.csv", false, &results), ST_IO);
}
