#include "cli/train_options.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/args.h"

enum {
    FLAG_CONFIG,
    FLAG_SET,
    FLAG_DRY_RUN,
    FLAG_HELP,
    FLAG_VERSION,
};

/* The flags after FLAG_VERSION are short forms of --set. */
static const struct args_flag flags[] = {
    [FLAG_CONFIG] = {.name = "config",
                     .value = "FILE",
                     .help = "the config file; a bare name is also looked up in configs/"},
    [FLAG_SET] = {.name = "set",
                  .value = "SECTION.KEY=VALUE",
                  .help = "set a key, over the file; may be repeated"},
    [FLAG_DRY_RUN] = {.name = "dry-run",
                      .help = "build everything, show what would run, train nothing"},
    [FLAG_HELP] = {.name = "help", .letter = 'h', .help = "show this and leave"},
    [FLAG_VERSION] = {.name = "version", .help = "show the versions and leave"},
    {.name = "epochs", .value = "N", .help = "passes over the data", .key = "train.epochs"},
    {.name = "max-steps", .value = "N", .help = "end after N steps", .key = "train.max_steps"},
    {.name = "batch-size",
     .value = "N",
     .help = "images per device",
     .key = "train.batch_per_device"},
    {.name = "lr", .value = "RATE", .help = "learning rate", .key = "optim.lr"},
    {.name = "seed", .value = "N", .help = "seed of all random numbers", .key = "train.seed"},
    {.name = "devices", .value = "N", .help = "number of devices", .key = "device.count"},
    {.name = "backend", .value = "NAME", .help = "how gradients are summed", .key = "comm.backend"},
    {.name = "output", .value = "DIR", .help = "folder for the results", .key = "train.output"},
    {.name = "log-every", .value = "N", .help = "steps between lines", .key = "log.log_every"},
};

enum {
    N_FLAGS = sizeof flags / sizeof flags[0]
};

void train_options_print(FILE *out)
{
    args_print(flags, N_FLAGS, out);
}

void train_options_fini(struct train_options *o)
{
    for (size_t i = 0; i < o->n_sets; i++) {
        mem_free(o->sets[i]);
    }
    mem_free(o->sets);
    mem_free(o->config);
    memset(o, 0, sizeof *o);
}

static enum status no_memory(void)
{
    return log_fail(ST_NOMEM, "no memory for the command line, free some");
}

static enum status take_config(struct train_options *o, const char *value)
{
    if (o->config[0] != '\0') {
        return log_fail(ST_BADARG, "--config is given twice, %.200s and %.200s, leave one out",
                        o->config, value);
    }
    mem_free(o->config);
    o->config = mem_strdup(value);
    return o->config != NULL ? ST_OK : no_memory();
}

static enum status take_set(struct train_options *o, char *assignment)
{
    if (assignment == NULL) {
        return no_memory();
    }
    o->sets[o->n_sets++] = assignment;
    return ST_OK;
}

static enum status take_flag(struct train_options *o, const struct args_flag *f, const char *value)
{
    switch (f - flags) {
    case FLAG_CONFIG:
        return take_config(o, value);
    case FLAG_SET:
        return take_set(o, mem_strdup(value));
    case FLAG_DRY_RUN:
        o->dry_run = true;
        return ST_OK;
    case FLAG_HELP:
        o->help = true;
        return ST_OK;
    case FLAG_VERSION:
        o->version = true;
        return ST_OK;
    default:
        return take_set(o, mem_printf("%s=%s", f->key, value));
    }
}

enum status train_options_parse(int argc, const char *const *argv, struct train_options *o)
{
    struct args a = {flags, N_FLAGS, argc, argv, 1};
    const struct args_flag *f;
    const char *value;

    memset(o, 0, sizeof *o);
    o->config = mem_strdup("");
    o->sets = mem_alloc((size_t)argc, sizeof *o->sets);
    if (o->config == NULL || o->sets == NULL) {
        return no_memory();
    }
    do {
        TRY(args_next(&a, &f, &value));
        if (f != NULL) {
            TRY(take_flag(o, f, value));
        }
    } while (f != NULL && !o->help && !o->version);
    if (!o->help && !o->version && o->config[0] == '\0') {
        return log_fail(ST_BADARG, "no config file, --config, give one such as --config "
                                   "quickstart.ini; --help lists all flags");
    }
    return ST_OK;
}

enum status train_options_config(const struct train_options *o, struct config *cfg)
{
    enum status first, st;

    TRY(config_init(cfg));
    first = config_read(cfg, o->config);
    for (size_t i = 0; i < o->n_sets; i++) {
        st = config_set(cfg, o->sets[i]);
        first = first == ST_OK ? st : first;
    }
    return first == ST_OK ? config_finish(cfg) : first;
}
