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
    size_t n_uses;          /* queued records and waits */
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
    size_t n_queued;
    int slot;
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
    size_t faults, stops, waits, drop;
};
extern struct sealed_world sealed_world;

/* A rule was broken. */
void sealed_fault(const char *what);

const struct nn_ops *sealed_host_ops(void);

/* sealed_run.c: put work on a stream, where it waits. */
void sealed_put(struct set *set, struct stream *s, const struct work *w);

/* Run something of the set that can be run, with the lock held; false if nothing can. */
bool sealed_run_any(struct set *set);

#endif
