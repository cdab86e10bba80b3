/*
 * Loaders under load: several ranks side by side, epochs abandoned at every point, threads
 * destroyed in mid-epoch. Run under the thread sanitizer; also checks that no sample is lost or
 * repeated.
 */
#include "data/data.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

enum {
    RANKS = 3,
    SAMPLES = 101,
    EPOCHS = 6,
    SEED = 5,
    CHANNELS = 3,
    SIDE = 40,
    PIXELS = CHANNELS * SIDE * SIDE,
    CLASSES = 97, /* a sample's class is its index mod 97 */
};

struct worker {
    struct loader *loader;
    size_t seen, expected;
    int rank;
    bool failed;
};

static const struct schedule schedule = {
    .n = SAMPLES, .batch = 4, .accum = 2, .n_ranks = RANKS, .drop_last = false};

static size_t samples_of(int rank)
{
    size_t n = 0;

    for (size_t step = 0; step < schedule_steps(&schedule); step++) {
        for (size_t micro = 0; micro < schedule.accum; micro++) {
            n += schedule_slice(&schedule, step, rank, micro).n;
        }
    }
    return n;
}

/* Begin an epoch and take `most` batches, checking every label and pixel; true at its end. */
static bool take(struct worker *w, uint64_t epoch, size_t first_step, size_t most)
{
    uint32_t order[SAMPLES];
    struct batch b;

    schedule_order(SAMPLES, true, SEED, epoch, order);
    loader_start(w->loader, epoch, first_step);
    w->seen = 0;
    for (size_t k = 0; k < most; k++) {
        struct slice s;
        if (!loader_next(w->loader, &b)) {
            return true;
        }
        s = schedule_slice(&schedule, first_step + k / schedule.accum, w->rank, k % schedule.accum);
        w->failed |= b.n != s.n;
        for (size_t i = 0; i < s.n; i++) {
            w->failed |= b.labels[i] != (int32_t)(order[s.first + i] % CLASSES);
        }
        for (size_t i = 0; i < s.n * PIXELS; i++) {
            w->failed |= !(b.x[i] > -3 && b.x[i] < 3);
        }
        w->seen += b.n;
    }
    return false;
}

static void *work(void *arg)
{
    struct worker *w = arg;

    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (size_t most = 0; most < 8; most++) { /* abandoned epochs */
            (void)take(w, epoch + 100 + most, most / 2, most % 4);
        }
        w->failed |= !take(w, epoch, 0, SIZE_MAX) || w->seen != w->expected;
    }
    (void)take(w, EPOCHS, 0, 1); /* to be destroyed in mid-epoch */
    return NULL;
}

static bool run(const struct config_data *cfg, const struct dataset *d)
{
    struct worker w[RANKS] = {0};
    pthread_t threads[RANKS];
    bool good = true;

    for (int r = 0; r < RANKS; r++) {
        struct loader_args args = {.dataset = d,
                                   .cfg = cfg,
                                   .schedule = schedule,
                                   .rank = r,
                                   .seed = SEED,
                                   .training = true};
        w[r].rank = r;
        w[r].expected = samples_of(r);
        if (loader_create(&args, &w[r].loader) != ST_OK ||
            pthread_create(&threads[r], NULL, work, &w[r]) != 0) {
            exit(EXIT_FAILURE);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        loader_destroy(w[r].loader);
        if (w[r].failed) {
            (void)fprintf(stderr, "rank %d: took %zu samples, expected %zu\n", r, w[r].seen,
                          w[r].expected);
            good = false;
        }
    }
    return good;
}

int main(void)
{
    char name[] = "synthetic", none[] = "";
    double shape[3] = {CHANNELS, SIDE, SIDE};
    struct config_data cfg = {.dataset = name,
                              .path = none,
                              .shape = {shape, 3},
                              .n_train = SAMPLES,
                              .classes = CLASSES,
                              .crop_pad = 2,
                              .flip = true,
                              .shuffle = true};
    struct dataset *d = NULL;
    bool good = dataset_open(&cfg, DATA_TRAIN, SEED, &d) == ST_OK;

    for (int64_t prefetch = 1; prefetch <= 4 && good; prefetch++) {
        cfg.prefetch = prefetch;
        good = run(&cfg, d);
    }
    dataset_close(d);
    return good && mem_live() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
