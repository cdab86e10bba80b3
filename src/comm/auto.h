#ifndef COMM_AUTO_H
#define COMM_AUTO_H

#include "base/status.h"
#include "comm/cost.h"

/* What was picked for a message, and why. */
struct auto_choice {
    struct plan *plan;
    double time_s;      /* predicted */
    const char *second; /* the next best backend, NULL if there is none */
    double second_s;
};

/*
 * Make the plan with the least predicted time for a message of spec->n elements among all backends
 * that fit the topology; of equal ones the first in the registry. The choice depends on nothing
 * that is measured, so it is the same on every rank and in every run. Errors: ST_INPUT if none
 * fits; ST_NOMEM.
 */
MUST_CHECK enum status auto_choose(const struct topo *t, const struct plan_request *q,
                                   const struct program_spec *spec, const struct cost_model *m,
                                   struct auto_choice *out);

/* The program of a plan on a message: with the chunks that the cost model prefers where neither
 * spec nor plan say otherwise. Errors: ST_NOMEM. */
MUST_CHECK enum status auto_program(const struct plan *plan, const struct program_spec *spec,
                                    const struct cost_model *m, struct program **out);

#endif
