#ifndef COMM_ENGINE_JOB_H
#define COMM_ENGINE_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/engine/engine.h"
#include "comm/engine/flat.h"
#include "comm/engine/ready.h"

/* One operation on one chunk. */
struct job_item {
    size_t tree, chunk, op;
};

/* A rank's part in a job. Runs are counted, so that a number tells which one is meant. */
struct job_rank {
    _Alignas(128) atomic_uint_least64_t posted; /* runs; written by the rank only */
    atomic_llong posted_ns;
    uint64_t waited; /* the latest run that the rank has seen done; the rank's own */
    _Alignas(64) atomic_uint_least64_t done; /* runs; not used by flat jobs */
    atomic_size_t left;                      /* instances that touch its buffers and have not run */
    atomic_llong started_ns, done_ns;
};

/* How the operations of a job are handed out. */
enum job_kind {
    JOB_FLAT,  /* each waits for all ranks only */
    JOB_GRAPH, /* each becomes ready when its dependencies are met */
    JOB_WHOLE, /* few and small: the last rank that posts runs them all */
};

/* The only operation of a rank's share of a flat job. */
struct job_share {
    _Alignas(64) struct program_call call;
};

/* A program bound to buffers, with everything that changes while it runs. */
struct job {
    const struct program *p;
    enum job_kind kind;
    const char *what, *label;
    uintptr_t *bases;       /* [n_refs] */
    void **tmp;             /* [n_nodes] */
    struct job_rank *ranks; /* [n_ranks] */
    struct flat flat;
    struct job_share *shares; /* [n_ranks], where the share is one operation */
    /* graph */
    atomic_int *waits;       /* [n_instances] dependencies that are still open */
    struct job_item *starts; /* first operations that wait for a node, chunk unused */
    size_t *first_start;     /* [n_nodes + 1] */
    bool has_relays;
    bool quick; /* done sooner than another thread wakes up */
    struct ready ready;
    atomic_llong
        *ready_ns; /* [n_instances] when the dependencies met so far were met; NULL: unused */
    _Alignas(64) atomic_int arrived; /* graph with relays, whole: ranks that have posted this run */
};

enum job_choice {
    JOB_ANY,      /* the kind that fits best */
    JOB_NO_WHOLE, /* small jobs are handed out too */
    JOB_TIMED,    /* a graph that knows when operations become ready */
};

/* `fenced`: see flat_init. */
MUST_CHECK enum status job_init(struct job *j, const struct engine_job *args,
                                enum job_choice choice, bool fenced);
void job_fini(struct job *j); /* takes zeroed and half-built jobs */

/* Number `instance` of a program in which every tree has one operation. */
struct job_item job_flat_item(const struct job *j, size_t instance);

/* Items as the words of the ready list. */
uint64_t job_pack(struct job_item i);
struct job_item job_unpack(uint64_t word);

/* The number of an operation on a chunk. */
size_t job_instance(const struct job *j, struct job_item i);

/* One dependency of the operation was met at `now_ns` (used if timed); pushes it if it was the last
 * one, and says so. */
bool job_release(struct job *j, struct job_item i, int64_t now_ns);

/* `node` has given its buffers; returns how many operations became ready. */
size_t job_start(struct job *j, int node, int64_t now_ns);

#endif
