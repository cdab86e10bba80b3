#include "train/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void tally_add(struct tally *to, const struct step_record *ranks, int n_ranks)
{
    const double share = 1.0 / n_ranks;

    to->steps++;
    for (int r = 0; r < n_ranks; r++) {
        const struct step_record *k = &ranks[r];
        to->images += k->n;
        to->top1 += k->top1;
        to->top5 += k->top5;
        to->loss_sum += k->loss_sum;
        to->times.step_s += share * k->times.step_s;
        to->times.compute_s += share * k->times.compute_s;
        to->times.hidden_s += share * k->times.hidden_s;
        to->times.exposed_s += share * k->times.exposed_s;
        to->times.data_s += share * k->times.data_s;
    }
}

double tally_mean(double sum, uint64_t n)
{
    return n == 0 ? NAN : sum / (double)n;
}

double tally_images_per_s(const struct tally *t)
{
    return t->times.step_s > 0 ? (double)t->images / t->times.step_s : NAN;
}

const char *metrics_real(double v, int digits, char out[32])
{
    if (isnan(v)) {
        return "nan";
    }
    if (isinf(v)) {
        return v > 0 ? "inf" : "-inf";
    }
    (void)snprintf(out, 32, "%.*g", digits, v);
    return out;
}

static void put(FILE *out, const char *before, double v, int digits)
{
    char text[32];

    (void)fprintf(out, "%s%s", before, metrics_real(v, digits, text));
}

void metrics_step_header(FILE *out)
{
    (void)fputs("step,epoch,lr,loss,top1,top5,steps,images,seconds,images_per_s,compute_s,"
                "comm_hidden_s,comm_exposed_s,data_s\n",
                out);
}

void metrics_step_row(FILE *out, uint64_t step, double epoch, double lr, const struct tally *t)
{
    (void)fprintf(out, "%" PRIu64, step);
    put(out, ",", epoch, 9);
    put(out, ",", lr, 9);
    put(out, ",", tally_mean(t->loss_sum, t->images), 9);
    put(out, ",", tally_mean((double)t->top1, t->images), 9);
    put(out, ",", tally_mean((double)t->top5, t->images), 9);
    (void)fprintf(out, ",%" PRIu64 ",%" PRIu64, t->steps, t->images);
    put(out, ",", t->times.step_s, 9);
    put(out, ",", tally_images_per_s(t), 9);
    put(out, ",", t->times.compute_s, 9);
    put(out, ",", t->times.hidden_s, 9);
    put(out, ",", t->times.exposed_s, 9);
    put(out, ",", t->times.data_s, 9);
    (void)fputc('\n', out);
}

void metrics_step_line(FILE *out, uint64_t step, double epoch, double lr, const struct tally *t,
                       int n_ranks)
{
    const double ms = t->steps == 0 ? 0 : 1e3 / (double)t->steps;

    (void)fprintf(out, "step=%" PRIu64, step);
    put(out, " epoch=", epoch, 4);
    put(out, " lr=", lr, 4);
    put(out, " loss=", tally_mean(t->loss_sum, t->images), 5);
    put(out, " top1=", tally_mean((double)t->top1, t->images), 4);
    put(out, " top5=", tally_mean((double)t->top5, t->images), 4);
    put(out, " images_per_s=", tally_images_per_s(t), 5);
    put(out, " per_device=", tally_images_per_s(t) / n_ranks, 5);
    put(out, " step_ms=", ms * t->times.step_s, 4);
    put(out, " compute_ms=", ms * t->times.compute_s, 4);
    put(out, " comm_hidden_ms=", ms * t->times.hidden_s, 4);
    put(out, " comm_exposed_ms=", ms * t->times.exposed_s, 4);
    put(out, " data_ms=", ms * t->times.data_s, 4);
    (void)fputc('\n', out);
}

void metrics_epoch_header(FILE *out)
{
    (void)fputs("epoch,step,lr,train_loss,train_top1,train_top5,test_loss,test_top1,test_top5,"
                "test_images,test_correct,images,seconds,images_per_s\n",
                out);
}

void metrics_epoch_row(FILE *out, const struct epoch_row *e)
{
    const struct tally *t = e->train;

    (void)fprintf(out, "%" PRIu64 ",%" PRIu64, e->epoch, e->step);
    put(out, ",", e->lr, 9);
    put(out, ",", tally_mean(t->loss_sum, t->images), 9);
    put(out, ",", tally_mean((double)t->top1, t->images), 9);
    put(out, ",", tally_mean((double)t->top5, t->images), 9);
    put(out, ",", e->test_loss, 9);
    put(out, ",", e->test_top1, 9);
    put(out, ",", e->test_top5, 9);
    (void)fprintf(out, ",%zu,%zu,%" PRIu64, e->test_n, e->test_top1_n, t->images);
    put(out, ",", t->times.step_s, 9);
    put(out, ",", tally_images_per_s(t), 9);
    (void)fputc('\n', out);
}

void metrics_epoch_line(FILE *out, const struct epoch_row *e)
{
    const struct tally *t = e->train;

    (void)fprintf(out, "epoch=%" PRIu64 " step=%" PRIu64, e->epoch, e->step);
    put(out, " train_loss=", tally_mean(t->loss_sum, t->images), 5);
    put(out, " train_top1=", tally_mean((double)t->top1, t->images), 4);
    if (e->test_n > 0) {
        put(out, " test_loss=", e->test_loss, 5);
        put(out, " test_top1=", e->test_top1, 5);
        put(out, " test_top5=", e->test_top5, 5);
        (void)fprintf(out, " test_correct=%zu test_images=%zu", e->test_top1_n, e->test_n);
    }
    put(out, " images_per_s=", tally_images_per_s(t), 5);
    put(out, " seconds=", t->times.step_s, 4);
    (void)fputc('\n', out);
}
