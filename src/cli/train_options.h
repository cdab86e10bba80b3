#ifndef CLI_TRAIN_OPTIONS_H
#define CLI_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"
#include "config/config.h"

/* The command line of `train`. */
struct train_options {
    char *config; /* "" if not given */
    char **sets;  /* "section.key=value", in the order given */
    size_t n_sets;
    bool dry_run, help, version;
};

/* Errors: ST_BADARG, ST_NOMEM; logged. `o` must then be released too. */
MUST_CHECK enum status train_options_parse(int argc, const char *const *argv,
                                           struct train_options *o);
void train_options_fini(struct train_options *o);

/*
 * The configuration that results: defaults, the file, the assignments; finished. Errors: as
 * config_read; all errors of file and assignments are reported.
 */
MUST_CHECK enum status train_options_config(const struct train_options *o, struct config *cfg);

/* What --help says about the flags. */
void train_options_print(FILE *out);

#endif
