/* On devices the times of buckets are those of the devices, learned later: none is lost, and they
 * fit together. */
#include "fixture_sealed.h"

TestSuite(device_exposed, .init = scratch_make, .fini = scratch_remove);

enum {
    N_RANKS = 2,
    N_STEPS = 12, /* of the tiny configuration */
    MAX_BUCKETS = 16
};

struct row {
    double in_flight_s, hidden_s, exposed_s;
};

/* buckets.csv of the run, whose labels have no commas with one layer for a bucket. */
static size_t read_rows(const char *run, struct row *rows)
{
    char name[64], *text, *line;
    size_t n = 0;

    (void)snprintf(name, sizeof name, "%s/buckets.csv", run);
    text = slurp(name);
    for (line = strchr(text, '\n'); line != NULL && line[1] != '\0';
         line = strchr(line + 1, '\n')) {
        struct row *r = &rows[n++];
        cr_assert(n <= MAX_BUCKETS);
        cr_assert_eq(sscanf(line, "\n%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%lf,%lf,%lf",
                            &r->in_flight_s, &r->hidden_s, &r->exposed_s),
                     3, "%s", line);
    }
    free(text);
    return n;
}

static void expect_rows(const char *run, bool overlap)
{
    struct row rows[MAX_BUCKETS];
    const size_t n = read_rows(run, rows);
    double exposed_s = 0;

    cr_assert_geq(n, 2);
    for (size_t b = 0; b < n; b++) {
        exposed_s += rows[b].exposed_s;
    }
    for (size_t b = 0; b < n; b++) {
        const struct row *r = &rows[b];
        cr_assert_gt(r->in_flight_s, 0, "bucket %zu", b);
        cr_assert(r->hidden_s >= 0 && r->hidden_s <= r->in_flight_s + 1e-6);
        cr_assert_geq(r->exposed_s, 0);
        cr_assert(overlap || r->hidden_s == 0);
        cr_assert(!overlap || r->in_flight_s - r->hidden_s <= exposed_s + 1e-6,
                  "%s, bucket %zu: %g in flight, %g hidden, of all %g exposed", run, b,
                  r->in_flight_s, r->hidden_s, exposed_s);
    }
}

Test(device_exposed, every_use_of_a_bucket_is_counted)
{
    static const char *const syncs[] = {"comm.sync=allreduce", "comm.sync=reduce-broadcast",
                                        "comm.order=priority", "comm.overlap=no"};

    for (int k = 0; k < 4; k++) {
        char trace[128], name[32], *text;
        struct row rows[MAX_BUCKETS];
        struct outcome o;
        size_t n_buckets;
        (void)snprintf(trace, sizeof trace, "log.trace=%s/trace%d.json", scratch, k);
        o = run_sealed((const char *const[]){"device.count=2", "comm.buckets=layer", syncs[k],
                                             trace, "log.trace_steps=100", NULL},
                       1);
        cr_assert_eq(o.status, ST_OK);
        cr_assert_eq(o.summary.steps, N_STEPS);
        free_outcome(&o);
        (void)snprintf(name, sizeof name, "run%d", k);
        expect_rows(name, k != 3);
        n_buckets = read_rows(name, rows);
        (void)snprintf(name, sizeof name, "trace%d.json", k);
        text = slurp(name);
        cr_assert_eq(count_lines(text, k == 1 ? "\"reduce" : "\"allreduce"),
                     2 * N_RANKS * N_STEPS * n_buckets, "%s: each has a beginning and an end",
                     syncs[k]);
        free(text);
    }
}
