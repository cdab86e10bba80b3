#include "comm/tune.h"

#include <assert.h>
#include <math.h>

void tune_init(struct tune *t, const struct tune_options *options)
{
    assert(options->first_bytes > 0 && options->first_bytes <= options->most_bytes);
    assert(options->n_samples > 0);
    *t = (struct tune){
        .options = *options, .chunk = options->first_bytes, .best_chunk = options->first_bytes};
}

size_t tune_chunk_bytes(const struct tune *t)
{
    return t->chunk;
}

bool tune_is_settled(const struct tune *t)
{
    return t->settled;
}

static void settle(struct tune *t, size_t chunk)
{
    t->chunk = chunk;
    t->settled = true;
}

void tune_stop(struct tune *t)
{
    if (!t->settled) {
        settle(t, t->best_chunk);
    }
}

static void grow(struct tune *t)
{
    size_t most = t->options.most_bytes;

    if (t->chunk == most) {
        settle(t, most);
    } else {
        t->chunk = t->chunk > most / 2 ? most : 2 * t->chunk;
    }
}

/* One step down; at the floor the best size is known. */
static void shrink(struct tune *t)
{
    if (t->chunk <= t->floor + t->step) {
        settle(t, t->best_chunk);
    } else {
        t->chunk -= t->step;
    }
}

/* The throughput of the present size is known. */
static void decide(struct tune *t, double rate)
{
    bool rises = rate > t->best * (1 + t->options.tolerance);
    bool falls = rate < t->best * (1 - t->options.tolerance);
    bool past_peak = falls && t->step > 0 && t->best_chunk > t->floor;

    if (rises) {
        t->best = rate;
        t->best_chunk = t->chunk;
    }
    if (!rises && !falls) {
        settle(t, t->chunk);
    } else if (past_peak) {
        settle(t, t->best_chunk);
    } else if (rises && t->step == 0) {
        grow(t);
    } else {
        if (t->step == 0) {
            t->floor = t->best_chunk;
            t->step = (t->chunk - t->floor + 3) / 4;
        }
        shrink(t);
    }
}

void tune_report(struct tune *t, double bytes_per_s)
{
    if (t->settled || !isfinite(bytes_per_s) || !(bytes_per_s > 0)) {
        return;
    }
    t->sample = bytes_per_s > t->sample ? bytes_per_s : t->sample;
    if (++t->n_taken == t->options.n_samples) {
        double rate = t->sample;
        t->n_taken = 0;
        t->sample = 0;
        decide(t, rate);
    }
}
