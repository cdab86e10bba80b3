/* The program topo: exit codes, what goes where, and plans that pass between its commands. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/espalier-topo-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(topo_cli, .init = make_folder, .fini = remove_folder);

/* Run topo in the source tree with these words; returns the exit code. Output goes to the folder's
 * files out and err; %s in the words stands for the folder. */
static int run(const char *words)
{
    char expanded[512], command[1200];
    int rc;

    (void)snprintf(expanded, sizeof expanded, words, folder, folder);
    (void)snprintf(command, sizeof command, "cd '%s' && '%s/bin/topo' %s >'%s/out' 2>'%s/err'",
                   TEST_SOURCE_DIR, TEST_BINARY_DIR, expanded, folder, folder);
    rc = system(command);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static char text[1 << 18];

static const char *read_back(const char *name)
{
    char path[128];
    size_t n = 0;
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    if (f != NULL) {
        n = fread(text, 1, sizeof text - 1, f);
        (void)fclose(f);
    }
    text[n] = '\0';
    return text;
}

Test(topo_cli, plan_as_json_is_all_of_stdout_and_passes_the_check)
{
    json_t *plan;

    cr_assert_eq(run("plan dgx1v --links nvlink --devices 0,1,4,5,7 --json"), 0);
    plan = json_loads(read_back("out"), 0, NULL);
    cr_assert_not_null(plan);
    cr_assert_str_eq(json_string_value(json_object_get(plan, "format")), "espalier-plan/1");
    cr_assert_float_eq(json_number_value(json_object_get(plan, "algbw_gbs")), 56.25, 1e-9);
    cr_assert_float_eq(json_number_value(json_object_get(plan, "bound_gbs")), 56.25, 1e-9);
    json_decref(plan);
    cr_assert_str_empty(read_back("err"));
    cr_assert_eq(run("plan dgx1v --links nvlink --devices 0,1,4,5,7 --json --out %s/plan"), 0);
    cr_assert_eq(run("check %s/plan --topology dgx1v --links nvlink"), 0);
    cr_assert_not_null(strstr(read_back("out"), "optimal"));
    cr_assert_eq(run("check %s/plan --topology dgx1v"), 0, "the plan tells the kinds of links");
    cr_assert_not_null(strstr(read_back("out"), "optimal"));
    cr_assert_eq(run("check %s/plan --topology dgx1v --links nvlink,pcie,qpi"), 2, "another bound");
    cr_assert_eq(run("check %s/plan --topology dgx1p --links nvlink"), 2, "other links");
}

Test(topo_cli, plan_shows_the_proof_and_the_other_backends)
{
    cr_assert_eq(run("plan dgx-h100 --collective allreduce"), 0);
    (void)read_back("out");
    cr_assert_not_null(strstr(text, "257.143"));
    cr_assert_not_null(strstr(text, "the plan is optimal"));
    cr_assert_not_null(strstr(text, "because"));
    cr_assert_not_null(strstr(text, "onehop"));
    cr_assert_not_null(strstr(text, "ring"));
}

Test(topo_cli, plan_tells_why_a_backend_does_not_fit)
{
    cr_assert_eq(run("plan dgx1v --links nvlink --devices 1,4,5,7"), 0);
    cr_assert_str_empty(read_back("err"), "%s", text);
    (void)read_back("out");
    cr_assert_not_null(strstr(text, "ring                none:  needs a cycle"), "%s", text);
    cr_assert_not_null(strstr(text, "onehop              none:  needs a path"), "%s", text);
    cr_assert_not_null(strstr(text, "lp                 25.000"), "%s", text);
}

Test(topo_cli, plan_is_chosen_for_the_size_of_the_message)
{
    cr_assert_eq(run("plan mi250-32 --collective allgather --bytes 64K"), 0);
    cr_assert_null(strstr(read_back("out"), "the plan is optimal"),
                   "shallow and few trees instead");
    cr_assert_eq(run("plan mi250-32 --collective allgather --bytes 4G"), 0);
    cr_assert_not_null(strstr(read_back("out"), "the plan is optimal"));
}

Test(topo_cli, import_and_show)
{
    cr_assert_eq(run("import tests/topo/imports/v100x2.xml --out %s/v100.topo"), 0);
    cr_assert_eq(run("show %s/v100.topo --json"), 0);
    cr_assert_not_null(strstr(read_back("out"), "\"espalier-topology/1\""));
    cr_assert_eq(run("import topologies/dgx1v.topo --links nvlink --devices 0,1,3 --out %s/s.topo"),
                 0);
    cr_assert_eq(run("plan %s/s.topo"), 0);
    cr_assert_not_null(strstr(read_back("out"), "rate        50 GB/s"));
    cr_assert_eq(run("import tests/topo/imports/star3.forest.xml"), 2, "trees need a topology");
    cr_assert_eq(run("draw %s/s.topo --out %s/s.dot"), 0);
    cr_assert_not_null(strstr(read_back("s.dot"), "digraph"));
}

Test(topo_cli, wrong_usage_and_input_end_with_2)
{
    static const char *const words[] = {
        "",
        "plam dgx1v",
        "plan",
        "plan dgx1v --colective allreduce",
        "plan dgx1v --collective allreduse",
        "plan nothing-of-that-name",
        "plan dgx1v --devices 0,9",
        "plan dgx1v --devices 0,0",
        "plan dgx1v --links nvlnk",
        "plan dgx1v --links nvlink --devices 0,6",
        "plan dgx1v --root 8 --collective broadcast",
        "plan dgx1v --options wrong",
        "plan dgx1v --bytes 0",
        "plan dgx1v --bytes 4X",
        "plan dgx1v --backend treepak",
        "check README.md --topology dgx1v",
        "check README.md",
        "import README.md",
        "show README.md",
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        cr_assert_eq(run(words[i]), 2, "topo %s", words[i]);
        cr_assert_not_null(strstr(read_back("err"), "topo: error: "), "topo %s", words[i]);
        cr_assert_str_empty(read_back("out"), "topo %s", words[i]);
    }
    cr_assert_eq(run("--help"), 0);
    cr_assert_not_null(strstr(read_back("out"), "--topology"));
}
