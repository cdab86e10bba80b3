#ifndef COMM_ENGINE_ENGINE_STATE_H
#define COMM_ENGINE_ENGINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/engine/engine.h"
#include "comm/engine/gate.h"
#include "comm/engine/job.h"
#include "comm/fabric.h"

/* The inside of the host engine, shared by the files that make it up. */
struct engine_worker {
    struct engine *engine;
    int index;
};

struct engine {
    struct engine_options opt;
    struct job *jobs;
    size_t n_jobs;
    struct gate *gates; /* [n_ranks + n_workers] */
    pthread_t *threads;
    struct engine_worker *workers;
    int n_started;
    int n_cores;
    bool crowded; /* more threads than cores */
    bool direct;  /* every rank has a core: it runs its share itself, and stores without fences */
    bool yields;  /* waiting ranks leave the core to others, before they sleep */
    bool timed;
    int64_t patience_ns; /* of waiting before a rank sleeps */
    int64_t timeout_ns;
    struct fabric *fabric; /* NULL: the speed of memory */
    atomic_int starting;   /* ranks that are making operations ready for it, all at one time */
    atomic_int waiting;    /* ranks that sleep until it has served them */
    atomic_bool napping;   /* its thread sleeps beyond the next event */
    int64_t origin_ns;     /* of its time */
    _Alignas(64) atomic_int sleepers;
    _Alignas(64) atomic_int failed; /* enum status */
    atomic_bool stop;
};

/* --- engine_run.c: who runs what --- */

/* 0 unless timed: reading the clock takes longer than adding a small message. */
int64_t engine_run_now(const struct engine *e);

/* Run one ready operation of the job, or of any job in the order of service, as `rank` (of a
 * worker: any). False if there is none. Without `steal` of a flat job only what is the rank's own
 * share. */
bool engine_run_one(struct engine *e, struct job *j, int rank, bool steal);
bool engine_run_any(struct engine *e, int rank);

/* Is anything ready? Sequentially consistent, for use before going to sleep. */
bool engine_run_has(const struct engine *e);

/* Has `rank`'s latest post of the job been served? */
bool engine_run_done(const struct job *j, int rank);

/* Start what the post of `rank`, just counted, allows; returns how many operations became ready. */
size_t engine_run_start(struct engine *e, struct job *j, int rank);

/* The operation has run, by `now_ns`: release what follows and serve the ranks. */
void engine_run_conclude(struct engine *e, struct job *j, struct job_item i, int64_t now_ns);

/* An operation of the ranks' own begins. */
void engine_run_begin(struct job *j, struct job_item i, int64_t now_ns);

/* Wake up to `n` sleepers: workers first, and no more than there are cores besides this one. */
void engine_run_wake(struct engine *e, size_t n);
void engine_run_wake_all(struct engine *e);

/* --- engine_flat.c: flat jobs --- */

/* Run a ready operation of `rank`'s share, or if `steal` of another's. False if there is none. */
bool engine_flat_take(struct engine *e, struct job *j, int rank, bool steal);

/* Run at once what is `rank`'s share of ready flat jobs. */
void engine_flat_own(struct engine *e, int rank);

/* Publish the post of `rank`, just counted. True if now all ranks have posted the run. Without
 * fences, and if a share is one operation, the rank may have run it already. */
bool engine_flat_post(struct engine *e, struct job *j, int rank);

/*
 * The first moments of waiting where there are no fences: look for nothing but the rank's own share
 * and the end. Pauses would cost more than a small message, and a look at what the others have
 * taken would make them wait for the line in which they take it.
 */
void engine_flat_wait(struct engine *e, struct job *j, int rank);

/* --- engine_emulate.c --- */

/* The only thread that moves bytes where there is a fabric; until e->stop. */
void engine_emulate(struct engine *e, struct gate *gate);

#endif
