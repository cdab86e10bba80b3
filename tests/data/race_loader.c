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

/* Take `most` batches, touching every label and the first pixel; true at the epoch's end. */
static bool take(struct worker *w, size_t most)
{
    struct batch b;

    for (size_t k = 0; k < most; k++) {
        if (!loader_next(w->loader, &b)) {
            return true;
        }
        for (size_t i = 0; i < b.n; i++) {
            w->failed |= b.labels[i] < 0 || b.labels[i] >= 10;
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
        for (size_t most = 0; most < 4; most++) { /* abandoned epochs */
            loader_start(w->loader, epoch + 100, most);
            (void)take(w, most);
        }
        loader_start(w->loader, epoch, 0);
        w->seen = 0;
        w->failed |= !take(w, SIZE_MAX) || w->seen != w->expected;
    }
    loader_start(w->loader, EPOCHS, 0); /* to be destroyed in mid-epoch */
    (void)take(w, 1);
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
    double shape[3] = {3, 9, 7};
    struct config_data cfg = {.dataset = name,
                              .path = none,
                              .shape = {shape, 3},
                              .n_train = SAMPLES,
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
