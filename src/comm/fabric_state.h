#ifndef COMM_FABRIC_STATE_H
#define COMM_FABRIC_STATE_H

#include "comm/agenda.h"
#include "comm/fabric.h"

/* The inside of the fabric, shared by the files that make it up. */
enum {
    FABRIC_NONE = -1
};

/* A message on its way. */
struct fabric_slot {
    struct fabric_message m;
    const struct program_op *op;
    size_t bytes;    /* of all that go as one */
    uint64_t number; /* in the order in which they became ready */
    int64_t tail_ps; /* when the last byte is through the latest link */
    int hop;         /* the link of its path that it waits for */
    int child, next; /* in the heap of a link; the next unused slot */
    int with;        /* a message that goes along */
};

struct fabric_link {
    int64_t free_ps;
    int first;   /* of those that wait, the root of a heap */
    bool listed; /* in `changed` */
};

struct fabric {
    struct fabric_model model;
    int64_t now_ps;
    struct fabric_link *links;
    int *changed; /* links where somebody may have to be served */
    int n_changed;
    bool look; /* has anything changed since that was looked at? */
    struct fabric_slot *slots;
    int unused;
    uint64_t n_begun;
    size_t in_flight; /* bytes */
    struct agenda agenda;
};

/* --- fabric_wait.c: who waits for a link --- */

/* Is `a` to be served before `b`? */
bool fabric_before(const struct fabric_slot *a, const struct fabric_slot *b);

/* Somebody may have to be served at the link. */
void fabric_look_at(struct fabric *f, int link);

/* The message waits for the next link of its path. */
void fabric_wait(struct fabric *f, int slot);

/* Add a slot to a heap of slots, which may be empty; take out the first of one that is not. */
void fabric_push(struct fabric *f, int *heap, int slot);
int fabric_pop(struct fabric *f, int *heap);

#endif
