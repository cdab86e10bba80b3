/* What rank 0 prints and writes while the training runs. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "train/state.h"

static enum status flush_stdout(void)
{
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        return log_fail(ST_IO, "cannot write to standard output: %s, give it a place with room",
                        errno == 0 ? "an earlier write failed" : strerror(errno));
    }
    return ST_OK;
}

static void count(struct rank *r, uint64_t step, const struct step_record *all)
{
    struct trainer *t = r->t;
    struct tally one = {0};
    bool skipped = false;

    tally_add(&one, all, t->n_ranks);
    tally_add(&r->interval, all, t->n_ranks);
    tally_add(&r->epoch, all, t->n_ranks);
    t->totals.steps++;
    t->totals.images += one.images;
    t->totals.seconds += one.times.step_s;
    for (int k = 0; k < t->n_ranks; k++) {
        skipped |= all[k].overflow || (all[k].nonfinite != NULL && t->on_nan == ON_NAN_SKIP);
    }
    t->totals.skipped += skipped;
    if (step >= t->warmup_steps) {
        tally_add(&t->totals.timed, all, t->n_ranks);
        for (int k = 0; k < t->n_ranks; k++) {
            t->totals.rank_images[k] += all[k].n;
        }
    }
}

static void show_progress(struct rank *r, uint64_t done)
{
    struct trainer *t = r->t;
    const uint64_t epoch = (done - 1) / t->steps_per_epoch;
    const struct tally *e = &r->epoch;
    struct progress_at at = {
        .step = done,
        .total_steps = t->total_steps,
        .epoch = epoch + 1,
        .epochs = (t->total_steps + t->steps_per_epoch - 1) / t->steps_per_epoch,
        .epoch_step = done - epoch * t->steps_per_epoch,
        .epoch_steps = t->steps_per_epoch,
        .loss = tally_mean(e->loss_sum, e->images),
        .top1 = tally_mean((double)e->top1, e->images),
        .images_per_s = tally_images_per_s(e),
    };

    progress_show(&t->progress, &at);
}

static double lr_of(const struct trainer *t, uint64_t step)
{
    return lr_at(&t->cfg->optim, step, t->steps_per_epoch, t->total_steps, t->n_ranks);
}

static enum status write_interval(struct rank *r, uint64_t step)
{
    struct trainer *t = r->t;
    const double epoch = (double)(step + 1) / (double)t->steps_per_epoch;

    metrics_step_row(rundir_steps(t->rundir), step + 1, epoch, lr_of(t, step), &r->interval);
    if (!t->progress.on && t->cfg->log.log_every > 0) {
        metrics_step_line(stdout, step + 1, epoch, lr_of(t, step), &r->interval, t->n_ranks);
    }
    r->interval = (struct tally){0};
    TRY(flush_stdout());
    return rundir_flush(t->rundir);
}

enum status report_step(struct rank *r, uint64_t step, const struct step_record *all)
{
    struct trainer *t = r->t;
    const uint64_t done = step + 1;
    const uint64_t every =
        t->cfg->log.log_every > 0 ? (uint64_t)t->cfg->log.log_every : t->steps_per_epoch;

    for (int k = 0; k < t->n_ranks; k++) {
        if (all[k].final_status != ST_OK) {
            return ST_OK; /* the step did not take place */
        }
    }
    count(r, step, all);
    show_progress(r, done);
    if (done % every != 0 && done != t->total_steps && r->status == ST_OK) {
        return ST_OK;
    }
    return write_interval(r, step);
}

enum status report_epoch(struct rank *r, uint64_t epoch, uint64_t step, bool evaluated)
{
    struct trainer *t = r->t;
    struct trainer_summary *s = &t->summary;
    struct epoch_row row = {
        .epoch = epoch + 1,
        .step = step,
        .lr = lr_of(t, step - 1),
        .test_loss = evaluated ? s->test_loss : NAN,
        .test_top1 = evaluated ? s->top1 : NAN,
        .test_top5 = evaluated ? s->top5 : NAN,
        .test_n = evaluated ? s->test_n : 0,
        .test_top1_n = evaluated ? s->test_top1_n : 0,
        .train = &r->epoch,
    };

    s->train_loss = tally_mean(r->epoch.loss_sum, r->epoch.images);
    progress_clear(&t->progress);
    metrics_epoch_row(rundir_epochs(t->rundir), &row);
    metrics_epoch_line(stdout, &row);
    r->epoch = (struct tally){0};
    TRY(flush_stdout());
    return rundir_flush(t->rundir);
}

struct bucket_times report_bucket_times(const struct trainer *t, size_t b)
{
    struct bucket_times sum = {0, 0, 0};

    for (int r = 0; r < t->n_ranks; r++) {
        const struct bucket_times *k = &t->ranks[r].buckets[b];
        sum.in_flight_s += k->in_flight_s / t->n_ranks;
        sum.hidden_s += k->hidden_s / t->n_ranks;
        sum.exposed_s += k->exposed_s / t->n_ranks;
    }
    return sum;
}

static void bucket_row(FILE *out, const struct trainer *t, size_t b)
{
    const struct bucket_times k = report_bucket_times(t, b);
    char flight[32], hidden[32], exposed[32];

    fprintf(out, "%zu,\"", b);
    for (const char *c = t->labels[b]; *c != '\0'; c++) { /* a quote is doubled */
        fputs(*c == '"' ? "\"\"" : (const char[]){*c, '\0'}, out);
    }
    fprintf(out, "\",%zu,%s,%" PRIu64 ",%s,%s,%s\n", t->buckets[b].n * sizeof(float),
            comm_plan(t->comm, b)->backend, t->totals.timed.steps,
            metrics_real(k.in_flight_s, 9, flight), metrics_real(k.hidden_s, 9, hidden),
            metrics_real(k.exposed_s, 9, exposed));
}

enum status report_buckets(const struct trainer *t)
{
    char *path = rundir_file(t->rundir, "buckets.csv");
    FILE *out = path == NULL ? NULL : fopen(path, "w");
    enum status st = ST_OK;

    if (path == NULL) {
        return log_fail(ST_NOMEM, "no memory for the table of buckets, free some");
    }
    if (out != NULL) {
        fputs("bucket,layers,bytes,backend,steps,in_flight_s,hidden_s,exposed_s\n", out);
        for (size_t b = 0; b < t->n_buckets; b++) {
            bucket_row(out, t, b);
        }
    }
    if (out == NULL || fclose(out) != 0) {
        st = log_fail(ST_IO,
                      "cannot write the table of buckets, %s: %s, leave the folder in place and "
                      "make room",
                      path, strerror(errno));
    }
    mem_free(path);
    return st;
}

enum status report_end(struct trainer *t, enum status result)
{
    struct trainer_summary *s = &t->summary;
    char rate[32], each[32];

    s->graphs = graph_n_captured(t->ranks[0].graph);
    progress_clear(&t->progress);
    printf("%s after %" PRIu64 " of %" PRIu64 " steps: %" PRIu64 " images in %.1f s, %s images/s, "
           "%s per device\n",
           result == ST_OK ? "finished" : "stopped", s->steps, t->total_steps, s->samples,
           t->totals.seconds, metrics_real(s->images_per_s, 5, rate),
           metrics_real(s->images_per_s / t->n_ranks, 5, each));
    if (t->totals.skipped > 0) {
        printf("skipped %" PRIu64 " steps whose loss or gradients were not finite\n",
               t->totals.skipped);
    }
    if (s->graphs > 0) {
        printf("passes ran as %zu graphs on each device\n", s->graphs);
    }
    if (s->test_n > 0) {
        printf("test accuracy %.2f %% (%zu of %zu images)\n", 100 * s->top1, s->test_top1_n,
               s->test_n);
    }
    printf("results in %s\n", rundir_path(t->rundir));
    return flush_stdout();
}
