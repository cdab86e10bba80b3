#ifndef TOPO_TOPO_TEXT_H
#define TOPO_TOPO_TEXT_H

#include <stddef.h>

#include "topo/topo.h"

/* Inside the module: what the readers of the several formats share. */

/* The whole file as a text of `*n` bytes with a zero byte after it; free with mem_free. Errors:
 * ST_INPUT (logged; no such file, larger than 4 MiB), ST_NOMEM. */
MUST_CHECK enum status topo_slurp(const char *path, char **text, size_t *n);

/* Letters, digits and _.:/- , 1 to 63 of them. */
bool topo_name_ok(const char *name);

/*
 * Is this a lattice that a job can use: a device, no vertex without a link, every device reaches
 * every other? Errors: ST_INPUT, logged as path:line (path only when line is 0); ST_NOMEM.
 */
MUST_CHECK enum status topo_check(const struct topo *t, const char *path, int line);

#endif
