/* What the measurements of a survey say. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "train/layout.h"
#include "train/state.h"
#include "train/survey.h"

/* --- merging */

/* start + s * per_byte through the measured times, each by its relative error. */
static struct merge_cost fit_cost(const struct trainer *t, const double *message_s)
{
    double w = 0, x = 0, y = 0, xx = 0, xy = 0, det;
    struct merge_cost c = {0, 0};

    for (size_t b = 0; b < t->n_buckets; b++) {
        const double s = (double)comm_bytes(t->comm, b), took_s = message_s[b];
        if (isfinite(took_s) && took_s > 0) {
            const double weight = 1 / (took_s * took_s);
            w += weight;
            x += weight * s;
            y += weight * took_s;
            xx += weight * s * s;
            xy += weight * s * took_s;
        }
    }
    det = w * xx - x * x;
    if (det > 0) {
        c.s_per_byte = (w * xy - x * y) / det;
        c.start_s = (xx * y - x * xy) / det;
    }
    if (!(c.start_s >= 0) || !(c.s_per_byte >= 0)) { /* one size only, or noise */
        c = (struct merge_cost){0, xx > 0 ? xy / xx : 0};
    }
    return c;
}

/* The slowest rank's times; with buckets = merge and nothing known yet a bucket is a layer. */
static void collect_layers(struct trainer *t)
{
    struct survey *s = t->survey;
    const struct graph *g = t->ranks[0].graph;
    int i = 0;

    s->n_layers = t->n_buckets;
    for (size_t b = 0; b < t->n_buckets; b++) {
        double slowest_s = 0;
        for (int r = 0; r < t->n_ranks; r++) {
            const double took_s = s->layer_s[r][i];
            slowest_s = isfinite(took_s) && took_s > slowest_s ? took_s : slowest_s;
        }
        s->layers[b] = (struct merge_layer){slowest_s, comm_bytes(t->comm, b)};
        while (i < graph_n_params(g) && t->bucket_of[i] == (int)b) {
            i++;
        }
    }
}

static void set_merged(struct trainer *t)
{
    struct survey *s = t->survey;
    size_t n = 0, n_layers = 0;

    for (size_t i = 0; i < s->n_layers; i++) {
        n_layers++;
        if (s->ends[i]) {
            s->merged[n++] = (double)n_layers;
            n_layers = 0;
        }
    }
    t->comm_cfg.bucket_layers = (struct config_reals){s->merged, n};
}

static void tell_merged(struct trainer *t, double rule_s)
{
    const struct survey *s = t->survey;
    double backward_s = 0;

    for (size_t i = 0; i < s->n_layers; i++) {
        backward_s += s->layers[i].backward_s;
    }
    progress_clear(&t->progress);
    printf("merged            %zu layers into %zu buckets: start-up %.3g us, %.3g GB/s, backward "
           "%.3g ms, all sums predicted after %.3g ms (MG-WFBP's rule: %.3g ms)\n",
           s->n_layers, t->comm_cfg.bucket_layers.n, s->cost.start_s * 1e6,
           s->cost.s_per_byte > 0 ? 1e-9 / s->cost.s_per_byte : INFINITY, backward_s * 1e3,
           1e3 * merge_end_s(s->layers, s->n_layers, &s->cost, s->ends), 1e3 * rule_s);
    printf("to repeat         [comm] bucket_layers = ");
    for (size_t i = 0; i < t->comm_cfg.bucket_layers.n; i++) {
        printf("%s%.0f", i > 0 ? ", " : "", t->comm_cfg.bucket_layers.v[i]);
    }
    printf("\n");
}

static bool merge(struct trainer *t, bool last)
{
    struct survey *s = t->survey;
    double rule_s;

    if (s->n_steps < SURVEY_COLD_STEPS + SURVEY_LAYER_STEPS && !last) {
        return false;
    }
    collect_layers(t);
    s->cost = fit_cost(t, s->message_s);
    (void)merge_layers(s->layers, s->n_layers, &s->cost, s->ends);
    rule_s = merge_end_s(s->layers, s->n_layers, &s->cost, s->ends);
    (void)merge_best(s->layers, s->n_layers, &s->cost, s->work, s->ends);
    set_merged(t);
    tell_merged(t, rule_s);
    s->merging = false;
    return true;
}

/* --- tuning */

static struct survey_class *find_class(struct survey *s, size_t bytes)
{
    size_t i = 0;

    while (i < s->n_classes && s->classes[i].bytes != bytes) {
        i++;
    }
    return i < s->n_classes ? &s->classes[i] : NULL;
}

/* From a thousandth of the size up to all of it. */
static void add_class(struct survey *s, size_t bytes)
{
    const size_t least = 4096, first = bytes / 1024 < least ? least : bytes / 1024;
    const struct tune_options options = {
        .first_bytes = first, .most_bytes = bytes, .n_samples = 2, .tolerance = 0.03};
    size_t i = s->n_classes;

    if (i == CHUNK_RULES) {
        return;
    }
    for (; i > 0 && s->classes[i - 1].bytes > bytes; i--) {
        s->classes[i] = s->classes[i - 1];
    }
    s->classes[i].bytes = bytes;
    tune_init(&s->classes[i].tune, &options);
    s->n_classes++;
}

/* The chunks of the classes as a config's text. */
static void write_chunks(struct trainer *t)
{
    struct survey *s = t->survey;
    struct chunk_rules rules = {.n = s->n_classes};

    for (size_t i = 0; i < s->n_classes; i++) {
        rules.rules[i].up_to_bytes = s->classes[i].bytes;
        rules.rules[i].chunk_bytes = tune_chunk_bytes(&s->classes[i].tune);
    }
    chunk_rules_write(&rules, s->chunks);
    t->comm_cfg.chunks = s->chunks;
}

static void begin_tuning(struct trainer *t)
{
    for (size_t b = 0; b < t->n_buckets; b++) {
        const size_t bytes = chunk_class_bytes(comm_bytes(t->comm, b));
        if (find_class(t->survey, bytes) == NULL) {
            add_class(t->survey, bytes);
        }
    }
    write_chunks(t);
}

/* The rate at which the buckets of a class moved. */
static void report_class(const struct trainer *t, struct survey_class *k)
{
    double bytes = 0, took_s = 0;

    for (size_t b = 0; b < t->n_buckets; b++) {
        const size_t size = comm_bytes(t->comm, b);
        if (chunk_class_bytes(size) == k->bytes) {
            bytes += (double)size;
            took_s += t->survey->message_s[b];
        }
    }
    tune_report(&k->tune, bytes / took_s);
}

/* True if another chunk is to be tried, or used from now on. */
static bool tune(struct trainer *t, bool last)
{
    struct survey *s = t->survey;
    char before[CHUNK_RULES_BYTES];
    bool settled = true;

    memcpy(before, s->chunks, sizeof before);
    for (size_t i = 0; i < s->n_classes; i++) {
        report_class(t, &s->classes[i]);
        if (last) {
            tune_stop(&s->classes[i].tune);
        }
        settled = settled && tune_is_settled(&s->classes[i].tune);
    }
    write_chunks(t);
    if (settled) {
        s->on = false;
        progress_clear(&t->progress);
        printf("tuned             chunks of %zu sizes of buckets in %" PRIu64 " steps\n",
               s->n_classes, s->n_steps);
        printf("to repeat         [comm] chunks = %s\n", s->chunks);
    }
    return strcmp(before, s->chunks) != 0;
}

bool survey_conclude(struct trainer *t, bool last)
{
    struct survey *s = t->survey;

    if (s->merging) {
        if (!merge(t, last)) {
            return false;
        }
        s->on = s->tunes;
        return true;
    }
    if (s->n_classes == 0) { /* the buckets are those that stay */
        begin_tuning(t);
        return true;
    }
    return tune(t, last);
}
