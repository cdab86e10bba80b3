#ifndef TOPO_TOPO_H
#define TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum topo_kind {
    TOPO_GPU,
    TOPO_CPU,    /* a CPU device: computes, copies and reduces like a GPU */
    TOPO_SWITCH, /* forwards only */
    TOPO_NIC,
    TOPO_NET,
};

struct topo_vertex {
    char *name;
    enum topo_kind kind;
};

/* One direction of a link. Bandwidths are integers (bytes per second), so that packings are exact.
 */
struct topo_link {
    int from, to; /* vertices */
    int64_t bytes_per_s;
    int64_t effective_bytes_per_s; /* what programs reach of it; used for predictions only */
    int64_t latency_ns;
    int lanes;
    char *kind; /* "nvlink", "pcie", "ib", "memory", ... */
};

/*
 * A lattice of links: the directed graph between the devices of a job. Plain data, owned by the
 * topology; at most one link for each ordered pair of vertices and kind. Rank r runs on vertex
 * devices[r].
 */
struct topo {
    char *name, *desc;
    char *kept; /* the kinds of links that topo_keep_links left; NULL: never called */
    int n_vertices, n_links, n_devices;
    struct topo_vertex *vertices;
    struct topo_link *links;
    int *devices;
};

/* A new topology without vertices. Errors: ST_NOMEM. */
MUST_CHECK enum status topo_create(const char *name, const char *desc, struct topo **out);

/* Takes NULL. */
void topo_destroy(struct topo *t);

/* Add a vertex; GPU and CPU vertices become the next rank. `index` may be NULL. Errors: ST_NOMEM,
 * ST_INPUT (name taken). */
MUST_CHECK enum status topo_add_vertex(struct topo *t, const char *name, enum topo_kind kind,
                                       int *index);

/* Add one direction of a link; `effective` 0 means the same as the raw rate. Errors: ST_NOMEM,
 * ST_INPUT. */
MUST_CHECK enum status topo_add_link(struct topo *t, const struct topo_link *link);

/* Add the link and the same one back. Errors: as topo_add_link. */
MUST_CHECK enum status topo_add_both(struct topo *t, const struct topo_link *link);

/* The link from vertex `from` to vertex `to` (the fastest if there are several kinds), or -1. */
int topo_find_link(const struct topo *t, int from, int to);

/* The vertex of that name, or -1. */
int topo_find_vertex(const struct topo *t, const char *name);

/* May bytes be copied and reduced there (GPU or CPU device)? */
bool topo_is_device(const struct topo *t, int vertex);

/*
 * `n` CPU devices cpu0 ... that reach each other directly through shared memory: a full mesh of
 * links of `bytes_per_s` and `latency_ns`. The default topology of a run without one.
 */
MUST_CHECK enum status topo_mesh(int n, int64_t bytes_per_s, int64_t latency_ns, struct topo **out);

/* Read a .topo file. Errors: ST_INPUT with file:line and the reason; ST_NOMEM. */
MUST_CHECK enum status topo_read(const char *path, struct topo **out);

/*
 * Read a topology by name or path: an existing file or anything with a '/' is a path, another word
 * the file `topologies/<name>.topo` here or above the program (base/shipped.h); "host" is the
 * machine at hand, as hwloc finds it. Errors: as topo_read; ST_UNSUPPORTED for "host" if built
 * without hwloc.
 */
MUST_CHECK enum status topo_open(const char *name, struct topo **out);

/* The same from a text of `n` bytes that a zero byte follows; the text is cut up. `path` is for
 * messages. */
MUST_CHECK enum status topo_parse(const char *path, char *text, size_t n, struct topo **out);

/*
 * The sub-topology of the devices `ranks` (indices into devices, in the new rank order); the other
 * devices are dropped with their links, switches stay. Errors: ST_NOMEM, ST_INPUT (unknown or
 * repeated rank).
 */
MUST_CHECK enum status topo_subset(const struct topo *t, const int *ranks, int n,
                                   struct topo **out);

/*
 * The topology with only the links whose kind is named in `kinds`, a list with commas such as
 * "nvlink" or "pcie,qpi"; all vertices stay. Errors: ST_NOMEM, ST_INPUT (a kind that no link has).
 */
MUST_CHECK enum status topo_keep_links(const struct topo *t, const char *kinds, struct topo **out);

#endif
