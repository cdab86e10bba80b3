#ifndef TOPO_TOPO_EXPORT_H
#define TOPO_TOPO_EXPORT_H

#include <stdio.h>

#include "topo/topo.h"

/* Write a .topo file that topo_read takes and that gives the same topology. Errors: ST_IO. */
MUST_CHECK enum status topo_write(const struct topo *t, FILE *out);

/* The same content as JSON: name, desc, vertices, devices, links by direction. Errors: ST_IO. */
MUST_CHECK enum status topo_write_json(const struct topo *t, FILE *out);

/*
 * A picture of the lattice for Graphviz. `use` [n_links], may be NULL, is how much of each link is
 * used, 0 to 1, and sets the width of its line. `extra` is more text for the graph, may be NULL.
 * Errors: ST_IO.
 */
MUST_CHECK enum status topo_write_dot(const struct topo *t, const double *use, const char *extra,
                                      FILE *out);

#endif
