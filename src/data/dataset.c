#include "data/dataset.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/cifar.h"
#include "data/idx.h"
#include "data/synthetic.h"

enum {
    MAX_SIDE = 1 << 14,
    MAX_CLASSES = 1 << 20,
};

static const struct dataset_source sources[] = {
    {"fashion-mnist",
     "/usr/share/datasets/fashion-mnist",
     "install dataset-fashion-mnist or set data.path",
     10,
     1,
     {0.2860},
     {0.3530},
     idx_open_mnist},
    {"mnist",
     NULL,
     "set data.path to the folder of the four MNIST files",
     10,
     1,
     {0.1307},
     {0.3081},
     idx_open_mnist},
    {"cifar10",
     NULL,
     "unpack cifar-10-binary.tar.gz and set data.path to the folder with data_batch_1.bin",
     10,
     3,
     {0.4914, 0.4822, 0.4465},
     {0.2470, 0.2435, 0.2616},
     cifar_open},
    {"idx",
     "",
     "set data.path and the names of the four files",
     0,
     1,
     {0.5},
     {0.5},
     idx_open_named},
    {"synthetic",
     "",
     "set data.shape, data.n_train and data.n_test",
     0,
     1,
     {0.498},
     {0.205},
     synthetic_open},
};

enum {
    N_SOURCES = sizeof sources / sizeof sources[0]
};

static enum status find_source(const char *name, const struct dataset_source **out)
{
    const char *names[N_SOURCES], *nearest;

    for (size_t i = 0; i < N_SOURCES; i++) {
        names[i] = sources[i].name;
        if (strcmp(name, names[i]) == 0) {
            *out = &sources[i];
            return ST_OK;
        }
    }
    nearest = text_nearest(name, names, N_SOURCES);
    return log_fail(
        ST_INPUT,
        "unknown dataset, data.dataset = %s, expected fashion-mnist, mnist, cifar10, idx "
        "or synthetic, did you mean %s?",
        name, nearest == NULL ? "fashion-mnist" : nearest);
}

const char *dataset_split_name(enum data_split split)
{
    return split == DATA_TRAIN ? "train" : "test";
}

enum status dataset_limit(const struct dataset_request *q, const char *path, size_t available,
                          size_t *n)
{
    int64_t want = q->split == DATA_TRAIN ? q->cfg->n_train : q->cfg->n_test;
    const char *name = dataset_split_name(q->split);

    if (want < 0 || (uint64_t)want > available) {
        return log_fail(
            ST_INPUT,
            "data.n_%s = %lld, %s, expected 0 to %zu, the samples that are there, lower "
            "data.n_%s or set it to 0 for all",
            name, (long long)want, path, available, name);
    }
    *n = want == 0 ? available : (size_t)want;
    return ST_OK;
}

enum status dataset_check_label(const char *path, size_t index, unsigned label, int classes)
{
    if (label >= (unsigned)classes) {
        return log_fail(
            ST_INPUT,
            "label out of range, %s, sample %zu: expected 0 to %d, found %u, correct the "
            "file (labels count from 0) or set data.classes",
            path, index, classes - 1, label);
    }
    return ST_OK;
}

/* What can be refused without opening a file. */
static enum status check_config(const struct config_data *cfg)
{
    const struct {
        const char *key;
        int64_t value, most;
    } ranges[] = {
        {"classes", cfg->classes, MAX_CLASSES},
        {"pad_to", cfg->pad_to, MAX_SIDE},
        {"crop_pad", cfg->crop_pad, MAX_SIDE},
    };

    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (ranges[i].value < 0 || ranges[i].value > ranges[i].most) {
            return log_fail(ST_INPUT, "data.%s = %lld, expected 0 to %lld, correct data.%s",
                            ranges[i].key, (long long)ranges[i].value, (long long)ranges[i].most,
                            ranges[i].key);
        }
    }
    return ST_OK;
}

static enum status find_folder(struct dataset_request *q)
{
    q->folder = q->cfg->path[0] != '\0' ? q->cfg->path : q->source->folder;
    if (q->folder == NULL) {
        return log_fail(ST_INPUT,
                        "data.path is not given, dataset %s expects the folder of its files, %s",
                        q->source->name, q->source->remedy);
    }
    return ST_OK;
}

static enum status pad(const struct config_data *cfg, struct dataset *d)
{
    size_t side = (size_t)cfg->pad_to;

    d->out_h = side > 0 ? side : d->h;
    d->out_w = side > 0 ? side : d->w;
    if (d->out_h < d->h || d->out_w < d->w) {
        return log_fail(
            ST_INPUT,
            "data.pad_to = %zu is smaller than the images, expected at least %zu, raise "
            "it or set it to 0",
            side, d->h > d->w ? d->h : d->w);
    }
    return ST_OK;
}

static enum status check_list(const char *key, const struct config_reals *list, size_t channels)
{
    if (list->n != 0 && list->n != channels) {
        return log_fail(ST_INPUT,
                        "data.%s has %zu numbers, expected %zu, one per channel of the images, "
                        "correct data.%s or leave it empty",
                        key, list->n, channels, key);
    }
    return ST_OK;
}

/* Turn mean and deviation into scale and bias of a pixel byte. */
static enum status normalise(const struct config_data *cfg, const struct dataset_source *source,
                             struct dataset *d)
{
    TRY(check_list("mean", &cfg->mean, d->c));
    TRY(check_list("std", &cfg->std, d->c));
    d->scale = mem_alloc(d->c, sizeof *d->scale);
    d->bias = mem_alloc(d->c, sizeof *d->bias);
    if (d->scale == NULL || d->bias == NULL) {
        return log_fail(ST_NOMEM, "out of memory for the means of %zu channels", d->c);
    }
    for (size_t c = 0; c < d->c; c++) {
        size_t k = source->n_norm == 1 ? 0 : c;
        double mean = cfg->mean.n > 0 ? cfg->mean.v[c] : source->mean[k];
        double std = cfg->std.n > 0 ? cfg->std.v[c] : source->std[k];

        if (!(std > 0)) {
            return log_fail(ST_INPUT,
                            "data.std: number %zu is not positive, expected a standard deviation "
                            "above 0, correct data.std or leave it empty",
                            c + 1);
        }
        d->scale[c] = (float)(1 / (255 * std));
        d->bias[c] = (float)(-mean / std);
    }
    return ST_OK;
}

enum status dataset_open(const struct config_data *cfg, enum data_split split, uint64_t seed,
                         struct dataset **out)
{
    struct dataset_request q = {.cfg = cfg, .split = split, .seed = seed};
    struct dataset *d;
    enum status st;

    TRY(check_config(cfg));
    TRY(find_source(cfg->dataset, &q.source));
    TRY(find_folder(&q));
    d = mem_alloc(1, sizeof *d);
    if (d == NULL) {
        return log_fail(ST_NOMEM, "out of memory for a dataset");
    }
    if ((st = q.source->open(&q, d)) != ST_OK || (st = pad(cfg, d)) != ST_OK ||
        (st = normalise(cfg, q.source, d)) != ST_OK) {
        dataset_close(d);
        return st;
    }
    *out = d;
    return ST_OK;
}

void dataset_close(struct dataset *d)
{
    if (d != NULL) {
        synthetic_close(d->synthetic);
        mem_free(d->pixels);
        mem_free(d->labels);
        mem_free(d->scale);
        mem_free(d->bias);
        mem_free(d);
    }
}

size_t dataset_n(const struct dataset *d)
{
    return d->n;
}

int dataset_classes(const struct dataset *d)
{
    return d->classes;
}

void dataset_shape(const struct dataset *d, size_t shape[3])
{
    shape[0] = d->c;
    shape[1] = d->out_h;
    shape[2] = d->out_w;
}

size_t dataset_scratch_bytes(const struct dataset *d)
{
    return d->synthetic != NULL ? synthetic_scratch_bytes(d->synthetic) : 0;
}

const uint8_t *dataset_pixels(const struct dataset *d, size_t id, uint8_t *scratch)
{
    if (d->synthetic == NULL) {
        return d->pixels + id * d->c * d->h * d->w;
    }
    synthetic_make(d->synthetic, id, scratch);
    return scratch;
}

int32_t dataset_label(const struct dataset *d, size_t id)
{
    return d->synthetic != NULL ? synthetic_label(d->synthetic, id) : d->labels[id];
}
