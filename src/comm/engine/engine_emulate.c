#include <sys/prctl.h>

#include "base/clock.h"
#include "comm/engine/engine_state.h"

enum {
    NAP_NS = 1000000
};

/*
 * The bytes of a message are moved at once when its operation is ready, which nobody can see before
 * the operation counts as done; and that it does when the fabric says that they have arrived. What
 * follows is ready from that time on, not from when this thread woke up, so that late wakings do
 * not add up.
 */

static int64_t ps_of(const struct engine *e, int64_t ns)
{
    return (ns - e->origin_ns) * 1000;
}

static int64_t ns_of(const struct engine *e, int64_t ps)
{
    return e->origin_ns + ps / 1000;
}

static void handle(struct engine *e, const struct fabric_event *event)
{
    const struct fabric_message *m = &event->message;
    struct job *j = &e->jobs[m->job];
    struct job_item i = {m->tree, m->chunk, m->op};
    int64_t when_ns = ns_of(e, event->when_ps);

    if (event->arrived) {
        engine_run_conclude(e, j, i, when_ns);
    } else if (i.chunk + 1 < j->p->trees[i.tree].n_chunks) {
        i.chunk++;
        (void)job_release(j, i, when_ns);
    }
}

static void post(struct engine *e, size_t turn, size_t job, struct job_item i)
{
    struct job *j = &e->jobs[job];
    atomic_llong *ready_ns = &j->ready_ns[job_instance(j, i)];
    int64_t when_ns = atomic_load_explicit(ready_ns, memory_order_relaxed);
    struct fabric_message m = {
        .program = j->p, .job = job, .turn = turn, .tree = i.tree, .chunk = i.chunk, .op = i.op};

    atomic_store_explicit(ready_ns, 0, memory_order_relaxed);
    fabric_post(e->fabric, &m, ps_of(e, when_ns));
    engine_run_begin(j, i, when_ns);
    program_run(j->p, j->bases, i.tree, i.chunk, i.op);
}

/* Hand one ready operation to the fabric; false if there is none. */
static bool post_one(struct engine *e)
{
    for (size_t turn = 0; turn < e->n_jobs; turn++) {
        size_t job = e->opt.last_first ? e->n_jobs - 1 - turn : turn;
        uint64_t word;
        if (ready_pop(&e->jobs[job].ready, &word)) {
            post(e, turn, job, job_unpack(word));
            return true;
        }
    }
    return false;
}

static bool handle_one(struct engine *e)
{
    struct fabric_event event;

    if (!fabric_next(e->fabric, ps_of(e, clock_now_ns()), &event)) {
        return false;
    }
    handle(e, &event);
    return true;
}

/*
 * Until the next event, or until something is posted. As long as every rank computes nobody can
 * tell whether bytes arrive when the fabric says or a little later, but each waking takes time from
 * a rank: events and posts are then left to gather for a while.
 */
static void rest(struct engine *e, struct gate *gate)
{
    int64_t ns = INT64_C(1000000000), when_ps;
    unsigned ticket;
    bool nap;

    if (fabric_when(e->fabric, &when_ps) && ns_of(e, when_ps) - clock_now_ns() < ns) {
        ns = ns_of(e, when_ps) - clock_now_ns();
    }
    nap = ns < NAP_NS && atomic_load(&e->waiting) == 0;
    atomic_store(&e->napping, nap);
    atomic_fetch_add(&e->sleepers, 1);
    ticket = gate_prepare(gate);
    if (atomic_load(&e->stop) || (nap ? atomic_load(&e->waiting) > 0 : engine_run_has(e))) {
        gate_cancel(gate);
    } else {
        gate_sleep(gate, ticket, nap ? NAP_NS : ns);
    }
    atomic_fetch_sub(&e->sleepers, 1);
    atomic_store(&e->napping, false);
}

void engine_emulate(struct engine *e, struct gate *gate)
{
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    while (!atomic_load(&e->stop)) {
        if (!post_one(e) && atomic_load(&e->starting) == 0 && !handle_one(e)) {
            rest(e, gate);
        }
    }
}
