#ifndef COMM_NCCL_NCCL_LANES_H
#define COMM_NCCL_NCCL_LANES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "comm/nccl/nccl.h"
#include "device/device.h"

/*
 * NCCL's communicators of this process's ranks, and for each rank a stream of its own on which
 * their collectives run, one after the other. Whoever starts one starts it for all ranks at once,
 * so that every device sees the same order, without which collectives would wait for each other
 * forever. For the same reason communicators of the same devices share their lanes.
 *
 * A thread watches what is under way: what NCCL reports, and what is not done within the time-out
 * after all ranks have come to it, aborts all communicators, for nothing else would end it.
 *
 * Threads: any.
 */
struct nccl_lanes;

struct nccl_lanes_args {
    const char *library;               /* as in nccl_load */
    const char *log_path;              /* as in nccl_args */
    const struct device_place *places; /* [n_ranks] of one set, which must outlive the lanes */
    int n_ranks;
    double timeout_s;
};

/* Held by the caller. Errors: as nccl_load and nccl_create; ST_NOMEM; the device's. */
MUST_CHECK enum status nccl_lanes_create(const struct nccl_lanes_args *args,
                                         struct nccl_lanes **out);

/* Hold it once more; let go of it, which waits for what is under way and ends it if nobody else
 * holds it. Releasing takes NULL. */
struct nccl_lanes *nccl_lanes_hold(struct nccl_lanes *l);
void nccl_lanes_release(struct nccl_lanes *l);

const char *nccl_lanes_version(const struct nccl_lanes *l);

/* Whom to tell, from the thread that watches, that everything has been aborted. */
struct nccl_watcher {
    void (*aborted)(void *ctx, enum status why);
    void *ctx;
    struct nccl_watcher *next; /* of the lanes */
};

void nccl_lanes_watch(struct nccl_lanes *l, struct nccl_watcher *w);
void nccl_lanes_unwatch(struct nccl_lanes *l, struct nccl_watcher *w); /* it is not told any more */

/* A collective and where it goes; touched by the lanes only while it is under way. */
struct nccl_run {
    struct nccl_call call;   /* the streams are the lanes' */
    const char *label;       /* for messages: "bucket 3 (conv1)" */
    void *const *posted;     /* [n_ranks] events: rank r's part starts after that place, */
    void *const *begun;      /* [n_ranks] records this, unless NULL, */
    void *const *done;       /* [n_ranks] and this when it is over */
    struct nccl_run *behind; /* of the lanes */
};

/* Put it on the lanes; `run` must stay, and not be started again, until its events are done or all
 * is aborted. Errors: ST_PEER after an abort; ST_INTERNAL with NCCL's reason, and the device's,
 * upon which all is aborted. */
MUST_CHECK enum status nccl_lanes_start(struct nccl_lanes *l, struct nccl_run *run);

/* Until nothing is under way, on the streams either. */
void nccl_lanes_drain(struct nccl_lanes *l);

/* ST_PEER after an abort: what streams have waited for may be no result. */
MUST_CHECK enum status nccl_lanes_check(struct nccl_lanes *l);

#endif
