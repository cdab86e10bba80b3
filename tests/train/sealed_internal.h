#ifndef TESTS_TRAIN_SEALED_INTERNAL_H
#define TESTS_TRAIN_SEALED_INTERNAL_H

/* What the files of the sealed devices share. */

#include <pthread.h>

#include "base/rng.h"
#include "sealed.h"

enum {
    MAX_STREAMS = 4096
};
#define SEALED_BYTES ((size_t)1 << 32)

enum kind {
    COPY,
    CLEAR,
    STORE,
    VOTE,
    CONVERT,
    FINITE,
    FOLD,
    SGD,
    RECORD,
    WAIT,
    CALL
};

struct event {
    size_t issued, reached; /* records, counted */
    double reached_s;
    size_t n_uses;               /* queued records and waits */
    const struct stream *on;     /* where it was recorded last, */
    size_t n_losses;             /* and how many passes had been put there */
    const struct graph *capture; /* its last record went there, if it is not NULL */
};

struct call {
    enum status (*fn)(void *op, const struct op_io *io);
    void *op;
    struct op_io io;
    bool is_loss;
    /* or a sum of gradients */
    const struct value_desc *v;
    const void *y, *a, *b;
    void *g;
    void *lib;
    bool again; /* launched as a part of a graph */
};

struct work {
    enum kind kind;
    struct work *next;
    union {
        struct {
            void *dst;
            const void *src;
            size_t bytes;
        } copy;
        struct device_store store;
        struct device_vote vote;
        struct device_convert convert;
        struct device_finite finite;
        struct device_fold fold;
        struct device_sgd sgd;
        struct {
            struct event *event;
            size_t number;
        } place;
        struct call call;
    } u;
};

struct stream {
    struct work *first, *last;
    size_t n_queued, n_losses;
    int slot;
    struct graph *capture; /* where what is put on it goes; NULL: into the queue */
};

/* Work of a capture, in the order in which it was put there, and what it was put on. */
struct graph {
    struct stream *origin;
    struct taken {
        struct work work;
        struct stream *on;
    } * items;
    size_t n;
    /* Of the capture, and the graph's own. */
    struct {
        void *taken, *own;
    } * streams, *events;
    size_t n_streams, n_events;
    struct event start;
};

struct set {
    struct stream *streams[MAX_STREAMS];
    size_t live; /* allocations */
};

/* One world for all sets. */
struct sealed_world {
    pthread_mutex_t lock;
    char *sealed, *open; /* the same memory, twice: for the program, and for us */
    size_t used;
    struct rng rng;
    uint64_t drawn;
    size_t align;
    size_t faults, stops, near, waits, drop;
    bool bake, sluggish;
};
extern struct sealed_world sealed_world;

/* A rule was broken. */
void sealed_fault(const char *what);

const struct nn_ops *sealed_host_ops(void);

/* sealed_run.c: put work on a stream, where it waits. */
void sealed_put(struct set *set, struct stream *s, const struct work *w);

/* sealed.c */
struct stream *sealed_stream(struct set *set);
void sealed_stream_end(struct set *set, struct stream *s);

/* sealed_graph.c: with the lock held, take work that belongs to a capture; false if it does not. */
bool sealed_take(struct stream *s, const struct work *w);
void sealed_add_graphs(struct device_ops *table);

/* Run something of the set that can be run, with the lock held; false if nothing can. */
bool sealed_run_any(struct set *set);

#endif
