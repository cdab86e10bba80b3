#include <sys/prctl.h>

#include "base/clock.h"
#include "comm/engine/engine_state.h"

/*
 * The bytes of a message are moved at once when its operation is ready, which nobody can see before
 * the operation counts as done; and that it does when the fabric says that they have arrived. What
 * follows is ready from that time on, not from when this thread woke up, so that late wakings do
 * not add up.
 */
struct emulation {
    struct engine *e;
    size_t in_flight; /* bytes */
    double now_s;     /* of the event that is being served */
};

static double seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

/* May `bytes` more be in flight? One message always may. */
static bool has_credit(const struct emulation *m, size_t bytes)
{
    size_t credit = m->e->opt.fabric->credit_bytes;

    return credit == 0 || m->in_flight == 0 || m->in_flight + bytes <= credit;
}

static void send(struct emulation *m, size_t job, struct job_item i)
{
    struct engine *e = m->e;
    struct job *j = &e->jobs[job];
    atomic_llong *ready_ns = &j->ready_ns[job_instance(j, i)];
    double ready_s = seconds(atomic_load_explicit(ready_ns, memory_order_relaxed));
    struct agenda_entry a = {.job = job, .tree = i.tree, .chunk = i.chunk, .op = i.op};
    size_t n;

    atomic_store_explicit(ready_ns, 0, memory_order_relaxed);
    if (e->opt.fabric->credit_bytes != 0 && ready_s < m->now_s) {
        ready_s = m->now_s; /* it had to wait for credit */
    }
    (void)program_chunk(j->p, i.tree, i.chunk, &n);
    a.bytes = n * dtype_bytes(j->p->spec.dtype);
    engine_run_begin(j, i, clock_now_ns());
    program_run(j->p, j->bases, i.tree, i.chunk, i.op);
    a.when_s = fabric_send(e->fabric, j->p->ops[j->p->trees[i.tree].op + i.op].path,
                           (double)a.bytes, ready_s);
    m->in_flight += a.bytes;
    agenda_add(&e->arrivals, a);
}

/* Send one ready message in the order of service; false if there is none or no credit for one. */
static bool send_one(struct emulation *m)
{
    struct engine *e = m->e;

    for (size_t k = 0; k < e->n_jobs && has_credit(m, 1); k++) {
        size_t job = e->opt.last_first ? e->n_jobs - 1 - k : k;
        uint64_t word;
        if (ready_pop(&e->jobs[job].ready, &word)) {
            send(m, job, job_unpack(word));
            return true;
        }
    }
    return false;
}

static bool arrive_one(struct emulation *m)
{
    struct engine *e = m->e;
    const struct agenda_entry *first = agenda_first(&e->arrivals);
    struct agenda_entry a;

    if (first == NULL || first->when_s > clock_now_s()) {
        return false;
    }
    a = agenda_take(&e->arrivals);
    m->now_s = a.when_s;
    m->in_flight -= a.bytes;
    engine_run_conclude(e, &e->jobs[a.job], (struct job_item){a.tree, a.chunk, a.op},
                        (int64_t)(a.when_s * 1e9));
    return true;
}

void engine_emulate(struct engine *e, struct gate *gate)
{
    struct emulation m = {.e = e};

    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    while (!atomic_load(&e->stop)) {
        const struct agenda_entry *first;
        int64_t ns = INT64_C(1000000000);
        unsigned ticket;
        if (send_one(&m) || arrive_one(&m)) {
            continue;
        }
        m.now_s = clock_now_s();
        first = agenda_first(&e->arrivals);
        if (first != NULL && first->when_s - m.now_s < 1) {
            ns = (int64_t)((first->when_s - m.now_s) * 1e9);
        }
        atomic_fetch_add(&e->sleepers, 1);
        ticket = gate_prepare(gate);
        if ((engine_run_has(e) && has_credit(&m, 1)) || atomic_load(&e->stop)) {
            gate_cancel(gate);
        } else {
            gate_sleep(gate, ticket, ns);
        }
        atomic_fetch_sub(&e->sleepers, 1);
    }
}
