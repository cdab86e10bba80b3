#include "data/idx.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/datafile.h"

enum {
    U8_TYPE = 8, /* third byte of the magic number: unsigned bytes */
    MAX_DIMS = 4,
    MAX_SIDE = 1 << 14,
    SIZE_TEXT = 96,
};

/* The names of one split's files, and what they are called in messages. */
struct names {
    const char *images, *labels, *images_what, *labels_what;
};

/* A file whose header was read and checked. */
struct idx {
    struct datafile file;
    bool is_images;
    uint32_t dims[MAX_DIMS]; /* n, c, h, w; labels have n only, and 1 elsewhere */
    size_t item_bytes;       /* of one image or label */
    uint64_t total;          /* bytes of the whole contents */
    char contents[SIZE_TEXT];
};

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* What a wrong magic number most likely means. */
static const char *magic_hint(const uint8_t magic[4], bool is_images)
{
    if (magic[0] == 0x1f && magic[1] == 0x8b) {
        return "it is compressed twice, decompress it once";
    }
    if (magic[0] > 0 && magic[0] <= MAX_DIMS && magic[1] == U8_TYPE && magic[3] == 0) {
        return "its header is little-endian, write it big-endian as IDX demands";
    }
    if (magic[0] == 0 && magic[1] == 0 && magic[2] == U8_TYPE && (magic[3] == 1) == is_images) {
        return is_images ? "it holds labels, exchange the names of images and labels"
                         : "it holds images, exchange the names of images and labels";
    }
    if (magic[0] == 0 && magic[1] == 0 && magic[2] > U8_TYPE && magic[2] <= 14) {
        return "its elements are not unsigned bytes, convert it";
    }
    return "it is not an IDX file of unsigned bytes, give the right file";
}

static enum status too_short(const struct idx *x, size_t expected)
{
    return log_fail(ST_INPUT,
                    "truncated %s, %s, expected a header of %zu bytes, found %llu bytes, copy or "
                    "download the file again",
                    x->file.what, x->file.path, expected, (unsigned long long)x->file.n_read);
}

static enum status check_dims(struct idx *x, size_t header_bytes)
{
    static const char *const fields[MAX_DIMS] = {"count", "channels", "height", "width"};
    uint64_t body;

    for (int i = 0; i < MAX_DIMS; i++) {
        if (x->dims[i] == 0 || (i > 0 && x->dims[i] > MAX_SIDE)) {
            return log_fail(ST_INPUT,
                            "bad header of %s, %s, field %s: expected 1 to %u, found %u, give a "
                            "sound file",
                            x->file.what, x->file.path, fields[i],
                            i == 0 ? UINT32_MAX : (unsigned)MAX_SIDE, x->dims[i]);
        }
    }
    x->item_bytes = (size_t)x->dims[1] * x->dims[2] * x->dims[3];
    (void)snprintf(x->contents, sizeof x->contents,
                   x->is_images ? "%u images of %ux%ux%u" : "%u labels", x->dims[0], x->dims[1],
                   x->dims[2], x->dims[3]);
    if (__builtin_mul_overflow((uint64_t)x->item_bytes, x->dims[0], &body) || body > SIZE_MAX / 2) {
        return log_fail(ST_INPUT,
                        "bad header of %s, %s, expected the size of the file, found %s, give a "
                        "sound file",
                        x->file.what, x->file.path, x->contents);
    }
    x->total = header_bytes + body;
    return datafile_expect(&x->file, x->total, x->contents);
}

static enum status read_header(struct idx *x, int most_dims)
{
    uint8_t raw[4 + 4 * MAX_DIMS];
    int least = x->is_images ? 3 : 1, n_dims;
    size_t got, n;

    TRY(datafile_read(&x->file, raw, 4, &got));
    if (got < 4) {
        return too_short(x, 4 + 4 * (size_t)least);
    }
    n_dims = raw[3];
    if (raw[0] != 0 || raw[1] != 0 || raw[2] != U8_TYPE || n_dims < least || n_dims > most_dims) {
        return log_fail(ST_INPUT, "wrong magic number of %s, %s, expected 0x%08x, found 0x%08x: %s",
                        x->file.what, x->file.path, (unsigned)(U8_TYPE << 8 | least),
                        big_endian(raw), magic_hint(raw, x->is_images));
    }
    n = 4 * (size_t)n_dims;
    TRY(datafile_read(&x->file, raw + 4, n, &got));
    if (got < n) {
        return too_short(x, 4 + n);
    }
    x->dims[0] = big_endian(raw + 4);
    for (int i = 1; i < MAX_DIMS; i++) {
        int from = i - (MAX_DIMS - n_dims); /* the sides stand last */
        x->dims[i] = from > 0 ? big_endian(raw + 4 + 4 * from) : 1;
    }
    return check_dims(x, 4 + n);
}

static enum status idx_open(struct idx *x, const struct dataset_request *q, const char *name,
                            const char *what, bool is_images)
{
    /* Only files that the user names may have channels: MNIST's never do. */
    int most = !is_images ? 1 : q->source->classes == 0 ? 4 : 3;

    x->is_images = is_images;
    TRY(datafile_open(&x->file, q->folder, name, what, q->source->remedy));
    return read_header(x, most);
}

static void idx_close(struct idx *x)
{
    datafile_close(&x->file);
}

/* Read the first `n` items into new memory, and check the rest of the file. */
static enum status idx_load(struct idx *x, size_t n, uint8_t **out)
{
    uint8_t *items;
    enum status st = datafile_load(&x->file, n * x->item_bytes, x->total, x->contents, &items);

    if (st == ST_OK) {
        st = datafile_finish(&x->file, x->total, x->contents);
        if (st != ST_OK) {
            mem_free(items);
            return st;
        }
        *out = items;
    }
    return st;
}

/* The class count that the training labels show: the largest label, and one. */
static enum status count_classes(const struct dataset_request *q, const struct names *train, int *n)
{
    struct idx labels = {0};
    uint8_t *v = NULL;
    enum status st = idx_open(&labels, q, train->labels, train->labels_what, false);

    if (st == ST_OK) {
        st = idx_load(&labels, labels.dims[0], &v);
    }
    if (st == ST_OK) {
        *n = 0;
        for (size_t i = 0; i < labels.dims[0]; i++) {
            *n = v[i] >= *n ? v[i] + 1 : *n;
        }
    }
    mem_free(v);
    idx_close(&labels);
    return st;
}

static enum status find_classes(const struct dataset_request *q, const struct names *train,
                                struct dataset *d)
{
    d->classes = q->cfg->classes > 0 ? (int)q->cfg->classes : q->source->classes;
    return d->classes > 0 ? ST_OK : count_classes(q, train, &d->classes);
}

/* Test images must have the shape that the network is trained on. */
static enum status check_shape(const struct dataset_request *q, const struct names *train,
                               const struct idx *images)
{
    struct idx other = {0};
    enum status st = idx_open(&other, q, train->images, train->images_what, true);

    if (st == ST_OK && memcmp(other.dims + 1, images->dims + 1, 3 * sizeof other.dims[0]) != 0) {
        st = log_fail(ST_INPUT,
                      "test images have another shape than training images, %s, expected %ux%ux%u "
                      "as in %s, found %ux%ux%u, use files of one dataset",
                      images->file.path, other.dims[1], other.dims[2], other.dims[3],
                      other.file.path, images->dims[1], images->dims[2], images->dims[3]);
    }
    idx_close(&other);
    return st;
}

static enum status load_labels(struct idx *labels, struct dataset *d)
{
    TRY(idx_load(labels, labels->dims[0], &d->labels));
    for (size_t i = 0; i < labels->dims[0]; i++) {
        TRY(dataset_check_label(labels->file.path, i, d->labels[i], d->classes));
    }
    return ST_OK;
}

static enum status open_split(const struct dataset_request *q, const struct names names[2],
                              struct dataset *d)
{
    const struct names *own = &names[q->split], *train = &names[DATA_TRAIN];
    struct idx images = {0}, labels = {0};
    enum status st;

    if ((st = idx_open(&images, q, own->images, own->images_what, true)) != ST_OK ||
        (st = idx_open(&labels, q, own->labels, own->labels_what, false)) != ST_OK) {
        goto done;
    }
    if (images.dims[0] != labels.dims[0]) {
        st = log_fail(ST_INPUT,
                      "%s and labels differ in number, %s has %u images, %s has %u labels, use two "
                      "files that belong together",
                      images.file.what, images.file.path, images.dims[0], labels.file.path,
                      labels.dims[0]);
        goto done;
    }
    d->c = images.dims[1];
    d->h = images.dims[2];
    d->w = images.dims[3];
    if ((st = dataset_limit(q, images.file.path, images.dims[0], &d->n)) == ST_OK &&
        (q->split == DATA_TRAIN || (st = check_shape(q, train, &images)) == ST_OK) &&
        (st = find_classes(q, train, d)) == ST_OK && (st = load_labels(&labels, d)) == ST_OK) {
        st = idx_load(&images, d->n, &d->pixels);
    }
done:
    idx_close(&images);
    idx_close(&labels);
    return st;
}

enum status idx_open_mnist(const struct dataset_request *q, struct dataset *d)
{
    static const struct names names[2] = {
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "training images",
         "training labels"},
        {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "test images", "test labels"},
    };

    return open_split(q, names, d);
}

enum status idx_open_named(const struct dataset_request *q, struct dataset *d)
{
    const struct config_data *cfg = q->cfg;
    const struct names names[2] = {
        {cfg->train_images, cfg->train_labels, "training images", "training labels"},
        {cfg->test_images, cfg->test_labels, "test images", "test labels"},
    };
    const char *const given[] = {cfg->train_images, cfg->train_labels, cfg->test_images,
                                 cfg->test_labels};
    static const char *const keys[] = {"train_images", "train_labels", "test_images",
                                       "test_labels"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (given[i][0] == '\0') {
            return log_fail(
                ST_INPUT,
                "data.%s is not given, dataset idx expects the names of four files, set "
                "data.%s",
                keys[i], keys[i]);
        }
    }
    return open_split(q, names, d);
}
