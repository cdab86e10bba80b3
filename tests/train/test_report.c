/* Numbers that people read must add up. */
#include "fixture.h"

#include <jansson.h>
#include <locale.h>

#include "base/clock.h"
#include "train/metrics.h"

TestSuite(report, .init = scratch_make, .fini = scratch_remove);

static json_t *load(const char *name)
{
    char path[128];
    json_error_t e;
    json_t *j;

    (void)snprintf(path, sizeof path, "%s/%s", scratch, name);
    j = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    cr_assert_not_null(j, "%s", e.text);
    return j;
}

static double get(const json_t *j, const char *section, const char *key)
{
    const json_t *v = json_object_get(json_object_get(j, section), key);

    cr_assert(json_is_number(v), "%s.%s", section, key);
    return json_number_value(v);
}

Test(report, the_summary_adds_up)
{
    const char *const more[] = {"device.count=3", "train.batch_per_device=8", "train.epochs=20",
                                "data.n_train=101", NULL};
    double from = clock_now_s(), wall;
    struct outcome o = run_ok(more);
    json_t *j = load("run0/summary.json");
    double images = 0, rate = 0;

    wall = clock_now_s() - from;
    for (size_t r = 0; r < 3; r++) {
        const json_t *d = json_array_get(json_object_get(j, "devices"), r);
        images += json_number_value(json_object_get(d, "images"));
        rate += json_number_value(json_object_get(d, "images_per_s"));
    }
    cr_assert_eq(images, get(j, "speed", "images"));
    cr_assert_float_eq(rate, get(j, "speed", "images_per_s"), 1e-9 * rate);
    cr_assert_float_eq(get(j, "speed", "images_per_s") * get(j, "speed", "seconds"), images,
                       1e-9 * images);
    cr_assert_float_eq(get(j, "speed", "images_per_s_per_device") * 3, rate, 1e-9 * rate);
    cr_assert_leq(get(j, "speed", "comm_hidden_s") + get(j, "speed", "comm_exposed_s"),
                  get(j, "speed", "seconds"));
    cr_assert_leq(get(j, "speed", "compute_s") + get(j, "speed", "comm_exposed_s") +
                      get(j, "speed", "data_s"),
                  get(j, "speed", "seconds") * (1 + 1e-9));
    cr_assert_gt(get(j, "speed", "compute_s"), 0);
    cr_assert_lt(get(j, "speed", "all_steps_s"), wall);
    cr_assert_eq(get(j, "result", "images"), 20 * 101);
    cr_assert_eq(get(j, "result", "steps"), 20 * 5);
    cr_assert_eq(get(j, "work", "global_batch"), 24);
    cr_assert_eq(get(j, "speed", "steps") + get(j, "speed", "warmup_steps"), 100);
    cr_assert_str_eq(json_string_value(json_object_get(
                         json_object_get(json_object_get(j, "config"), "device"), "count")),
                     "3");
    cr_assert_float_eq(o.summary.images_per_s, get(j, "speed", "images_per_s"), 1e-6);
    json_decref(j);
    free(o.weights);
}

/* Rows of steps.csv: interval images and seconds give the rate, images add up to the whole. */
Test(report, the_rows_add_up_in_any_locale)
{
    const char *const more[] = {"device.count=2", "train.batch_per_device=8", "log.log_every=4",
                                "train.max_steps=11", NULL};
    struct outcome o;
    char *csv, *line, *save;
    double images = 0, steps = 0;

    (void)setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed */
    o = run_ok(more);
    (void)setlocale(LC_ALL, "C");
    csv = slurp("run0/steps.csv");
    line = strtok_r(csv, "\n", &save);
    cr_assert_str_eq(line, "step,epoch,lr,loss,top1,top5,steps,images,seconds,images_per_s,"
                           "compute_s,comm_hidden_s,comm_exposed_s,data_s");
    while ((line = strtok_r(NULL, "\n", &save)) != NULL) {
        double v[14];
        char *end = line;
        for (int i = 0; i < 14; i++) {
            v[i] = strtod(end, &end);
            cr_assert(*end == (i < 13 ? ',' : '\0'), "%s", line);
            end++;
        }
        images += v[7];
        steps += v[6];
        cr_assert_eq(v[0], steps);
        cr_assert_float_eq(v[9] * v[8], v[7], 1e-6 * v[7]);
        cr_assert_leq(v[11] + v[12], v[8]);
    }
    cr_assert_eq(steps, 11);
    cr_assert_eq(images, 176);
    free(csv);
    free(o.weights);
}

Test(report, numbers_that_are_not_finite)
{
    char text[32];

    cr_assert_str_eq(metrics_real(NAN, 5, text), "nan");
    cr_assert_str_eq(metrics_real(-NAN, 5, text), "nan");
    cr_assert_str_eq(metrics_real(INFINITY, 5, text), "inf");
    cr_assert_str_eq(metrics_real(-INFINITY, 5, text), "-inf");
    cr_assert_str_eq(metrics_real(0.25, 5, text), "0.25");
    cr_assert(isnan(tally_mean(0, 0)));
}

Test(report, a_full_device_is_no_success)
{
    const char *const more[] = {"device.count=2", "train.batch_per_device=8", NULL};
    int old = capture_stderr("log");
    struct outcome o;

    cr_assert_not_null(freopen("/dev/full", "w", stdout));
    o = run(more);
    release_stderr(old);
    cr_assert_eq(o.status, ST_IO, "%s", status_text(o.status));
    (void)freopen("/dev/null", "w", stdout);
    free(o.weights);
}

Test(report, no_test_images_no_accuracy)
{
    const char *const more[] = {"train.eval_every=0", "device.count=2", NULL};
    struct outcome o = run_ok(more);

    cr_assert(o.summary.test_n == 30 && isfinite(o.summary.top1), "evaluated at the end");
    free(o.weights);
}
