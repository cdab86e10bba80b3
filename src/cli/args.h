#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

/* A flag of a program: --name VALUE or --name=VALUE; -letter VALUE where there is a letter. */
struct args_flag {
    const char *name;  /* without the dashes */
    const char *value; /* what stands for the value in --help; NULL: the flag takes none */
    const char *help;
    const char *key; /* the config key that it sets, or NULL */
    char letter;     /* 0: none */
};

/* Goes through a command line. Fill in the first four fields, and 1 for `at`. */
struct args {
    const struct args_flag *flags;
    size_t n_flags;
    int argc;
    const char *const *argv;
    int at; /* the next word */
};

/*
 * Take the next flag: `*flag` is its entry and `*value` its value ("" if it takes none); `*flag` is
 * NULL at the end. Errors: ST_BADARG, logged: an unknown flag with the nearest name, a value that
 * is missing or not wanted, a word that is no flag.
 */
MUST_CHECK enum status args_next(struct args *a, const struct args_flag **flag, const char **value);

/* The flags with their meaning, one a line. */
void args_print(const struct args_flag *flags, size_t n, FILE *out);

/*
 * Write out what stdout holds. Errors: ST_IO, logged, when that or an earlier write has failed: a
 * program whose output got lost has not succeeded.
 */
MUST_CHECK enum status args_flush_stdout(void);

#endif
