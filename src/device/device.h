#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Devices of one type: memory on them, and work on their streams. What is put on a stream runs in
 * order; between streams only events give an order. Calls that put work on a stream return before
 * it has run, and its errors show in a later call.
 *
 * A set is the devices of a job's ranks; several ranks may share a device. Threads: any, but one at
 * a time for a stream, an event or a graph.
 */

enum device_dtype { /* of a fold */
    DEVICE_F32,
    DEVICE_BF16,
    DEVICE_F16,
    DEVICE_I32,
};

enum device_redop {
    DEVICE_SUM,
    DEVICE_MEAN,
    DEVICE_MAX,
    DEVICE_MIN,
};

enum {
    DEVICE_MAX_REFS = 8, /* sources, and destinations, of a fold */
    DEVICE_URGENCIES = 3 /* above that of plain streams */
};

/* dst[m][i] = (src[0][i] op src[1][i] ...) / divisor for i in [0, n); divisor 0: none. A buffer may
 * be a source and a destination, other overlaps are not allowed. */
struct device_fold {
    enum device_dtype dtype;
    enum device_redop redop;
    const void *src[DEVICE_MAX_REFS];
    void *dst[DEVICE_MAX_REFS];
    int n_src, n_dst;
    size_t n;
    int divisor;
};

/* A range of an arena, for the update. Ranges do not overlap. */
struct device_range {
    size_t offset, n;
    size_t first_tile; /* see device_tile */
    float weight_decay;
};

/* Number the tiles, the pieces of ranges that GPU blocks take, and return how many there are. */
size_t device_tile(struct device_range *ranges, size_t n_ranges);

/* SGD as in optim/optim.h on the ranges, an array in the device's memory; v NULL: without momentum.
 * The arenas are aligned to 16 bytes. Gradients are multiplied by `unscale` before. Nothing is
 * updated if *skip is not 0 by then; NULL: in any case. */
struct device_sgd {
    float *w, *v;
    const float *g;
    const struct device_range *ranges;
    size_t n_ranges, n_tiles;
    float lr, momentum, unscale;
    bool nesterov;
    const uint32_t *skip;
};

/* dst[i] = src[i] in another type: of 32 and 16 bits. */
struct device_convert {
    const void *src;
    void *dst;
    size_t n;
    enum device_dtype half; /* the one of 16 bits */
    bool widen;             /* it is that of src */
};

/* Are all numbers of an array finite? *flag is set to 1 if not, and left alone if so. */
struct device_finite {
    const float *x;
    size_t n;
    uint32_t *flag; /* in any memory of the set */
};

/* *out is set to 1 if the loss is not finite (NULL: it is), or one of the votes is not 0, or, with
 * `keep`, it was not 0 before; else to 0. */
struct device_vote {
    const double *loss;
    const uint32_t *votes;
    size_t n;
    uint32_t *out;
    bool keep;
};

enum {
    DEVICE_STORE_BYTES = 32
};

/* Bytes that travel with the call itself: the host may forget them at once. */
struct device_store {
    void *dst;
    size_t n; /* up to DEVICE_STORE_BYTES */
    unsigned char bytes[DEVICE_STORE_BYTES];
};

struct device_ops {
    const char *type; /* value of [device] type */
    size_t align;     /* bytes: of memory, and of what is put into parts of it */
    const char *(*version)(void);

    /* How many there are, above 0. Errors: ST_UNSUPPORTED, logged with what is missing. */
    MUST_CHECK enum status (*count)(int *n);

    /* The set where rank r has device devices[r]. Errors: ST_INPUT (no such device),
     * ST_UNSUPPORTED, ST_NOMEM. */
    MUST_CHECK enum status (*open)(const int *devices, int n_ranks, void **set);
    void (*close)(void *set); /* takes NULL; after everything on it is destroyed */

    /* The calling thread works for `rank` from now on; for libraries that ask for it. Any call for
     * another rank, or on its streams, may end that. */
    MUST_CHECK enum status (*use)(void *set, int rank);

    /* May work on `rank`'s device read and write the memory of `peer`'s? Found out by trying. */
    bool (*reaches)(void *set, int rank, int peer);

    /* Zeroed memory of the rank's device, and of the host that all devices reach. Nothing on any
     * stream may still use what is released. Errors: ST_NOMEM with the amount. */
    MUST_CHECK enum status (*alloc)(void *set, int rank, size_t bytes, void **p);
    void (*release)(void *set, int rank, void *p); /* takes NULL */
    MUST_CHECK enum status (*alloc_host)(void *set, size_t bytes, void **p);
    void (*release_host)(void *set, void *p); /* takes NULL */

    MUST_CHECK enum status (*stream_create)(void *set, int rank, void **stream);
    /* A stream whose work goes before that of less urgent streams where the device can choose:
     * 1 to DEVICE_URGENCIES, the most urgent. */
    MUST_CHECK enum status (*urgent_stream_create)(void *set, int rank, int urgency, void **stream);
    void (*stream_destroy)(void *set, void *stream); /* takes NULL */
    MUST_CHECK enum status (*stream_sync)(void *set, void *stream);
    void *(*stream_native)(void *set, void *stream); /* the library's own handle */

    /* An event marks a place on a stream of its rank's device, each time that it is recorded. */
    MUST_CHECK enum status (*event_create)(void *set, int rank, void **event);
    /* One that also keeps the time at which its place was reached. */
    MUST_CHECK enum status (*timer_create)(void *set, int rank, void **event);
    void (*event_destroy)(void *set, void *event); /* takes NULL */
    MUST_CHECK enum status (*record)(void *set, void *stream, void *event);
    /* What is put on `stream` from now on runs after the place that the event marks at this call;
     * an event that was never recorded has no effect. */
    MUST_CHECK enum status (*wait)(void *set, void *stream, void *event);
    MUST_CHECK enum status (*done)(void *set, void *event, bool *out);
    /* The calling thread waits for the place that was marked last, if one was. */
    MUST_CHECK enum status (*event_sync)(void *set, void *event);
    /* Seconds from one place to the other, of timers of one device that are done. */
    MUST_CHECK enum status (*elapsed)(void *set, void *from, void *to, double *s);

    /* Between any two memories of the set and the host. */
    MUST_CHECK enum status (*copy)(void *set, void *stream, void *dst, const void *src,
                                   size_t bytes);
    MUST_CHECK enum status (*clear)(void *set, void *stream, void *p, size_t bytes); /* to zero */
    MUST_CHECK enum status (*store)(void *set, void *stream, const struct device_store *s);
    MUST_CHECK enum status (*convert)(void *set, void *stream, const struct device_convert *c);
    MUST_CHECK enum status (*finite)(void *set, void *stream, const struct device_finite *f);
    MUST_CHECK enum status (*vote)(void *set, void *stream, const struct device_vote *v);
    MUST_CHECK enum status (*fold)(void *set, void *stream, const struct device_fold *f);
    MUST_CHECK enum status (*sgd)(void *set, void *stream, const struct device_sgd *s);

    /*
     * What is put on `stream`, and on streams that wait for events recorded since on such streams,
     * is kept in a graph instead of run; at the end `stream` must have waited for all of it.
     * Launching puts the graph on a stream. All four are NULL where there are no graphs.
     */
    MUST_CHECK enum status (*capture_begin)(void *set, void *stream);
    MUST_CHECK enum status (*capture_end)(void *set, void *stream, void **graph);
    MUST_CHECK enum status (*graph_launch)(void *set, void *graph, void *stream);
    void (*graph_destroy)(void *set, void *graph); /* takes NULL */
};

/* Where a rank works: on a stream of its device. */
struct device_place {
    const struct device_ops *ops;
    void *set;
    int rank;
    int device; /* number of the rank's */
    void *stream;
};

/* The devices of that type. Errors: ST_UNSUPPORTED, logged with what is missing ("cuda": the
 * module, the driver); ST_INPUT for an unknown type. */
MUST_CHECK enum status device_find(const char *type, const struct device_ops **out);

/* The CPU: one device for each rank, whose streams run at once in the calling thread. */
extern const struct device_ops device_cpu;

#endif
