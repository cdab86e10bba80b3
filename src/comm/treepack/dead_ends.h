#ifndef TREEPACK_DEAD_ENDS_H
#define TREEPACK_DEAD_ENDS_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/topo.h"

/*
 * Vertices of a topology that its lattice leaves out lie on no way between two devices. A proof
 * adds up links of the topology, so it must place them where their links count for nothing.
 * `left`[n_vertices] says which they are. Those without links keep what they have.
 */

/* Give them values, such as sides of a cut, so that no link of theirs leads from a smaller value to
 * a greater one; `backwards`: from a greater to a smaller one. */
void dead_ends_level(const struct topo *t, const bool *left, bool backwards, int64_t *value);

/* Put them into a part (from 0) if they hang on it; they are in none (-1) before. */
void dead_ends_join(const struct topo *t, const bool *left, int *part);

#endif
