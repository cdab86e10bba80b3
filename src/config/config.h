#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

/* A list of numbers such as `0.4914, 0.4822, 0.4465`; owned by the config. */
struct config_reals {
    double *v;
    size_t n;
};

/*
 * The effective configuration of a run. One table in config_table.c names every key with its
 * section, type, default, range and help text; the parser, the defaults, --help,
 * docs/configuration.md and the effective config in the run's directory are all made from it.
 * Strings are never NULL; "" stands for "not given".
 */
struct config_data {
    char *dataset; /* fashion-mnist | mnist | cifar10 | idx | synthetic */
    char *path;    /* folder of the files; "" = where the dataset's package puts them */
    char *train_images, *train_labels, *test_images,
        *test_labels;              /* idx: file names, relative to path */
    int64_t classes;               /* 0 = what the dataset has */
    struct config_reals shape;     /* synthetic: C, H, W */
    int64_t n_train, n_test;       /* synthetic: sizes; others: use only the first ones, 0 = all */
    struct config_reals mean, std; /* per channel, of pixels in [0, 1]; empty = the dataset's own */
    int64_t pad_to;   /* pad images with zeros to this height and width; 0 = as they are */
    int64_t crop_pad; /* training: pad by this many pixels and cut at a random place; 0 = off */
    bool flip;        /* training: mirror every second image */
    bool shuffle;
    bool drop_last;
    int64_t prefetch; /* batches made ahead, per device */
};

struct config_model {
    char *name;                 /* mlp | lenet | resnet20 ... */
    struct config_reals hidden; /* mlp: widths */
    double dropout;
    char *shortcut; /* CIFAR ResNets: projection | pad */
};

struct config_train {
    int64_t epochs, max_steps;              /* max_steps 0 = by epochs */
    int64_t batch_per_device, global_batch; /* one of them is given; the other follows */
    int64_t accum_steps;
    int64_t eval_every; /* epochs; 0 = only at the end */
    int64_t seed;
    char *on_nan; /* stop | skip | ignore */
    char *output; /* run directory; "" = runs/<config>-<date>-<time> */
};

struct config_optim {
    double lr, momentum, weight_decay;
    bool nesterov, decay_norm_bias, scale_lr;
    char *policy; /* fixed | step | multistep | poly | cosine | exp */
    double gamma, power, lr_min;
    int64_t step_epochs;
    struct config_reals milestones; /* epochs */
    double warmup_epochs, warmup_lr;
    double loss_scale; /* 0: by the format of the computation */
    int64_t loss_scale_steps;
    char *fuse; /* auto | on | off: update fused into the reduction over one shared weight arena */
};

struct config_comm {
    char *backend; /* a planner's name, or auto */
    bool overlap;
    char *buckets; /* size | layer | one | merge */
    uint64_t bucket_bytes, first_bucket_bytes;
    struct config_reals bucket_layers; /* merge: layers in each bucket; empty = measured */
    uint64_t chunk_bytes;              /* 0 = from the cost model */
    char *chunks;                      /* by size of message, or tune; "" = chunk_bytes */
    double timeout_s;
    char *
        topology; /* a name in topologies/ or a .topo file; "" = a full mesh of the host's memory */
    char *plan;   /* a plan file; "" = made by the backend */
    char *treepack; /* exact | k=N | mwu ... | hybrid=KINDS ... | three-phase */
    char *fabric;   /* memory | emulate */
    double fabric_scale, fabric_startup_us;
    int64_t workers; /* engine threads; -1 = chosen */
    char *order;     /* fifo | priority */
    uint64_t credit_bytes;
    char *wire; /* fp32 | bf16 */
    char *sync; /* allreduce | reduce-broadcast */
    char *nccl,
        *nccl_log; /* NCCL's library, "" = where it is installed; where it writes, "" = nowhere */
};

struct config_device {
    char *type; /* cpu | cuda */
    int64_t count;
    int64_t threads_per_device; /* 0 = cores / devices */
    bool pin;
    char *compute; /* fp32 | bf16 | fp16 */
    bool tf32, oversubscribe;
    char *graph;  /* auto | off */
    char *tuning; /* file; "" = none */
};

struct config_log {
    int64_t log_every;
    char *progress; /* auto | on | off */
    char *trace;    /* file; "" = none */
    int64_t trace_first, trace_steps;
};

struct config_debug {
    char *inject; /* faults, see docs/configuration.md */
    int64_t verify_every;
};

struct config {
    struct config_data data;
    struct config_model model;
    struct config_train train;
    struct config_optim optim;
    struct config_comm comm;
    struct config_device device;
    struct config_log log;
    struct config_debug debug;
    char *file; /* the path that was read, "" for pure defaults */
    int *lines; /* private, for messages: by key, the line of `file`, 0 for a default, -1 for a
                   config_set */
};

/*
 * Fill `cfg` with the defaults. It must be zeroed or released before.
 * Errors: ST_NOMEM; `cfg` may then only be released.
 */
MUST_CHECK enum status config_init(struct config *cfg);

/*
 * Read an INI file over what `cfg` holds. A bare name (no '/') that is not a file here is looked up
 * in the folder `configs`, with and without ".ini". Unknown sections or keys, keys given twice,
 * junk after a value and values out of range are errors with file:line and the nearest name; all
 * errors of a file are reported. Errors: ST_INPUT, ST_NOMEM; `cfg` may then only be released.
 */
MUST_CHECK enum status config_read(struct config *cfg, const char *path);

/* Apply one `section.key=value` (of --set). Errors as config_read, with the text itself as the
 * place. */
MUST_CHECK enum status config_set(struct config *cfg, const char *assignment);

/*
 * Check what concerns several keys at once (lists of equal length, batch sizes that multiply out,
 * ...), and derive what was left open. Call once after the last config_set. Errors: ST_INPUT.
 */
MUST_CHECK enum status config_finish(struct config *cfg);

/* Write the effective configuration as an INI file that config_read takes and that gives the same
 * config. */
void config_write(const struct config *cfg, FILE *out);

/* All keys with type, default, range and meaning: for --help (plain text), and as
 * docs/configuration.md. */
void config_help(FILE *out);
void config_markdown(FILE *out);

/* A 64-bit digest of all keys that every rank must agree on. */
uint64_t config_digest(const struct config *cfg);

/* Release everything; takes zeroed and half-built configs. */
void config_fini(struct config *cfg);

#endif
