#ifndef TESTS_TRAIN_FIXTURE_H
#define TESTS_TRAIN_FIXTURE_H

/* A tiny training for tests: its configuration, a folder for its results, and what it leaves. */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "config/config.h"
#include "train/trainer.h"

#define UNUSED __attribute__((unused))

struct outcome {
    enum status status;
    struct trainer_summary summary;
    float *weights; /* of rank 0 */
    size_t n;
};

/* A small net on few images: one run takes some milliseconds. */
static const char *const tiny[] = {"data.dataset=synthetic",
                                   "data.shape=1,6,6",
                                   "data.classes=4",
                                   "data.n_train=96",
                                   "data.n_test=30",
                                   "model.name=mlp",
                                   "model.hidden=16",
                                   "optim.lr=0.05",
                                   "optim.momentum=0.9",
                                   "train.epochs=2",
                                   "train.batch_per_device=8",
                                   "log.log_every=1",
                                   "comm.timeout_s=20",
                                   "log.progress=off",
                                   "comm.bucket_bytes=1K",
                                   "comm.first_bucket_bytes=256",
                                   "device.threads_per_device=1"};

static char scratch[64]; /* the folder of this test */

static UNUSED int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s;
    (void)kind;
    (void)at;
    return remove(path);
}

/* For TestSuite(.init = ...): a scratch folder, a cache of algorithms in it, and quiet output. */
static UNUSED void scratch_make(void)
{
    (void)snprintf(scratch, sizeof scratch, "%s/espalier-train-XXXXXX", P_tmpdir);
    cr_assert_not_null(mkdtemp(scratch), "%s", scratch);
    setenv("XDG_CACHE_HOME", scratch, 1);
    cr_assert_not_null(freopen("/dev/null", "w", stdout));
}

static UNUSED void scratch_remove(void)
{
    (void)nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static UNUSED void set(struct config *cfg, const char *assignment)
{
    cr_assert_eq(config_set(cfg, assignment), ST_OK, "%s", assignment);
}

/* The tiny configuration with the settings of `more` (NULL-terminated) on top. */
static int n_configs;

static UNUSED void make_config(struct config *cfg, const char *const *more)
{
    char output[128];

    memset(cfg, 0, sizeof *cfg);
    cr_assert_eq(config_init(cfg), ST_OK);
    for (size_t i = 0; i < sizeof tiny / sizeof tiny[0]; i++) {
        set(cfg, tiny[i]);
    }
    (void)snprintf(output, sizeof output, "train.output=%s/run%d", scratch, n_configs++);
    set(cfg, output);
    for (; more != NULL && *more != NULL; more++) {
        set(cfg, *more);
    }
    cr_assert_eq(config_finish(cfg), ST_OK);
}

/* Train; the weights are those of rank 0, checked to be the same bits on all ranks. */
static UNUSED struct outcome run(const char *const *more)
{
    struct outcome o = {.status = ST_OK};
    struct config cfg;
    struct trainer *t = NULL;
    size_t live = mem_live();

    make_config(&cfg, more);
    o.status = trainer_create(&cfg, false, &t);
    if (o.status == ST_OK) {
        o.n = trainer_n_weights(t);
        o.weights = calloc(o.n, sizeof *o.weights);
        o.status = trainer_run(t, &o.summary);
        cr_assert_eq(trainer_weights(t, 0, o.weights, o.n), ST_OK);
        for (int r = 1; r < cfg.device.count; r++) {
            float *w = calloc(o.n, sizeof *w);
            cr_assert_eq(trainer_weights(t, r, w, o.n), ST_OK);
            cr_assert_eq(memcmp(w, o.weights, o.n * sizeof *w), 0, "rank %d differs", r);
            free(w);
        }
    }
    trainer_destroy(t);
    config_fini(&cfg);
    cr_assert_eq(mem_live(), live, "a run leaks");
    return o;
}

/* As run(), which must succeed. */
static UNUSED struct outcome run_ok(const char *const *more)
{
    struct outcome o = run(more);

    cr_assert_eq(o.status, ST_OK, "%s: %s", more == NULL || more[0] == NULL ? "" : more[0],
                 status_text(o.status));
    return o;
}

/* |a - b| / |b|, each the Euclidean norm. */
static UNUSED double distance(const float *a, const float *b, size_t n)
{
    double difference = 0, size = 0;

    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(difference / size);
}

/* The largest |a - b|, as a part of the largest |b|. */
static UNUSED double largest_difference(const float *a, const float *b, size_t n)
{
    double difference = 0, size = 0;

    for (size_t i = 0; i < n; i++) {
        difference = fmax(difference, fabs((double)a[i] - b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return difference / size;
}

/* A whole text file of the scratch folder; free it. */
static UNUSED char *slurp(const char *name)
{
    char path[256], *text = calloc(1, 1 << 20);
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s", scratch, name);
    f = fopen(path, "r");
    cr_assert_not_null(f, "%s", path);
    (void)fread(text, 1, (1 << 20) - 1, f);
    (void)fclose(f);
    return text;
}

/* Send stderr to a file of the scratch folder, and back. */
static UNUSED int capture_stderr(const char *name)
{
    char path[256];
    int old = dup(STDERR_FILENO), f;

    (void)snprintf(path, sizeof path, "%s/%s", scratch, name);
    f = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0666);
    cr_assert(old >= 0 && f >= 0);
    (void)dup2(f, STDERR_FILENO);
    (void)close(f);
    return old;
}

static UNUSED void release_stderr(int old)
{
    (void)dup2(old, STDERR_FILENO);
    (void)close(old);
}

static UNUSED size_t count_lines(const char *text, const char *word)
{
    size_t n = 0;

    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        n++;
    }
    return n;
}

#endif
