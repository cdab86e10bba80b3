#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "comm/plan.h"
#include "config/config.h"
#include "device/device.h"
#include "topo/topo.h"

/*
 * A communicator over in-process ranks: sums buckets of the ranks' gradient arenas, in place, by
 * the plan of the configured backend, or reduces or broadcasts them. A bucket is a contiguous
 * range, the same in every arena.
 *
 * Where the arenas are memory of devices, a post stands for what has been put on the rank's stream
 * until then, and a wait holds back what is put there after it; the host waits only for the other
 * ranks to post.
 *
 * Threads: rank r is driven by one thread at a time (post, wait); different ranks run concurrently.
 */
struct comm;

struct comm_bucket {
    size_t offset, n;  /* elements of the arena */
    const char *label; /* the layers in it, for messages; must outlive the communicator */
};

enum comm_kind {
    COMM_ALLREDUCE,
    COMM_REDUCE,    /* the root ends with the sum, the others with what they had */
    COMM_BROADCAST, /* all end with what the root had */
};

/*
 * Takes the sums of an allreduce instead of the arenas: elements [first, first + n) of the arena,
 * (parts[0] + parts[1]) + ..., each once a step, when all ranks have posted the bucket. Several
 * threads may be in it with different ranges. All ranges of a bucket are through once every rank
 * has waited for it.
 */
struct comm_sink {
    void (*take)(void *ctx, size_t first, size_t n, const float *const *parts, int n_parts);
    void *ctx; /* take NULL: there is no sink */
};

struct comm_args {
    const struct config_comm *cfg; /* no text of it is NULL, as config_init leaves it */
    const struct topo *topo;       /* n_devices = n_ranks; must outlive the communicator */
    int n_ranks;
    float *const *arenas;              /* [n_ranks], must outlive the communicator */
    const struct device_place *places; /* [n_ranks] of one set, where the arenas are; NULL: the
                                          host. Must outlive the communicator */
    const struct comm_bucket *buckets;
    size_t n_buckets;
    enum comm_kind kind;
    int root;   /* of a reduce or broadcast */
    bool timed; /* comm_last_times works */
    struct comm
        *beside;           /* another one of the same ranks and devices, at work at the same time;
                              NULL: none. With NCCL, and only then, it must be given if there is one */
    struct comm_sink sink; /* allreduce in memory only; what is left in the arenas means nothing */
};

/* By clock_now_s(): of this rank's post, of the first byte moved, of the end; on devices also of
 * when its stream came to the wait, which is over then or at the end. */
struct comm_times {
    double posted_s, started_s, done_s, waited_s;
};

/* What comm_create says of the config and the topology, before there are arenas and buckets, whose
 * making may take long. Errors: ST_INPUT, ST_NOMEM. */
MUST_CHECK enum status comm_try(const struct comm_args *args);

/*
 * Plan, build and check the programs for all buckets and start the workers. Everything that can
 * fail for lack of memory or because of the input fails here; a step allocates nothing. Errors:
 * ST_INPUT (unknown backend, unfit topology), ST_NOMEM.
 */
MUST_CHECK enum status comm_create(const struct comm_args *args, struct comm **out);

/* Stop the workers and release everything; takes NULL. No rank may be inside a call. */
void comm_destroy(struct comm *c);

/*
 * Mark bucket `b` of `rank` as written: its gradients may be read and overwritten by the sum from
 * now on.
 *
 * Returns at once; the bytes move as soon as every rank they depend on has posted too. Call once
 * per rank, bucket and step, from the thread that drives `rank`. The order of buckets may differ
 * between ranks. Errors: ST_PEER, ST_TIMEOUT if the communicator has already failed; it can then
 * only be destroyed.
 */
MUST_CHECK enum status comm_post(struct comm *c, int rank, size_t b);

/*
 * Wait until bucket `b` of `rank` holds the sum over all ranks; helps to move bytes meanwhile.
 * After it the bucket may be posted again. Errors: ST_TIMEOUT after cfg->timeout_s, with the
 * collective, the bucket and the missing rank logged; ST_PEER when another rank aborted. The
 * communicator can then only be destroyed.
 */
MUST_CHECK enum status comm_wait(struct comm *c, int rank, size_t b);

/* Would comm_wait for bucket `b` of `rank` return at once? Does not block. */
bool comm_done(const struct comm *c, int rank, size_t b);

/*
 * Where arenas are memory of devices, streams may go on after a collective that was given up, with
 * no sum. So whoever has waited for a stream asks here before it believes what it finds. Errors:
 * ST_PEER, the cause has been logged.
 */
MUST_CHECK enum status comm_check(const struct comm *c);

/* Rank `rank` cannot go on: every other rank's post and wait returns ST_PEER from now on. That is
 * logged, except for why = ST_PEER: then it has been elsewhere. False if the communicator had
 * failed before, the cause of which has been logged; nothing changes then. */
bool comm_abort(struct comm *c, int rank, enum status why);

/* When `rank`'s last use of bucket `b` was posted, began and ended. Of arenas in the host's memory;
 * valid between comm_wait and the next post. */
struct comm_times comm_last_times(const struct comm *c, int rank, size_t b);

/*
 * The same of use number `use`, from 0, of arenas in memory of devices, which get there later than
 * the host: false until they have come past it, which the call does not wait for. Each use can be
 * asked for until its bucket has been posted three times more.
 */
bool comm_device_times(const struct comm *c, int rank, size_t b, size_t use,
                       struct comm_times *out);

/* The size in which bucket `b` travels. */
size_t comm_bytes(const struct comm *c, size_t b);

/* The plan used for bucket `b`; owned by the communicator. */
const struct plan *comm_plan(const struct comm *c, size_t b);

/* What runs, in a few lines: backend per size class, trees, depth, chunk, bound and bottleneck. */
void comm_describe(const struct comm *c, FILE *out);

/*
 * Cut [0, n) into buckets by cfg->buckets: `cut` are the ends of the layers' ranges in arena order
 * (ascending, the last one is n). Writes at most `n_cuts` buckets (offset and n only) and returns
 * their number. Never splits a layer. With buckets = merge and no bucket_layers: one a layer, to
 * measure.
 */
size_t comm_make_buckets(const struct config_comm *cfg, const size_t *cuts, size_t n_cuts,
                         struct comm_bucket *out);

#endif
