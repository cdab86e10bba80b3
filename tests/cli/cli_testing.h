#ifndef CLI_TESTING_H
#define CLI_TESTING_H

/* What the tests of the programs share: a scratch folder, tiny data, and running `train`. */

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    CLI_TEXT_BYTES = 1 << 17,
    CLI_MAX_SETS = 8,
};

/* The scratch folder of this test; made at the first call, gone after cli_clean. */
const char *cli_folder(void);

/* "<scratch folder>/<name>"; valid for 8 further calls. */
const char *cli_path(const char *name);
void cli_clean(void);

void cli_write_file(const char *name, const void *bytes, size_t n);

/* The content of a file of the scratch folder, "" if there is none; valid until the next call. */
const char *cli_read_file(const char *name);
bool cli_exists(const char *name);

/* IDX files <part>-images and <part>-labels: `n` images of 8x8 whose rows tell the class,
 * and labels i mod `classes`. */
void cli_write_idx(const char *part, size_t n, int classes);

/* Put `label` at position `i` of a labels file. */
void cli_set_label(const char *part, size_t i, uint8_t label);

/*
 * Tiny data (train: `n` images, test: 21) and the config tiny.ini for it: an MLP, batch 8 per
 * device, one epoch, a line per step, results in run.
 */
void cli_write_tiny(size_t n);

struct cli_outcome {
    int code; /* exit code; 128 + n if signal n ended it; -1 if it did not end in time */
    char out[CLI_TEXT_BYTES], err[CLI_TEXT_BYTES];
    size_t n_err; /* lines on stderr */
};

/* Run `train` with these words, up to NULL; in the scratch folder. */
void cli_run(struct cli_outcome *o, const char *const *words);
#define CLI_RUN(o, ...) cli_run(o, (const char *const[]){__VA_ARGS__, NULL})

/* The same with stdout going to a file of any kind; o->out is then "". */
void cli_run_to(struct cli_outcome *o, const char *path, const char *const *words);

/* Run tiny.ini with assignments, up to NULL. */
void cli_tiny(struct cli_outcome *o, const char *const *sets);
#define CLI_TINY(o, ...) cli_tiny(o, (const char *const[]){__VA_ARGS__, NULL})

/* Start without waiting; then wait as cli_run does. Returns the process. */
int cli_start(const char *const *words);
void cli_finish(int process, struct cli_outcome *o);

/* How often `part` is in `text`. */
size_t cli_count(const char *text, const char *part);

/*
 * The run ended with `code` and one line on stderr, which has all of the words (up to NULL), before
 * the first step and without a folder for the results.
 */
void cli_check_refused(const struct cli_outcome *o, int code, const char *const *words);
#define CLI_REFUSED(o, code, ...)                                                                  \
    cli_check_refused(o, code, (const char *const[]){__VA_ARGS__, NULL})

#endif
