#ifndef TRAIN_CREW_H
#define TRAIN_CREW_H

#include <sched.h>
#include <stdbool.h>

#include "base/status.h"

/*
 * One thread for each rank, alive from the building of its replica to the end, so that memory, the
 * op library's own threads and the caches stay with it. Numbers are printed with a decimal point in
 * these threads whatever the locale of the process is.
 */
struct crew;

/* `cores`: the set of cores of each thread [n], or NULL to leave that to the system. Errors:
 * ST_NOMEM, ST_INTERNAL. */
MUST_CHECK enum status crew_create(int n, const cpu_set_t *cores, struct crew **out);
void crew_destroy(struct crew *c); /* takes NULL */

/* Call job(ctx, rank) on every thread and return when all of them have. */
void crew_run(struct crew *c, void (*job)(void *ctx, int rank), void *ctx);

/*
 * The same, but once `hopeless(ctx)` has been true for `grace_s` it returns without the threads
 * that are still at it. Errors: ST_TIMEOUT then, not logged; crew_is_busy tells which they are, and
 * the crew can neither be used nor destroyed any more.
 */
MUST_CHECK enum status crew_run_until(struct crew *c, void (*job)(void *ctx, int rank), void *ctx,
                                      bool (*hopeless)(void *ctx), double grace_s);
bool crew_is_busy(struct crew *c, int rank);

/* Call job(ctx, 0) on the calling thread, with the crew's decimal point. */
void crew_run_here(struct crew *c, void (*job)(void *ctx, int rank), void *ctx);

#endif
