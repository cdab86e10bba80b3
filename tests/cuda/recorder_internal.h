#ifndef TESTS_CUDA_RECORDER_INTERNAL_H
#define TESTS_CUDA_RECORDER_INTERNAL_H

/* What the files of the recorder share. */

#include "recorder.h"

enum {
    MAX_BLOCKS = 4096,
    MAX_STREAMS = 16384,
    MAX_EVENTS = 4096,
    HOST = -1,
    NONE = -1
};

enum kind {
    WAIT,
    RECORD,
    COPY,
    FOLD,
    CALL
};

struct item {
    enum kind kind;
    int stream;
    int prev;  /* on the stream; NONE: the first */
    int bound; /* wait: the record; NONE: no effect */
    bool off;  /* left out */
    bool done;
    char *between; /* started, not finished: what it will write */
    union {
        struct {
            void *dst;
            const void *src;
            size_t bytes;
        } copy;
        struct device_fold fold;
        struct {
            void (*fn)(void *ctx, int a, int b);
            void *ctx;
            int a, b;
        } call;
    } u;
};

struct block {
    char *p;
    size_t bytes;
    int device;
};

struct stream {
    int rank, n, urgency;
    int *items, cap; /* of the recorder */
    int head;        /* while playing */
    uint32_t speed;
    bool live, captured;
};

struct event {
    int rank, record; /* its last one */
    bool live, in_graph;
};

/* A capture: a list of its own, whose waits are bound within it. */
struct graph {
    struct item *items;
    int n, cap, origin;
};

struct recorder {
    int n_ranks, device_of[RECORDER_MAX_RANKS];
    bool peers;
    struct block blocks[MAX_BLOCKS];
    int n_blocks;
    struct stream streams[MAX_STREAMS];
    int n_streams;
    struct event events[MAX_EVENTS];
    int n_events;
    struct item *items;
    int n, cap;
    struct graph *capture;
    int current; /* device of the calling thread */
    size_t faults;
};

static inline void fault(struct recorder *r, bool wrong)
{
    r->faults += wrong;
}

static inline int number(const void *handle)
{
    return (int)(uintptr_t)handle - 1;
}

/* recorder.c: write down a command, in the capture if its stream has joined one; returns its number
 * there. The second: not in a capture. */
int recorder_add(struct recorder *r, struct item it);
void recorder_append(struct recorder *r, const struct item *it);
int recorder_new_stream(struct recorder *r, int rank);

/* recorder_graph.c: mark in `before` item i and everything that it comes after; the captures. */
void recorder_mark_before(const struct item *items, int i, bool *before);
void recorder_add_graphs(struct device_ops *ops);

#endif
