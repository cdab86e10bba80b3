#include "comm/auto.h"

#include "base/log.h"

enum status auto_program(const struct plan *plan, const struct program_spec *spec,
                         const struct cost_model *m, struct program **out)
{
    struct program_spec chosen = *spec;

    /* In memory the default suits the caches, of which the model knows nothing. */
    if (m->topo != NULL && spec->chunk_bytes == 0 && plan->chunk_bytes == 0) {
        TRY(cost_best_chunk(plan, spec, m, &chosen.chunk_bytes));
    }
    return program_create(plan, &chosen, out);
}

static enum status predict(const struct plan *plan, const struct program_spec *spec,
                           const struct cost_model *m, double *time_s)
{
    struct program *p;
    enum status st;

    TRY(auto_program(plan, spec, m, &p));
    st = cost_predict(p, m, time_s);
    program_destroy(p);
    return st;
}

/* Take `plan` if it is better than what is there; owns it in any case. */
static void compare(struct auto_choice *best, struct plan *plan, double time_s)
{
    if (best->plan == NULL || time_s < best->time_s) {
        if (best->plan != NULL) {
            /* Backend names live in the registry, plans do not. */
            best->second = planner_find(best->plan->backend)->name;
            best->second_s = best->time_s;
            plan_destroy(best->plan);
        }
        best->plan = plan;
        best->time_s = time_s;
        return;
    }
    if (best->second == NULL || time_s < best->second_s) {
        best->second = planner_find(plan->backend)->name;
        best->second_s = time_s;
    }
    plan_destroy(plan);
}

enum status auto_choose(const struct topo *t, const struct plan_request *q,
                        const struct program_spec *spec, const struct cost_model *m,
                        struct auto_choice *out)
{
    struct plan_request trial = *q;
    struct auto_choice best = {0};

    trial.quiet = true;
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        struct plan *plan;
        double time_s = 0;
        enum status st = plan_create(planner_at(i)->name, t, &trial, &plan);
        if (st == ST_INPUT) {
            continue;
        }
        if (st == ST_OK) {
            st = predict(plan, spec, m, &time_s);
            if (st != ST_OK) {
                plan_destroy(plan);
            }
        }
        if (st != ST_OK) {
            plan_destroy(best.plan);
            return st;
        }
        compare(&best, plan, time_s);
    }
    if (best.plan == NULL) {
        return log_fail(ST_INPUT, "no backend fits topology %s for %s over %d ranks, add links",
                        t->name, collective_name(q->collective), q->n_ranks);
    }
    *out = best;
    return ST_OK;
}
