/* Batch arithmetic: how many steps there are and which batch sizes occur in them. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "train/state.h"

/* The images per second of the first steps say little: caches and page tables are cold. */
enum {
    WARMUP_STEPS = 10
};

static int descending(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x < y) - (x > y);
}

/* All sizes of all ranks in the first and last step; the steps between are like the first. */
static size_t sizes_of(const struct schedule *s, size_t *out)
{
    const size_t steps = schedule_steps(s);
    size_t n = 0;

    for (int end = 0; end < 2 && steps > 0; end++) {
        for (int r = 0; r < s->n_ranks; r++) {
            for (size_t m = 0; m < s->accum; m++) {
                out[n++] = schedule_slice(s, end == 0 ? 0 : steps - 1, r, m).n;
            }
        }
    }
    return n;
}

static enum status collect_batches(struct trainer *t)
{
    const size_t ranks = (size_t)t->n_ranks;
    size_t *all = mem_alloc(2 * ranks * (t->schedule.accum + t->test_schedule.accum), sizeof *all);
    size_t n, kept = 0;

    if (all == NULL) {
        return ST_NOMEM;
    }
    n = sizes_of(&t->schedule, all);
    n += sizes_of(&t->test_schedule, all + n);
    qsort(all, n, sizeof *all, descending);
    for (size_t i = 0; i < n; i++) {
        if (all[i] != 0 && (kept == 0 || all[i] != all[kept - 1])) {
            all[kept++] = all[i];
        }
    }
    t->batches = all;
    t->n_batches = kept;
    return ST_OK;
}

enum status work_begin(struct trainer *t)
{
    const struct config *cfg = t->cfg;
    const struct schedule *s = &t->schedule;
    size_t global;

    t->schedule = (struct schedule){.n = dataset_n(t->train),
                                    .batch = (size_t)cfg->train.batch_per_device,
                                    .accum = (size_t)cfg->train.accum_steps,
                                    .n_ranks = t->n_ranks,
                                    .drop_last = cfg->data.drop_last};
    global = s->batch * s->accum * (size_t)s->n_ranks;
    if (global > s->n) {
        return log_fail(ST_INPUT,
                        "a step needs more images than there are: %zu training images, "
                        "batch_per_device %zu * accum_steps %zu * %d devices = %zu, use a smaller "
                        "batch or fewer devices",
                        s->n, s->batch, s->accum, s->n_ranks, global);
    }
    return ST_OK;
}

enum status work_plan(struct trainer *t)
{
    const struct config *cfg = t->cfg;

    t->test_schedule = (struct schedule){
        .n = dataset_n(t->test), .batch = t->schedule.batch, .accum = 1, .n_ranks = t->n_ranks};
    t->steps_per_epoch = schedule_steps(&t->schedule);
    t->total_steps = cfg->train.max_steps > 0 ? (uint64_t)cfg->train.max_steps
                                              : (uint64_t)cfg->train.epochs * t->steps_per_epoch;
    t->warmup_steps = t->total_steps / 5 < WARMUP_STEPS ? t->total_steps / 5 : WARMUP_STEPS;
    return collect_batches(t);
}
