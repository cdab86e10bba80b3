#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "config/config_table.h"

enum {
    DEFAULT_BATCH = 64,
    PLACE_BYTES = 512
};

/* Where a key got its value: " (x.ini:12)". */
static const char *place(const struct config *cfg, const char *section, const char *name,
                         char out[PLACE_BYTES])
{
    int line = cfg->lines[config_table_find(section, name)];

    if (line > 0) {
        (void)snprintf(out, PLACE_BYTES, "(%.480s:%d)", cfg->file, line);
    } else {
        (void)snprintf(out, PLACE_BYTES, "(%s)", line < 0 ? "command line" : "default");
    }
    return out;
}

/* Both keys, their values' contradiction, both places, and what to do. */
struct conflict {
    const char *section, *a, *b;
    const char *what, *remedy;
};

static enum status refuse(const struct config *cfg, const struct conflict *c)
{
    char at_a[PLACE_BYTES], at_b[PLACE_BYTES];

    return log_fail(ST_INPUT, "%s, %s.%s %s and %s.%s %s, %s", c->what, c->section, c->a,
                    place(cfg, c->section, c->a, at_a), c->section, c->b,
                    place(cfg, c->section, c->b, at_b), c->remedy);
}

/* --- [data] */

static enum status check_lists(const struct config *cfg)
{
    const struct config_data *d = &cfg->data;
    char what[PLACE_BYTES];

    if (d->mean.n != d->std.n) {
        (void)snprintf(what, sizeof what, "mean has %zu values and std has %zu", d->mean.n,
                       d->std.n);
        return refuse(cfg, &(struct conflict){"data", "mean", "std", what,
                                              "give one of each per channel, or neither"});
    }
    if (d->shape.n != 0 && d->shape.n != 3) {
        char at[PLACE_BYTES];
        return log_fail(ST_INPUT, "data.shape has %zu values, %s, give channels, height, width",
                        d->shape.n, place(cfg, "data", "shape", at));
    }
    return ST_OK;
}

/* A file or shape that would be read over is a mistake: another dataset was meant. */
static enum status refuse_unread(const struct config *cfg, const char *name, const char *dataset)
{
    char at[PLACE_BYTES];

    return log_fail(ST_INPUT,
                    "data.%s has no effect with data.dataset = %s, %s, set dataset = %s or leave "
                    "it out",
                    name, cfg->data.dataset, place(cfg, "data", name, at), dataset);
}

static enum status check_files(const struct config *cfg)
{
    static const char *const names[] = {"train_images", "train_labels", "test_images",
                                        "test_labels"};
    const char *const values[] = {cfg->data.train_images, cfg->data.train_labels,
                                  cfg->data.test_images, cfg->data.test_labels};
    const bool idx = strcmp(cfg->data.dataset, "idx") == 0;
    char at[PLACE_BYTES];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const bool given = values[i][0] != '\0';
        if (idx && !given) {
            return log_fail(ST_INPUT,
                            "data.dataset = idx needs data.%s, %s, name the file there or choose "
                            "another dataset",
                            names[i], place(cfg, "data", "dataset", at));
        }
        if (!idx && given) {
            return refuse_unread(cfg, names[i], "idx");
        }
    }
    return ST_OK;
}

/* What a synthetic dataset looks like where the keys leave it open. */
static enum status finish_synthetic(struct config *cfg)
{
    static const double shape[] = {3, 32, 32};
    struct config_data *d = &cfg->data;
    char at[PLACE_BYTES];

    if (strcmp(d->dataset, "synthetic") != 0) {
        return d->shape.n == 0 ? ST_OK : refuse_unread(cfg, "shape", "synthetic");
    }
    if (d->shape.n == 0) {
        double *v = mem_alloc(3, sizeof *v);
        if (v == NULL) {
            return log_fail(ST_NOMEM, "no memory for the configuration, free some");
        }
        memcpy(v, shape, sizeof shape);
        mem_free(d->shape.v);
        d->shape = (struct config_reals){v, 3};
    }
    d->classes = d->classes == 0 ? 10 : d->classes;
    d->n_train = d->n_train == 0 ? 2048 : d->n_train;
    d->n_test = d->n_test == 0 ? 512 : d->n_test;
    if (d->classes < 2) {
        return log_fail(ST_INPUT,
                        "one class leaves nothing to learn, data.classes %s, give 2 or "
                        "more",
                        place(cfg, "data", "classes", at));
    }
    return ST_OK;
}

/* --- [train] */

static enum status refuse_batches(const struct config *cfg, const char *what)
{
    const struct config_train *t = &cfg->train;
    char at_b[PLACE_BYTES], at_g[PLACE_BYTES];

    return log_fail(ST_INPUT,
                    "%s: train.global_batch %lld %s, train.batch_per_device %lld %s, "
                    "train.accum_steps %lld, device.count %lld, make global_batch = "
                    "batch_per_device * accum_steps * count, or set one of the two to 0 so that "
                    "it follows",
                    what, (long long)t->global_batch, place(cfg, "train", "global_batch", at_g),
                    (long long)t->batch_per_device, place(cfg, "train", "batch_per_device", at_b),
                    (long long)t->accum_steps, (long long)cfg->device.count);
}

/* The table's ranges keep all products far from overflow. */
static enum status finish_batches(struct config *cfg)
{
    struct config_train *t = &cfg->train;
    int64_t parts = t->accum_steps * cfg->device.count;

    if (t->global_batch == 0) {
        t->batch_per_device = t->batch_per_device == 0 ? DEFAULT_BATCH : t->batch_per_device;
        t->global_batch = t->batch_per_device * parts;
        return ST_OK;
    }
    if (t->batch_per_device == 0) {
        if (t->global_batch % parts != 0) {
            return refuse_batches(cfg, "the global batch cannot be divided evenly");
        }
        t->batch_per_device = t->global_batch / parts;
        return ST_OK;
    }
    if (t->batch_per_device * parts != t->global_batch) {
        return refuse_batches(cfg, "the batch sizes do not multiply out");
    }
    return ST_OK;
}

/* --- [optim] */

static enum status check_policy(const struct config *cfg)
{
    const struct config_optim *o = &cfg->optim;
    bool multistep = strcmp(o->policy, "multistep") == 0;
    bool to_min = strcmp(o->policy, "poly") == 0 || strcmp(o->policy, "cosine") == 0;
    char at[PLACE_BYTES];

    for (size_t i = 1; i < o->milestones.n; i++) {
        if (o->milestones.v[i] <= o->milestones.v[i - 1]) {
            return log_fail(ST_INPUT,
                            "optim.milestones does not ascend at item %zu, %s, sort the epochs",
                            i + 1, place(cfg, "optim", "milestones", at));
        }
    }
    if (multistep && o->milestones.n == 0) {
        return refuse(cfg, &(struct conflict){"optim", "policy", "milestones",
                                              "policy multistep has no milestones",
                                              "give the epochs after which the rate decays"});
    }
    if (to_min && o->lr_min > o->lr) {
        return refuse(cfg, &(struct conflict){"optim", "lr_min", "lr", "lr_min is above lr",
                                              "give a smaller lr_min"});
    }
    if (o->nesterov && o->momentum == 0) {
        return refuse(cfg, &(struct conflict){"optim", "nesterov", "momentum",
                                              "Nesterov needs a momentum",
                                              "set momentum above 0 or nesterov = no"});
    }
    return ST_OK;
}

/* Only where the length in epochs is known here; with max_steps it is not. */
static enum status check_schedule(const struct config *cfg)
{
    const struct config_optim *o = &cfg->optim;
    double epochs = (double)cfg->train.epochs;
    char at[PLACE_BYTES], at_epochs[PLACE_BYTES];

    if (cfg->train.max_steps > 0) {
        return ST_OK;
    }
    if (o->warmup_epochs > epochs) {
        return log_fail(ST_INPUT,
                        "the warm-up is longer than the training, optim.warmup_epochs %s and "
                        "train.epochs %lld %s, shorten the one or lengthen the other",
                        place(cfg, "optim", "warmup_epochs", at), (long long)cfg->train.epochs,
                        place(cfg, "train", "epochs", at_epochs));
    }
    if (strcmp(o->policy, "multistep") == 0 && o->milestones.v[o->milestones.n - 1] >= epochs) {
        log_warn("the last of optim.milestones is never reached, %s and train.epochs %lld %s, "
                 "is this meant?",
                 place(cfg, "optim", "milestones", at), (long long)cfg->train.epochs,
                 place(cfg, "train", "epochs", at_epochs));
    }
    return ST_OK;
}

enum status config_finish(struct config *cfg)
{
    TRY(check_lists(cfg));
    TRY(check_files(cfg));
    TRY(finish_synthetic(cfg));
    TRY(finish_batches(cfg));
    TRY(check_policy(cfg));
    return check_schedule(cfg);
}
