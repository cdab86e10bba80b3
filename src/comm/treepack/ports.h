#ifndef TREEPACK_PORTS_H
#define TREEPACK_PORTS_H

#include "comm/treepack/lattice.h"

/*
 * The arcs into and out of one switch while it is taken apart. The ports are ordered such that
 * neighbours in the order lie in different groups, a group being the vertices that fatter arcs than
 * the ports join (the box around a network port): what is paired first then leads far away.
 */
struct ports {
    int w, n_in, n_out, n_groups;
    int *in, *out;             /* arcs */
    int64_t *cap_in, *cap_out; /* their capacities at the start */
    int *shifts;               /* [n_out] the order in which shifts between in and out are tried */
};

/* Errors: ST_NOMEM; `p` may then only be finished. */
MUST_CHECK enum status ports_init(struct ports *p, const struct lattice *l, int w);
void ports_fini(struct ports *p);

/* Move `m` units from arc `a` into and arc `b` out of the switch to a direct arc; units that would
 * come back to where they started vanish. Errors: ST_NOMEM. */
MUST_CHECK enum status ports_join(struct lattice *l, int a, int b, int64_t m);

/* The same, adding to the arc that was joined from `a` and `b` before if there is one. */
MUST_CHECK enum status ports_join_more(struct lattice *l, int a, int b, int64_t m);

/* Take back all arcs from number `before` on. */
void ports_undo(const struct ports *p, struct lattice *l, int before);

/* An even part of what is left of `a` and `b`: what each of the other ports would get. */
int64_t ports_quantum(const struct ports *p, const struct lattice *l, int a, int b);

/* What arc `a` into the switch held at the start. */
int64_t ports_start(const struct ports *p, int a);

/* Capacity left into and out of the switch. */
void ports_left(const struct ports *p, const struct lattice *l, int64_t *in, int64_t *out);

/* Two neighbours: the switch is a piece of wire. */
bool ports_are_series(const struct ports *p, const struct lattice *l);
MUST_CHECK enum status ports_join_series(const struct ports *p, struct lattice *l);

/* A star of equal ports: port i sends to i + 1, i + 2, ... in turn, the same to each as far as the
 * capacity divides. */
bool ports_are_equal(const struct ports *p, const struct lattice *l);
MUST_CHECK enum status ports_join_circulant(const struct ports *p, struct lattice *l);

/* Nothing goes through the switch any more. */
void ports_close(const struct ports *p, struct lattice *l);

#endif
