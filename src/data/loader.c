/*
 * The thread of a loader fills a ring of slots; the caller takes them in the same order.
 *
 *     released ─── taken ─── produced ─── released + n_slots
 *      the caller holds at most one      the thread may fill these
 *
 * The counts are micro-batches of the present epoch. A new epoch is a new generation: the thread
 * notices it between two samples and drops what it was filling.
 */
#include "data/data.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/augment.h"
#include "data/dataset.h"

enum {
    LINE_FLOATS = 16, /* slots start on cache lines */
};

/* What one generation of the thread works on. */
struct run {
    uint64_t generation, epoch;
    size_t first_step, total; /* micro-batches from first_step on */
};

struct loader {
    struct loader_args args;
    size_t n_slots, sample, slot_x, slot_labels; /* elements of one sample, of one slot */
    float *x;                                    /* [n_slots, slot_x] */
    int32_t *labels;                             /* [n_slots, slot_labels] */
    uint32_t *order;                             /* of the thread; NULL = identity */
    uint8_t *scratch;                            /* of the thread */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t ready; /* produced has grown */
    pthread_cond_t space; /* released has grown, or a new generation, or the end */
    struct run run;
    size_t produced, taken, released;
    bool quit;

    atomic_uint_fast64_t newest; /* generation, for a look without the lock */
    pthread_t thread;
    bool has_thread;
};

static void write_sample(struct loader *l, const struct run *run, size_t id, float *x)
{
    const struct loader_args *a = &l->args;
    struct placement p = a->training ? augment_draw(a->dataset, a->cfg, a->seed, run->epoch, id)
                                     : augment_centre(a->dataset);

    augment_write(a->dataset, dataset_pixels(a->dataset, id, l->scratch), p, x);
}

static struct slice slice_of(const struct loader *l, const struct run *run, size_t k)
{
    const struct schedule *s = &l->args.schedule;

    return schedule_slice(s, run->first_step + k / s->accum, l->args.rank, k % s->accum);
}

/* Fill the slot of micro-batch k; false when a newer generation has begun. */
static bool fill(struct loader *l, const struct run *run, size_t k)
{
    struct slice slice = slice_of(l, run, k);
    float *x = l->x + k % l->n_slots * l->slot_x;
    int32_t *labels = l->labels + k % l->n_slots * l->slot_labels;

    for (size_t i = 0; i < slice.n; i++) {
        size_t id = l->order != NULL ? l->order[slice.first + i] : slice.first + i;

        if (atomic_load_explicit(&l->newest, memory_order_relaxed) != run->generation) {
            return false;
        }
        write_sample(l, run, id, x + i * l->sample);
        labels[i] = dataset_label(l->args.dataset, id);
    }
    return true;
}

static void *loader_main(void *arg)
{
    struct loader *l = arg;
    struct run run = {0};
    size_t filled = 0;

    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        if (run.generation != l->run.generation) {
            run = l->run;
            filled = 0;
            pthread_mutex_unlock(&l->lock);
            if (l->order != NULL) {
                schedule_order(l->args.schedule.n, true, l->args.seed, run.epoch, l->order);
            }
            pthread_mutex_lock(&l->lock);
        } else if (filled == run.total || filled - l->released == l->n_slots) {
            pthread_cond_wait(&l->space, &l->lock);
        } else {
            bool whole;

            pthread_mutex_unlock(&l->lock);
            whole = fill(l, &run, filled);
            pthread_mutex_lock(&l->lock);
            if (whole && run.generation == l->run.generation) {
                l->produced = ++filled;
                pthread_cond_signal(&l->ready);
            }
        }
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static enum status make_buffers(struct loader *l)
{
    const struct loader_args *a = &l->args;
    size_t shape[3], most = schedule_slice(&a->schedule, 0, a->rank, 0).n; /* the largest */

    dataset_shape(a->dataset, shape);
    l->sample = shape[0] * shape[1] * shape[2];
    l->n_slots = (size_t)a->cfg->prefetch + 1; /* one is in the caller's hands */
    l->slot_labels = (most + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    l->slot_x = (most * l->sample + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    l->x = mem_alloc(l->n_slots, l->slot_x * sizeof *l->x);
    l->labels = mem_alloc(l->n_slots, l->slot_labels * sizeof *l->labels);
    l->scratch = mem_alloc(dataset_scratch_bytes(a->dataset), 1);
    if (a->training && a->cfg->shuffle) {
        l->order = mem_alloc(a->schedule.n, sizeof *l->order);
    }
    if (l->x == NULL || l->labels == NULL || l->scratch == NULL ||
        (a->training && a->cfg->shuffle && l->order == NULL)) {
        return log_fail(ST_NOMEM,
                        "out of memory for the batches of rank %d, %zu times %zu samples of "
                        "%zux%zux%zu, lower data.prefetch or the batch size",
                        a->rank, l->n_slots, most, shape[0], shape[1], shape[2]);
    }
    return ST_OK;
}

/* Signals are for the threads that handle them: the loader's blocks all. */
static enum status start_thread(struct loader *l)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&l->thread, NULL, loader_main, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        return log_fail(ST_INTERNAL, "cannot start the data thread of rank %d, %s, raise ulimit -u",
                        l->args.rank, strerror(error));
    }
    l->has_thread = true;
    return ST_OK;
}

enum status loader_create(const struct loader_args *args, struct loader **out)
{
    struct loader *l = mem_alloc(1, sizeof *l);
    enum status st;

    assert(args->cfg->prefetch >= 0 && args->schedule.n <= dataset_n(args->dataset));
    if (l == NULL) {
        return log_fail(ST_NOMEM, "out of memory for the loader of rank %d", args->rank);
    }
    l->args = *args;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->ready, NULL);
    pthread_cond_init(&l->space, NULL);
    atomic_init(&l->newest, 0);
    if ((st = make_buffers(l)) != ST_OK || (st = start_thread(l)) != ST_OK) {
        loader_destroy(l);
        return st;
    }
    *out = l;
    return ST_OK;
}

/* Tell the thread that what it fills is no longer wanted. Called with the lock. */
static void supersede(struct loader *l)
{
    l->run.generation++;
    atomic_store_explicit(&l->newest, l->run.generation, memory_order_relaxed);
    pthread_cond_signal(&l->space);
}

void loader_destroy(struct loader *l)
{
    if (l == NULL) {
        return;
    }
    if (l->has_thread) {
        pthread_mutex_lock(&l->lock);
        l->quit = true;
        supersede(l);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->space);
    pthread_cond_destroy(&l->ready);
    pthread_mutex_destroy(&l->lock);
    mem_free(l->order);
    mem_free(l->scratch);
    mem_free(l->labels);
    mem_free(l->x);
    mem_free(l);
}

void loader_start(struct loader *l, uint64_t epoch, size_t first_step)
{
    size_t steps = schedule_steps(&l->args.schedule);

    pthread_mutex_lock(&l->lock);
    l->run.epoch = epoch;
    l->run.first_step = first_step;
    l->run.total = first_step < steps ? (steps - first_step) * l->args.schedule.accum : 0;
    l->produced = l->taken = l->released = 0;
    supersede(l);
    pthread_mutex_unlock(&l->lock);
}

bool loader_next(struct loader *l, struct batch *out)
{
    struct slice slice;
    size_t k;

    pthread_mutex_lock(&l->lock);
    if (l->released < l->taken) { /* the caller is done with the batch before */
        l->released = l->taken;
        pthread_cond_signal(&l->space);
    }
    if (l->taken == l->run.total) {
        pthread_mutex_unlock(&l->lock);
        return false;
    }
    while (l->produced == l->taken) {
        pthread_cond_wait(&l->ready, &l->lock);
    }
    k = l->taken++;
    slice = slice_of(l, &l->run, k);
    out->step = l->run.first_step + k / l->args.schedule.accum;
    out->micro = k % l->args.schedule.accum;
    pthread_mutex_unlock(&l->lock);
    out->x = l->x + k % l->n_slots * l->slot_x;
    out->labels = l->labels + k % l->n_slots * l->slot_labels;
    out->n = slice.n;
    out->n_global = slice.n_global;
    return true;
}
