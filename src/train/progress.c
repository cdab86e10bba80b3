#include "train/progress.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "train/metrics.h"

enum {
    WIDTH = 24
};

static const double PERIOD_S = 0.1;

void progress_init(struct progress *p, const char *mode, FILE *out)
{
    *p = (struct progress){.out = out};
    p->on = strcmp(mode, "on") == 0 || (strcmp(mode, "auto") == 0 && isatty(fileno(out)) == 1);
}

/* "1:05:09", "4:07" */
static const char *duration(double seconds, char out[32])
{
    uint64_t s = (uint64_t)(seconds + 0.5);

    if (s >= 3600) {
        (void)snprintf(out, 32, "%" PRIu64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60),
                       (int)(s % 60));
    } else {
        (void)snprintf(out, 32, "%d:%02d", (int)(s / 60), (int)(s % 60));
    }
    return out;
}

void progress_show(struct progress *p, const struct progress_at *at)
{
    const double now = clock_now_s();
    char bar[WIDTH + 1], loss[32], rate[32], left[32];
    uint64_t full = at->epoch_steps == 0 ? WIDTH : WIDTH * at->epoch_step / at->epoch_steps;

    if (!p->on) {
        return;
    }
    if (p->first_s == 0) { /* the first step counts neither in the rate nor in the time left */
        p->first_s = now;
        p->first_step = at->step;
    }
    if (p->drawn && now - p->last_s < PERIOD_S && at->epoch_step != at->epoch_steps) {
        return;
    }
    for (int i = 0; i < WIDTH; i++) {
        bar[i] = (uint64_t)i < full ? '=' : (uint64_t)i == full ? '>' : ' ';
    }
    bar[WIDTH] = '\0';
    (void)strcpy(left, "-:--");
    if (at->step > p->first_step) {
        (void)duration((now - p->first_s) / (double)(at->step - p->first_step) *
                           (double)(at->total_steps - at->step),
                       left);
    }
    (void)fprintf(p->out,
                  "\repoch %" PRIu64 "/%" PRIu64 " [%s] %" PRIu64 "/%" PRIu64
                  "  loss %s  top-1 %.1f %%  %s images/s  %s left\033[K",
                  at->epoch, at->epochs, bar, at->epoch_step, at->epoch_steps,
                  metrics_real(at->loss, 4, loss), 100 * at->top1,
                  metrics_real(at->images_per_s, 5, rate), left);
    (void)fflush(p->out);
    p->last_s = now;
    p->drawn = true;
}

void progress_clear(struct progress *p)
{
    if (p->drawn) {
        (void)fputs("\r\033[K", p->out);
        (void)fflush(p->out);
        p->drawn = false;
    }
}
