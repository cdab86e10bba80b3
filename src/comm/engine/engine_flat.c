#include "comm/engine/engine_state.h"

enum {
    MOMENT = 64, /* looks for the others' posts before a rank goes on: they often come together */
    EAGER = 256  /* looks for the end in which a rank does nothing else; about a microsecond */
};

/* Of ranks that publish something at once, and then look for what the others have, one must see all
 * of it: the last to add here acquires what those before it have released. Nobody needs that as
 * long as nobody sleeps. */
static void settle(struct engine *e)
{
    (void)atomic_fetch_add(&e->sleepers, 0);
}

/* The item has run. */
static void finish(struct engine *e, struct job *j, uint64_t run, int group)
{
    if (!flat_finish(&j->flat, run, group, engine_run_now(e)) || atomic_load(&e->sleepers) == 0) {
        return;
    }
    settle(e);
    if (flat_done(&j->flat, run)) {
        engine_run_wake_all(e);
    }
}

bool engine_flat_take(struct engine *e, struct job *j, int rank, bool steal)
{
    uint64_t run = flat_posted_by_all(&j->flat);
    struct job_item i;
    size_t instance;
    int group;

    if (!flat_take(&j->flat, run, rank, steal, &instance, &group)) {
        return false;
    }
    i = job_flat_item(j, instance);
    program_run(j->p, j->bases, i.tree, i.chunk, i.op);
    finish(e, j, run, group);
    return true;
}

void engine_flat_own(struct engine *e, int rank)
{
    for (size_t k = 0; k < e->n_jobs; k++) {
        struct job *j = &e->jobs[e->opt.last_first ? e->n_jobs - 1 - k : k];
        while (j->kind == JOB_FLAT && engine_flat_take(e, j, rank, false)) {
        }
    }
}

/* If all ranks have posted the run and `rank` has kept its item for itself run that. */
static bool run_kept(struct engine *e, struct job *j, int rank, uint64_t run)
{
    if (flat_posted_by_all(&j->flat) < run || !flat_take_kept(&j->flat, rank)) {
        return false;
    }
    program_call(&j->shares[rank].call);
    finish(e, j, run, rank);
    return true;
}

bool engine_flat_post(struct engine *e, struct job *j, int rank)
{
    uint64_t run = atomic_load_explicit(&j->ranks[rank].posted, memory_order_relaxed);

    if (flat_post(&j->flat, run, rank, e->direct)) {
        for (int turn = 0; turn < MOMENT; turn++) {
            if (run_kept(e, j, rank, run)) {
                break;
            }
        }
        flat_let(&j->flat, rank);
    }
    if (flat_posted_by_all(&j->flat) < run && atomic_load(&e->sleepers) > 0) {
        settle(e);
    }
    return flat_posted_by_all(&j->flat) == run;
}

void engine_flat_wait(struct engine *e, struct job *j, int rank)
{
    uint64_t run = atomic_load_explicit(&j->ranks[rank].posted, memory_order_relaxed);

    flat_keep(&j->flat, run, rank);
    for (int turn = 0; turn < EAGER && !flat_done(&j->flat, run); turn++) {
        if (run_kept(e, j, rank, run) || engine_flat_take(e, j, rank, false)) {
            turn = 0;
        }
    }
    flat_let(&j->flat, rank);
}
