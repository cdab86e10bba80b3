#ifndef COMM_CUDA_ITINERARY_H
#define COMM_CUDA_ITINERARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "comm/program.h"

/*
 * A program as commands for streams: which operation of which chunk runs on which stream, and the
 * events that order streams. Pure data, made once; issuing it is a loop.
 *
 * A tree has a stream for each of its hops, and chunks follow each other on it without waiting for
 * the whole way. Where two trees cross the same hop at the same distance from their leaves, they
 * share the stream, so that their chunks alternate on the link instead of delaying each other
 * (Blink, MLSys 2020, section 4). Commands are issued chunk by chunk, tree by tree.
 *
 * An operation waits for the events of those it depends on, unless the order of streams and earlier
 * waits imply it; so no wait can be left out. Stream 0 forks into all others and is joined by all.
 */
enum command_kind {
    COMMAND_RECORD, /* event, on stream */
    COMMAND_WAIT,   /* stream, for event */
    COMMAND_COPY,   /* ref `src` to ref `dst` */
    COMMAND_STAGE,  /* ref `src` to the stage of the stream, in slot `slot` */
    COMMAND_FOLD,   /* all sources of the operation, from the stage where their bit is in `staged`,
                       to ref `dst` */
};

struct command {
    enum command_kind kind;
    int stream;
    int event;                 /* record, wait */
    size_t tree, chunk, op;    /* the others: op within the tree */
    size_t src, dst;           /* refs of the program */
    int slot;                  /* stage */
    unsigned long long staged; /* fold: by source */
};

struct itinerary_stream {
    int rank;            /* on whose device it is */
    int from, to, level; /* the hop: nodes, and operations between it and the leaves */
    int n_slots;         /* of its stage */
    size_t stage_n;      /* elements of a slot */
};

struct itinerary {
    struct itinerary_stream *streams;
    int n_streams;
    int *event_stream; /* [n_events] where an event is recorded */
    int n_events;
    struct command *commands;
    size_t n_commands;
};

/* May work on the device of `rank` touch the memory of `node`? */
typedef bool itinerary_reaches(void *ctx, int rank, int node);

/* Errors: ST_NOMEM; ST_UNSUPPORTED (an operation of more sources than a fold takes). */
MUST_CHECK enum status itinerary_create(const struct program *p, itinerary_reaches *reaches,
                                        void *ctx, struct itinerary **out);
void itinerary_destroy(struct itinerary *s); /* takes NULL */

/* Are they for the same hop, on the same device? One stream can then do for both. */
bool itinerary_same_hop(const struct itinerary_stream *a, const struct itinerary_stream *b);

#endif
