/*
 * A plain program for the thread sanitizer: tiny trainings in every way that ranks share memory,
 * and on devices, where they share what they say of a step. It must end with 0 and without a
 * report.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "sealed.h"
#include "train/trainer.h"

static const char *const common[] = {
    "data.dataset=synthetic", "data.shape=1,6,6",
    "data.classes=4",         "data.n_train=98",
    "data.n_test=30",         "model.name=mlp",
    "model.hidden=16",        "optim.lr=0.05",
    "train.epochs=2",         "log.progress=off",
    "device.count=3",         "train.batch_per_device=8",
    "comm.bucket_bytes=1K",   "device.threads_per_device=1",
    "log.log_every=3",
};

static const char *const ways[][4] = {
    {"comm.backend=onehop", "comm.overlap=yes", "optim.fuse=on"},
    {"comm.backend=ring", "comm.overlap=yes", "optim.fuse=off"},
    {"comm.backend=central", "comm.overlap=no", "optim.fuse=on", "train.accum_steps=2"},
    {"comm.backend=onehop", "debug.inject=nan:1@3", "train.on_nan=skip", "debug.verify_every=1"},
    {"comm.backend=lp", "comm.order=priority", "debug.verify_every=2", "train.accum_steps=2"},
    {"comm.backend=mst", "comm.sync=reduce-broadcast", "comm.order=priority"},
    {"comm.backend=central", "comm.sync=reduce-broadcast", "debug.verify_every=3"},
    {"comm.backend=lp", "comm.buckets=merge", "comm.chunks=tune", "train.epochs=8"},
    {"comm.backend=ring", "debug.inject=fail:2@3", "optim.fuse=off"},
    {"comm.backend=onehop", "debug.inject=fail:0@4", "optim.fuse=on"},
};

static const char *const on_devices[][4] = {
    {"comm.backend=onehop", "train.eval_every=1"},
    {"comm.backend=ring", "comm.order=priority", "device.graph=off"},
    {"comm.backend=lp", "train.accum_steps=2", "train.on_nan=ignore"},
    {"comm.backend=mst", "comm.sync=reduce-broadcast"},
    {"comm.backend=onehop", "train.on_nan=skip", "debug.verify_every=1"},
    {"comm.backend=ring", "debug.inject=fail:2@3"},
};

static enum status train(const char *const *way, bool on_device, const char *output)
{
    struct config cfg = {.file = NULL};
    struct trainer *t = NULL;
    struct trainer_summary s;
    enum status st = config_init(&cfg);

    for (size_t i = 0; st == ST_OK && i < sizeof common / sizeof common[0]; i++) {
        st = config_set(&cfg, common[i]);
    }
    for (size_t i = 0; st == ST_OK && i < 4 && way[i] != NULL; i++) {
        st = config_set(&cfg, way[i]);
    }
    if (st == ST_OK) {
        st = config_set(&cfg, output);
    }
    if (st == ST_OK) {
        st = config_finish(&cfg);
    }
    if (st == ST_OK) {
        st = on_device ? trainer_create_on(&cfg, false, sealed_device(), sealed_ops(), &t)
                       : trainer_create(&cfg, false, &t);
    }
    if (st == ST_OK) {
        st = trainer_run(t, &s);
    }
    trainer_destroy(t);
    config_fini(&cfg);
    return st;
}

int main(void)
{
    const size_t n_ways = sizeof ways / sizeof ways[0];
    char folder[64], output[96], command[96];
    int bad = 0;

    (void)snprintf(folder, sizeof folder, "%s/espalier-race-%d", P_tmpdir, (int)getpid());
    if (mkdir(folder, 0777) != 0 || setenv("XDG_CACHE_HOME", folder, 1) != 0) {
        return 1;
    }
    for (size_t i = 0; i < n_ways + sizeof on_devices / sizeof on_devices[0]; i++) {
        const bool fails = i == 8 || i == 9 || i == n_ways + 5;
        const enum status want = fails ? ST_INTERNAL : ST_OK;
        enum status st;
        (void)snprintf(output, sizeof output, "train.output=%s/run%zu", folder, i);
        st = i < n_ways ? train(ways[i], false, output)
                        : train(on_devices[i - n_ways], true, output);
        if (st != want) {
            fprintf(stderr, "way %zu: %s\n", i, status_text(st));
            bad = 1;
        }
    }
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || bad;
}
