#ifndef COMM_ENGINE_JOB_H
#define COMM_ENGINE_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/engine/engine.h"
#include "comm/engine/ready.h"

/* One operation on one chunk. */
struct job_item {
    size_t tree, chunk, op;
};

/* A rank's part in a job. Runs are counted, so that a number tells which one is meant. */
struct job_rank {
    _Alignas(64) atomic_size_t left; /* instances that touch its buffers and have not run */
    atomic_uint posted, done;        /* runs */
    atomic_llong posted_ns, started_ns, done_ns;
};

/* A program bound to buffers, with everything that changes while it runs. */
struct job {
    const struct program *p;
    const char *what, *label;
    uintptr_t *bases;        /* [n_refs] */
    void **tmp;              /* [n_nodes] */
    atomic_int *waits;       /* [n_instances] dependencies that are still open */
    struct job_rank *ranks;  /* [n_ranks] */
    struct job_item *starts; /* first operations that wait for a node, chunk unused */
    size_t *first_start;     /* [n_nodes + 1] */
    bool has_relays;
    bool whole; /* run in one piece by the last rank that posts */
    struct ready ready;
    _Alignas(64) atomic_int arrived; /* ranks that have posted this run */
};

MUST_CHECK enum status job_init(struct job *j, const struct engine_job *args, bool whole);
void job_fini(struct job *j); /* takes zeroed and half-built jobs */

/* Items as the words of the ready list. */
uint64_t job_pack(struct job_item i);
struct job_item job_unpack(uint64_t word);

/* One dependency of the instance is met; pushes it if it was the last one, and says so. */
bool job_release(struct job *j, struct job_item i);

/* `node` has given its buffers; returns how many operations became ready. */
size_t job_start(struct job *j, int node);

#endif
