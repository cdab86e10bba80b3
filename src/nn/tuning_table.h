#ifndef NN_TUNING_TABLE_H
#define NN_TUNING_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "nn/graph.h"

/*
 * The inside of a tuning for op libraries: a table from keys (one line of text: machine, version,
 * threads, batch, layer, layout, pass, algorithm) to the time that was measured. A choice is always
 * the fastest entry, so equal tables give equal choices.
 */

enum {
    TUNING_KEY_BYTES = 320
};

/* Whether missing entries may be timed: the tuning has a place to keep them. Takes NULL. */
bool tuning_may_time(const struct tuning *t);

/* The time of `key`; marks it as used. False if there is none, or t is NULL. */
bool tuning_find(struct tuning *t, const char *key, int64_t *ns);

/* Enter a time; an entry that is there already stays. Errors: ST_NOMEM. */
MUST_CHECK enum status tuning_put(struct tuning *t, const char *key, int64_t ns);

/* Replicas that are built at the same time take turns at timing. */
void tuning_lock(struct tuning *t);
void tuning_unlock(struct tuning *t);

/* Say that algorithms are timed, which takes a while; once for each tuning. */
void tuning_announce(struct tuning *t);

/* Write the user's cache; a failure is a warning only, and only once. */
void tuning_save(struct tuning *t);

/* Name this machine's processor, for keys: "AMD EPYC 25.17". */
void tuning_name_machine(char *out, size_t out_bytes);

/* The same, as it was at tuning_create. */
const char *tuning_machine(const struct tuning *t);

#endif
