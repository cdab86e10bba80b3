/* Traces load: after a normal end, after a kill, with odd names, without a step. */
#include "fixture.h"

#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "comm/plan.h"
#include "train/trace.h"

TestSuite(trace, .init = scratch_make, .fini = scratch_remove);

static const char *const layers[] = {"a\"b\\c\nd", "conv1", "\x01\xff\xc3\xa9"};
static const char *const buckets[] = {"fc2 ... a\"b\\c\nd", "conv1"};

static struct trace *make(size_t max_events, uint64_t first, uint64_t n_steps)
{
    static char path[128];
    struct trace_args args = {.path = path,
                              .n_ranks = 2,
                              .first = first,
                              .n_steps = n_steps,
                              .max_events = max_events,
                              .collective = "allreduce",
                              .layers = layers,
                              .n_layers = 3,
                              .buckets = buckets,
                              .n_buckets = 2};
    struct trace *t;

    (void)snprintf(path, sizeof path, "%s/trace.json", scratch);
    cr_assert_eq(trace_create(&args, &t), ST_OK);
    return t;
}

static json_t *parse(const char *text)
{
    json_error_t e;
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &e);

    cr_assert_not_null(j, "%s at line %d: %.300s", e.text, e.line, text);
    cr_assert(json_is_array(j));
    return j;
}

/* As a viewer does with the trace of a run that was killed. */
static json_t *parse_open(const char *name)
{
    char *text = slurp(name), *closed = calloc(1, strlen(text) + 3);
    json_t *j;

    cr_assert_null(strstr(text, "\n]"), "it is not closed yet");
    (void)sprintf(closed, "%s]", text);
    j = parse(closed);
    free(text);
    free(closed);
    return j;
}

static size_t count_events(const json_t *all, const char *name, const char *phase)
{
    size_t n = 0, i;
    json_t *v;

    json_array_foreach(all, i, v)
    {
        n += strcmp(json_string_value(json_object_get(v, "ph")), phase) == 0 &&
             (name == NULL || strcmp(json_string_value(json_object_get(v, "name")), name) == 0);
    }
    return n;
}

Test(trace, a_trace_without_events_loads)
{
    struct trace *t = make(4, 3, 0);
    json_t *j;
    char *text;

    cr_assert_not(trace_wants(t, 3));
    cr_assert_not(trace_wants(NULL, 3));
    cr_assert_eq(trace_close(t), ST_OK);
    trace_destroy(t);
    text = slurp("trace.json");
    j = parse(text);
    cr_assert_eq(count_events(j, NULL, "M"), 8);
    cr_assert_eq(json_array_size(j), 8);
    json_decref(j);
    free(text);
}

Test(trace, odd_names_and_an_open_end)
{
    struct trace *t = make(8, 2, 2);
    json_t *j;
    double zero = clock_now_s();
    char *text;

    cr_assert_not(trace_wants(t, 1));
    cr_assert(trace_wants(t, 2) && trace_wants(t, 3));
    cr_assert_not(trace_wants(t, 4));
    for (int r = 0; r < 2; r++) {
        for (size_t k = 0; k < 3; k++) {
            trace_add(t, r, TRACE_FORWARD, k, zero + (double)k * 1e-3, zero + (double)k * 1e-3);
        }
        trace_add(t, r, TRACE_BUCKET, 0, zero + 1.5e-3, zero + 2.5e-3);
        trace_add(t, r, TRACE_WAIT, 0, zero + 2e-3, zero + 1e-3); /* never negative */
        trace_write(t, r, 2);
        j = parse_open("trace.json");
        json_decref(j);
    }
    cr_assert_eq(trace_close(t), ST_OK);
    trace_destroy(t);
    text = slurp("trace.json");
    j = parse(text);
    cr_assert_eq(count_events(j, "forward a\"b\\c\nd", "X"), 2);
    cr_assert_eq(count_events(j, "forward \x01?\xc3\xa9", "X"), 2);
    cr_assert_eq(count_events(j, "allreduce fc2 ... a\"b\\c\nd", "b"), 2);
    cr_assert_eq(count_events(j, "allreduce fc2 ... a\"b\\c\nd", "e"), 2);
    json_decref(j);
    free(text);
}

/* What does not fit is left out, and long traces are written in pieces of whole lines. */
Test(trace, many_events)
{
    struct trace *t = make(5000, 0, 9);
    double zero = clock_now_s();
    json_t *j;
    char *text;
    int old = capture_stderr("log");

    for (int k = 0; k < 5100; k++) {
        trace_add(t, 1, TRACE_UPDATE, 1, zero + k * 1e-6, zero + (k + 1) * 1e-6);
    }
    trace_write(t, 1, 0);
    cr_assert_eq(trace_close(t), ST_OK);
    release_stderr(old);
    trace_destroy(t);
    text = slurp("log");
    cr_assert_not_null(strstr(text, "rank 1 had 100 events too many"), "%s", text);
    free(text);
    text = slurp("trace.json");
    j = parse(text);
    cr_assert_eq(count_events(j, "update conv1", "X"), 5000);
    json_decref(j);
    free(text);
}

Test(trace, a_full_device_is_told)
{
    struct trace_args args = {
        .path = "/dev/full", .n_ranks = 1, .max_events = 1, .collective = "reduce"};
    struct trace *t;
    int old = capture_stderr("log");

    cr_assert_eq(trace_create(&args, &t), ST_IO);
    args.path = "/nowhere/at/all";
    cr_assert_eq(trace_create(&args, &t), ST_INPUT);
    release_stderr(old);
}

Test(trace, injected_failures_leave_nothing)
{
    char path[128];
    struct trace_args args = {.path = path,
                              .n_ranks = 2,
                              .max_events = 3,
                              .collective = "reduce",
                              .layers = layers,
                              .n_layers = 3,
                              .buckets = buckets,
                              .n_buckets = 2};
    const size_t live = mem_live();
    enum status st = ST_NOMEM;

    (void)snprintf(path, sizeof path, "%s/trace.json", scratch);
    for (size_t k = 1; st != ST_OK; k++) {
        struct trace *t = NULL;
        mem_fail_at(k);
        st = trace_create(&args, &t);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        trace_destroy(t);
        cr_assert_eq(mem_live(), live, "failure %zu", k);
    }
}

/* --- of a training */

static json_t *train_traced(const char *const *more, size_t n_more)
{
    char trace[128], *text;
    const char *all[16] = {trace};
    struct outcome o;
    json_t *j;

    (void)snprintf(trace, sizeof trace, "log.trace=%s/run.json", scratch);
    for (size_t i = 0; i < n_more; i++) {
        all[i + 1] = more[i];
    }
    o = run_ok(all);
    text = slurp("run.json");
    j = parse(text);
    free(text);
    free(o.weights);
    return j;
}

/* Times ascend on each thread of each rank, and nothing that runs overlaps there. */
static void check_times(const json_t *all, int n_ranks)
{
    double end[8][3] = {{0}}, ts, dur;
    size_t i;
    json_t *v;

    json_array_foreach(all, i, v)
    {
        const char *phase = json_string_value(json_object_get(v, "ph"));
        json_int_t pid = json_integer_value(json_object_get(v, "pid"));
        json_int_t tid = json_integer_value(json_object_get(v, "tid"));
        cr_assert(json_is_integer(json_object_get(v, "pid")) && pid >= 0 && pid < n_ranks);
        if (strcmp(phase, "X") != 0) {
            continue;
        }
        ts = json_number_value(json_object_get(v, "ts"));
        dur = json_number_value(json_object_get(v, "dur"));
        cr_assert(json_is_number(json_object_get(v, "ts")) && dur >= 0);
        cr_assert(tid >= 0 && tid < 3);
        if (strncmp(json_string_value(json_object_get(v, "name")), "post", 4) != 0) {
            cr_assert_geq(ts, end[pid][tid] - 0.002, "%s: %f before %f",
                          json_string_value(json_object_get(v, "name")), ts, end[pid][tid]);
            end[pid][tid] = ts + dur;
        }
    }
}

Test(trace, a_training_in_a_window)
{
    static const char *const ways[][2] = {{"comm.order=fifo", "optim.fuse=off"},
                                          {"comm.order=priority", "optim.fuse=auto"},
                                          {"comm.sync=reduce-broadcast", "optim.fuse=auto"},
                                          {"comm.overlap=no", "optim.fuse=off"},
                                          {"comm.order=fifo", "optim.fuse=on"}};

    for (int k = 0; k < 5; k++) {
        const size_t updates = k == 2 ? 3 : k == 4 ? 0 : 4 * 3; /* on their own */
        const char *const more[] = {"device.count=4",     "log.trace_first=2", "log.trace_steps=3",
                                    "train.max_steps=9",  ways[k][0],          ways[k][1],
                                    "comm.buckets=layer", "comm.backend=mst"};
        json_t *j = train_traced(more, 8);
        size_t layers_found = count_events(j, "forward fc1", "X"), i;
        json_t *v;

        cr_assert_eq(layers_found, 4 * 3, "each rank and step: %zu", layers_found);
        cr_assert_eq(count_events(j, "backward fc1", "X"), 4 * 3);
        cr_assert_eq(count_events(j, "wait for a batch", "X"), 4 * 3);
        cr_assert_eq(count_events(j, k == 2 ? "reduce fc1" : "allreduce fc1", "b"), 4 * 3);
        cr_assert_eq(count_events(j, k == 2 ? "reduce fc1" : "allreduce fc1", "e"), 4 * 3);
        cr_assert_eq(count_events(j, "broadcast fc1", "b"), k == 2 ? 4 * 3 : 0);
        cr_assert_eq(count_events(j, "update fc1", "X"), updates);
        check_times(j, 4);
        json_array_foreach(j, i, v)
        {
            json_int_t step =
                json_integer_value(json_object_get(json_object_get(v, "args"), "step"));
            cr_assert(!json_is_integer(json_object_get(json_object_get(v, "args"), "step")) ||
                      (step >= 3 && step <= 5));
        }
        json_decref(j);
    }
}

/* The last line of a process that was killed while it wrote may be cut. */
static json_t *parse_killed(const char *name)
{
    char *text = slurp(name), *last = text, *next;
    json_t *j;

    while ((next = strstr(last + 1, ",\n{")) != NULL) {
        last = next;
    }
    (void)strcpy(last, "]");
    j = parse(text);
    free(text);
    return j;
}

/* Killed in the middle: the file lacks the closing bracket, and at most a part of its last line. */
Test(trace, a_killed_run_leaves_a_trace_that_loads)
{
    char trace[128], name[] = "run.json";
    const char *const more[] = {trace, "device.count=4", "log.trace_steps=1000000",
                                "train.max_steps=100000000", NULL};
    const struct timespec moment = {0, 5000000};
    struct config cfg;
    struct trainer *t;
    struct trainer_summary s;
    json_t *j;
    char path[128];
    struct stat st = {.st_size = 0};
    pid_t child;
    int status;

    (void)snprintf(trace, sizeof trace, "log.trace=%s/%s", scratch, name);
    (void)snprintf(path, sizeof path, "%s/%s", scratch, name);
    child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        make_config(&cfg, more);
        if (trainer_create(&cfg, false, &t) != ST_OK) {
            _exit(1);
        }
        _exit(trainer_run(t, &s) == ST_OK);
    }
    for (int i = 0; i < 12000 && st.st_size < 60000; i++) {
        (void)nanosleep(&moment, NULL);
        (void)stat(path, &st);
    }
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status));
    j = parse_killed(name);
    cr_assert_gt(count_events(j, "forward fc1", "X"), 3);
    json_decref(j);
}
