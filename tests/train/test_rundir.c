#include "fixture.h"

#include <errno.h>

#include "train/rundir.h"

TestSuite(rundir, .init = scratch_make, .fini = scratch_remove);

static enum status make(const char *output, struct rundir **out)
{
    struct config cfg;
    char text[1024];
    enum status st;

    make_config(&cfg, NULL);
    (void)snprintf(text, sizeof text, "train.output=%s", output);
    set(&cfg, text);
    st = rundir_create(&cfg, out);
    config_fini(&cfg);
    return st;
}

static bool exists(const char *folder, const char *name)
{
    char path[2048];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

Test(rundir, parents_are_made_and_odd_names_are_taken)
{
    static const char *const names[] = {"plain", "a/b/c", "with space/and %s %n %d", "slashes//"};
    char path[512];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct rundir *d = NULL;
        (void)snprintf(path, sizeof path, "%s/%s", scratch, names[i]);
        cr_assert_eq(make(path, &d), ST_OK, "%s", names[i]);
        cr_assert(exists(path, "config.ini"));
        cr_assert(exists(path, "steps.csv"));
        cr_assert(exists(path, "epochs.csv"));
        rundir_destroy(d);
    }
}

Test(rundir, long_paths)
{
    char path[800];
    struct rundir *d = NULL;
    size_t n = (size_t)snprintf(path, sizeof path, "%s", scratch);

    while (n < 450) {
        n += (size_t)snprintf(path + n, sizeof path - n, "/%0100d", 7);
    }
    cr_assert_eq(make(path, &d), ST_OK);
    cr_assert(exists(path, "config.ini"));
    cr_assert_str_eq(rundir_path(d), path);
    rundir_destroy(d);
    (void)snprintf(path, sizeof path, "%s/%0300d", scratch, 7);
    cr_assert_eq(make(path, &d), ST_INPUT, "a name that no file system takes");
}

Test(rundir, a_run_is_never_overwritten)
{
    char path[128];
    struct rundir *d = NULL, *again = NULL;

    (void)snprintf(path, sizeof path, "%s/once", scratch);
    cr_assert_eq(mkdir(path, 0777), 0);
    cr_assert_eq(make(path, &d), ST_OK, "an empty folder is fine");
    cr_assert_eq(make(path, &again), ST_INPUT);
    rundir_destroy(d);
    cr_assert_eq(make(path, &again), ST_INPUT, "also after its end");
}

Test(rundir, places_where_nothing_can_be_written)
{
    char path[128], below[160];
    struct rundir *d = NULL;
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/file", scratch);
    (void)snprintf(below, sizeof below, "%s/under", path);
    f = fopen(path, "w");
    (void)fclose(f);
    cr_assert_eq(make(path, &d), ST_INPUT, "a file of that name");
    cr_assert_eq(make(below, &d), ST_INPUT, "a file among its parents");
    cr_assert_eq(make("/proc/espalier/run", &d), ST_INPUT, "no place for folders");
    if (geteuid() != 0) {
        cr_assert_eq(make("/espalier-run", &d), ST_INPUT, "no right to");
    }
}

Test(rundir, default_names_are_unique)
{
    struct rundir *d[4] = {NULL};
    struct config cfg;

    cr_assert_eq(chdir(scratch), 0);
    make_config(&cfg, NULL);
    set(&cfg, "train.output=");
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(rundir_create(&cfg, &d[i]), ST_OK);
        cr_assert_eq(strncmp(rundir_path(d[i]), "runs/run-", 9), 0, "%s", rundir_path(d[i]));
        for (int k = 0; k < i; k++) {
            cr_assert_str_neq(rundir_path(d[i]), rundir_path(d[k]));
        }
    }
    for (int i = 0; i < 4; i++) {
        rundir_destroy(d[i]);
    }
    config_fini(&cfg);
}

Test(rundir, a_folder_that_goes_away_is_noticed)
{
    char path[128];
    struct rundir *d = NULL;

    (void)snprintf(path, sizeof path, "%s/gone", scratch);
    cr_assert_eq(make(path, &d), ST_OK);
    cr_assert_eq(rundir_flush(d), ST_OK);
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    cr_assert_eq(rundir_flush(d), ST_IO);
    rundir_destroy(d);
}

Test(rundir, the_effective_config_gives_the_same_config)
{
    char path[128], ini[160];
    struct rundir *d = NULL;
    struct config a, b;

    (void)snprintf(path, sizeof path, "%s/config", scratch);
    cr_assert_eq(make(path, &d), ST_OK);
    rundir_destroy(d);
    (void)snprintf(ini, sizeof ini, "%s/config.ini", path);
    make_config(&a, NULL);
    memset(&b, 0, sizeof b);
    cr_assert_eq(config_init(&b), ST_OK);
    cr_assert_eq(config_read(&b, ini), ST_OK);
    cr_assert_eq(config_finish(&b), ST_OK);
    cr_assert_eq(config_digest(&a), config_digest(&b));
    config_fini(&a);
    config_fini(&b);
}

Test(rundir, the_cache_of_algorithms)
{
    char want[256];
    char *path = rundir_tuning_cache();

    (void)snprintf(want, sizeof want, "%s/espalier/tuning", scratch);
    cr_assert_str_eq(path, want);
    mem_free(path);
    setenv("XDG_CACHE_HOME", "relative", 1); /* not a path by the standard: home it is */
    (void)snprintf(want, sizeof want, "%s/home", scratch);
    setenv("HOME", want, 1);
    path = rundir_tuning_cache();
    (void)snprintf(want, sizeof want, "%s/home/.cache/espalier/tuning", scratch);
    cr_assert_str_eq(path, want);
    mem_free(path);
    setenv("HOME", "", 1);
    path = rundir_tuning_cache();
    cr_assert_str_eq(path, "");
    mem_free(path);
}
