/* Planted faults: every rank ends, soon, with 4 and with the name of the one that is missing. */
#include "fixture.h"

#include <dirent.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/plan.h"

TestSuite(faults, .init = scratch_make, .fini = scratch_remove);

enum {
    TIMEOUT_S = 2,
    ALLOWED_S = TIMEOUT_S + 5,
    TOO_LONG = 77,
    LEFT_BEHIND = 78,
    MAX_CASES = 16
};

struct planted {
    pid_t process;
    int victim;
    bool rooted; /* sums go to a root first */
    char what[128], log[32];
};

static size_t count_entries(const char *folder)
{
    DIR *d = opendir(folder);
    size_t n = 0;

    while (d != NULL && readdir(d) != NULL) {
        n++;
    }
    (void)closedir(d);
    return n;
}

/* What a process leaves that others see, and what it holds itself. */
static size_t count_left(void)
{
    return count_entries("/proc/self/task") + count_entries("/proc/self/fd");
}

/* A process of its own, as the program does it. */
static void train_and_exit(const char *const *more)
{
    struct config cfg;
    struct trainer *t = NULL;
    struct trainer_summary s;
    const size_t left = count_left();
    double from;
    enum status st;

    make_config(&cfg, more);
    st = trainer_create(&cfg, false, &t);
    from = clock_now_s();
    if (st == ST_OK) {
        st = trainer_run(t, &s);
        if (clock_now_s() - from > ALLOWED_S) {
            _exit(TOO_LONG);
        }
        if (trainer_is_stuck(t)) {
            _exit(status_exit_code(st));
        }
    }
    trainer_destroy(t);
    config_fini(&cfg);
    _exit(count_left() > left || mem_live() > 0 ? LEFT_BEHIND : status_exit_code(st));
}

static void start(struct planted *p, int number, const char *const *more)
{
    char path[128];

    (void)snprintf(p->log, sizeof p->log, "log%d", number);
    (void)snprintf(path, sizeof path, "train.output=%s/case%d", scratch, number);
    p->process = fork();
    cr_assert_geq(p->process, 0);
    if (p->process == 0) {
        const char *all[16] = {path, "device.count=4", "train.batch_per_device=4"};
        size_t n = 3;
        for (; *more != NULL; more++) {
            all[n++] = *more;
        }
        (void)capture_stderr(p->log);
        train_and_exit(all);
    }
}

static void start_case(struct planted *p, int number, const char *backend, bool overlap, int kind)
{
    static const char *const kinds[] = {"kill:%d@3", "stall:%d@3", "stall:%d@3:3.5s"};
    char fault[64], inject[96], name[64], timeout[32];
    const bool fuse = (number + number / 6) % 2 == 0; /* the cases of a backend are six */
    const char *const more[] = {inject,
                                name,
                                timeout,
                                overlap ? "comm.overlap=yes" : "comm.overlap=no",
                                fuse ? "optim.fuse=on" : "optim.fuse=off",
                                NULL};

    *p = (struct planted){.victim = number % 3 == 0 ? 0 : 2};
    (void)snprintf(fault, sizeof fault, kinds[kind], p->victim);
    (void)snprintf(inject, sizeof inject, "debug.inject=%s", fault);
    (void)snprintf(name, sizeof name, "comm.backend=%s", backend);
    (void)snprintf(timeout, sizeof timeout, "comm.timeout_s=%d", TIMEOUT_S);
    (void)snprintf(p->what, sizeof p->what, "%s, %s, overlap %d", backend, fault, overlap);
    start(p, number, more);
}

static void check_case(const struct planted *p)
{
    int status;
    char *log, missing[32];

    cr_assert_eq(waitpid(p->process, &status, 0), p->process);
    log = slurp(p->log);
    cr_assert(WIFEXITED(status), "%s: %s", p->what, log);
    cr_assert_eq(WEXITSTATUS(status), 4, "%s: %d, %s", p->what, WEXITSTATUS(status), log);
    cr_assert_not_null(strstr(log, ") timed out after"), "%s: %s", p->what, log);
    (void)snprintf(missing, sizeof missing, "waiting for rank %d,", p->victim);
    cr_assert_not_null(
        strstr(log, p->rooted ? ": reduce of bucket 0 (output" : ": allreduce of bucket 0 (output"),
        "%s: %s", p->what, log);
    cr_assert_not_null(strstr(log, missing), "%s: %s", p->what, log);
    cr_assert_eq(count_lines(log, "\n"), 1, "%s: %s", p->what, log);
    free(log);
}

Test(faults, kills_and_stalls_end_all_ranks)
{
    int number = 0;

    for (size_t k = 0; planner_at(k) != NULL; k++) {
        struct planted cases[MAX_CASES];
        int n = 0;
        if (strcmp(planner_at(k)->name, "nccl") == 0) {
            continue; /* needs GPUs */
        }
        for (int overlap = 0; overlap < 2; overlap++) {
            for (int kind = 0; kind < 3; kind++) {
                start_case(&cases[n], number, planner_at(k)->name, overlap != 0, kind);
                n++;
                number++;
            }
        }
        for (int i = 0; i < n; i++) {
            check_case(&cases[i]);
        }
    }
}

/* Where another thread moves the bytes, over emulated links; and while the first steps measure. */
Test(faults, kills_and_stalls_end_all_ranks_on_links_and_in_surveys)
{
    static const char *const kinds[] = {"debug.inject=kill:2@3", "debug.inject=stall:2@3",
                                        "debug.inject=stall:2@3:3.5s"};
    static const char *const ways[][2] = {{"comm.backend=lp", "comm.fabric=emulate"},
                                          {"comm.backend=ring", "comm.fabric=emulate"},
                                          {"comm.backend=onehop", "comm.chunks=tune"},
                                          {"comm.backend=mst", "comm.chunks=tune"}};
    struct planted cases[12];

    for (int k = 0; k < 12; k++) {
        const char *const more[] = {kinds[k % 3], ways[k / 3][0], ways[k / 3][1],
                                    "comm.timeout_s=2", NULL};
        cases[k] = (struct planted){.victim = 2};
        (void)snprintf(cases[k].what, sizeof cases[k].what, "%s, %s, %s", more[0], more[1],
                       more[2]);
        start(&cases[k], k, more);
    }
    for (int k = 0; k < 12; k++) {
        check_case(&cases[k]);
    }
}

/* Where a root updates the weights; who waits for the root must not be left behind. */
Test(faults, kills_and_stalls_end_all_ranks_around_a_root)
{
    static const char *const kinds[] = {"kill:2@3", "kill:0@3", "stall:2@3", "stall:0@3:3.5s"};
    static const char *const ways[][2] = {{"comm.overlap=yes", "comm.backend=mst"},
                                          {"comm.overlap=no", "comm.backend=central"},
                                          {"comm.overlap=no", "debug.verify_every=2"}};
    struct planted cases[12];

    for (int k = 0; k < 12; k++) {
        char fault[32];
        const char *const more[] = {
            fault, ways[k / 4][0], ways[k / 4][1], "comm.sync=reduce-broadcast", "comm.timeout_s=2",
            NULL};
        (void)snprintf(fault, sizeof fault, "debug.inject=%s", kinds[k % 4]);
        cases[k] = (struct planted){.victim = k % 2 == 0 ? 2 : 0, .rooted = true};
        (void)snprintf(cases[k].what, sizeof cases[k].what, "%s, %s, %s", fault, more[1], more[2]);
        start(&cases[k], k, more);
    }
    for (int k = 0; k < 12; k++) {
        check_case(&cases[k]);
    }
}

/* Rank 3 has given its part and only finds rank 0 missing when all meet; any rank may be first. */
Test(faults, whoever_misses_a_rank_names_the_sum)
{
    struct planted cases[8];

    for (int k = 0; k < 8; k++) {
        const char *const more[] = {"debug.inject=stall:0@3",
                                    "comm.backend=mst",
                                    "optim.fuse=on",
                                    "comm.buckets=one",
                                    "comm.workers=1",
                                    "comm.timeout_s=2",
                                    NULL};
        cases[k] = (struct planted){.victim = 0, .what = "mst"};
        start(&cases[k], k, more);
    }
    for (int k = 0; k < 8; k++) {
        check_case(&cases[k]);
    }
}

/* A rank that hangs is named, also where the run ends because of another one. */
Test(faults, a_rank_that_never_comes_back_is_named)
{
    struct planted p = {.victim = 1};
    const char *const more[] = {"debug.inject=fail:2@3, stall:1@3", "comm.timeout_s=2", NULL};
    int status;
    char *log;

    start(&p, 0, more);
    cr_assert_eq(waitpid(p.process, &status, 0), p.process);
    log = slurp(p.log);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%d, %s", status, log);
    cr_assert_not_null(strstr(log, "injected failure on rank 2"), "%s", log);
    cr_assert_not_null(strstr(log, "rank 1 has not come back"), "%s", log);
    cr_assert_eq(count_lines(log, "\n"), 2, "%s", log);
    free(log);
}

/* Delays below the timeout change nothing but the time. */
Test(faults, short_delays_are_harmless)
{
    const char *const plain[] = {"device.count=3", NULL};
    const char *const slow[] = {"device.count=3",
                                "debug.inject=stall:1@2:0.2s, slow:2@*:1ms, slow:0@3:20ms", NULL};
    struct outcome a = run_ok(plain), b = run_ok(slow);

    cr_assert_eq(memcmp(a.weights, b.weights, a.n * sizeof(float)), 0);
    free(a.weights);
    free(b.weights);
}

/* A bucket that one rank leaves out would leave finite, wrong weights. */
Test(faults, a_skipped_bucket_is_an_error_on_all_ranks)
{
    static const char *const overlap[] = {"comm.overlap=yes", "comm.overlap=no"};
    static const char *const fuse[] = {"optim.fuse=on", "optim.fuse=off"};

    for (int k = 0; k < 4; k++) {
        const char *const two[] = {"device.count=3", "train.max_steps=2", fuse[k / 2], NULL};
        const char *const more[] = {"device.count=3", "debug.inject=skip:1@3", overlap[k % 2],
                                    fuse[k / 2], NULL};
        struct outcome want = run_ok(two), o;
        int old = capture_stderr("log");
        char *log;

        o = run(more);
        release_stderr(old);
        log = slurp("log");
        cr_assert_eq(o.status, ST_INTERNAL, "%s", status_text(o.status));
        cr_assert_not_null(strstr(log, "rank 1 did not hand over bucket 0"), "%s", log);
        cr_assert_eq(o.summary.steps, 2);
        if (k / 2 == 1) { /* inside the reduction the other buckets may have been updated */
            cr_assert_eq(memcmp(o.weights, want.weights, o.n * sizeof(float)), 0, "no update");
        }
        free(log);
        free(o.weights);
        free(want.weights);
    }
}

Test(faults, the_only_rank_may_be_gone)
{
    const char *const more[] = {"debug.inject=kill:0@3", NULL};
    int old = capture_stderr("log");
    struct outcome o = run(more);
    char *log;

    release_stderr(old);
    log = slurp("log");
    cr_assert_eq(status_exit_code(o.status), 4);
    cr_assert_eq(o.summary.steps, 2);
    cr_assert_not_null(strstr(log, "rank 0 is gone"), "%s", log);
    free(log);
    free(o.weights);
}

/* The ranks hand over their buckets at different times, and two threads of each move bytes at once:
 * the losses of a thousand steps have the same bits as one after the other. */
Test(faults, a_thousand_uneven_steps_are_those_of_even_ones)
{
    const char *const even[] = {
        "device.count=4",   "train.batch_per_device=2", "train.max_steps=1000", "comm.overlap=no",
        "comm.buckets=one", "train.eval_every=0",       "comm.backend=mst",     NULL};
    const char *const uneven[] = {"device.count=4",
                                  "train.batch_per_device=2",
                                  "train.max_steps=1000",
                                  "comm.overlap=yes",
                                  "comm.buckets=layer",
                                  "train.eval_every=0",
                                  "comm.backend=mst",
                                  "comm.workers=4",
                                  "debug.inject=slow:1@17:3ms, slow:3@18:9ms, slow:0@400:2ms",
                                  NULL};
    struct outcome a = run_ok(even), b = run_ok(uneven);

    cr_assert_eq(a.summary.steps, 1000);
    cr_assert_eq(a.summary.train_loss, b.summary.train_loss);
    cr_assert_eq(memcmp(a.weights, b.weights, a.n * sizeof(float)), 0);
    free(a.weights);
    free(b.weights);
}
