#ifndef TRAIN_RUNDIR_H
#define TRAIN_RUNDIR_H

#include <stdio.h>

#include "base/status.h"
#include "config/config.h"

/*
 * The folder of a run: config.ini (the effective configuration), steps.csv, epochs.csv,
 * tuning.txt (the choice of algorithms) and, at the end, buckets.csv and summary.json.
 */
struct rundir;

/*
 * Make the folder that [train] output names, or runs/<config>-<date>-<time>[-k], with its parents,
 * write the effective config and open the CSV files. A folder that holds a run already is refused.
 * Errors: ST_INPUT with path and reason; ST_IO (no space); ST_NOMEM.
 */
MUST_CHECK enum status rundir_create(const struct config *cfg, struct rundir **out);
void rundir_destroy(struct rundir *d); /* takes NULL */

const char *rundir_path(const struct rundir *d);
FILE *rundir_steps(struct rundir *d);
FILE *rundir_epochs(struct rundir *d);

/* A new string "<folder>/<name>"; NULL when out of memory. */
char *rundir_file(const struct rundir *d, const char *name);

/* Write out what is buffered. Errors: ST_IO with the path, also when the folder has gone. */
MUST_CHECK enum status rundir_flush(struct rundir *d);

/* The user's file of timed algorithms: $XDG_CACHE_HOME or ~/.cache, then espalier/tuning. A new
 * string; "" where neither is known; NULL when out of memory. */
char *rundir_tuning_cache(void);

#endif
