#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "train/verify.h"

/* Where the time of a step went on one rank; the parts are at most step_s together, hidden_s aside,
 * which lies under compute_s. */
struct step_times {
    double step_s;
    double compute_s; /* forward, backward, update */
    double hidden_s;  /* communication under computing; if it reaches into the next step, all of it
                         counts there */
    double exposed_s; /* waiting for sums and for other ranks */
    double data_s;    /* waiting for batches */
};

/* What a rank tells the others about a step. */
struct step_record {
    _Alignas(64) enum status status;
    double loss_sum;
    size_t n, top1, top5;
    bool cancelled;
    bool counted;          /* the losses of all its samples are in it */
    const char *nonfinite; /* the layer where the first non-finite value stands, else NULL */
    struct step_times times;
    enum status final_status; /* at the end of the step */
    bool overflow;            /* the sums were not finite and the step is skipped */
    uint64_t digest;          /* of the weights, where they are compared */
    bool sums_in;             /* all of this rank's sums, where they are compared */
    struct verify_finding finding;
};

/* Steps added up. */
struct tally {
    uint64_t steps, images, top1, top5;
    double loss_sum;
    struct step_times times; /* means over the ranks, summed over the steps */
};

/* The whole run. `timed` leaves out the warm-up. */
struct totals {
    uint64_t steps, images, skipped;
    double seconds; /* of all steps, without evaluations */
    struct tally timed;
    uint64_t *rank_images; /* [n_ranks] within `timed` */
};

void tally_add(struct tally *to, const struct step_record *ranks, int n_ranks);

/* Per sample, or nan for an empty tally. */
double tally_mean(double sum, uint64_t n);
double tally_images_per_s(const struct tally *t);

/* A real number as text: "nan", "inf" and "-inf" on every system, never "-nan". */
const char *metrics_real(double v, int digits, char out[32]);

/* Headers and rows of the CSV files, ending in a newline. */
void metrics_step_header(FILE *out);
void metrics_step_row(FILE *out, uint64_t step, double epoch, double lr, const struct tally *t);

/* The same for a log file or pipe, as key=value. */
void metrics_step_line(FILE *out, uint64_t step, double epoch, double lr, const struct tally *t,
                       int n_ranks);

struct epoch_row {
    uint64_t epoch, step;
    double lr, test_loss, test_top1, test_top5;
    size_t test_n, test_top1_n;
    const struct tally *train;
};
void metrics_epoch_header(FILE *out);
void metrics_epoch_row(FILE *out, const struct epoch_row *e);
void metrics_epoch_line(FILE *out, const struct epoch_row *e);

#endif
