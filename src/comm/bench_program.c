#include "comm/bench_program.h"

#include <string.h>

#include "comm/auto.h"
#include "comm/plan_json.h"

static enum status make_plan(const struct bench_spec *s, const struct program_spec *spec,
                             const struct cost_model *m, struct plan **out)
{
    struct plan_request q = {.collective = s->collective,
                             .n_ranks = s->topo->n_devices,
                             .root = s->root,
                             .n_bytes = s->n * dtype_bytes(s->dtype)};
    struct auto_choice choice;

    if (s->plan != NULL) {
        return plan_json_read_for(s->plan, s->topo, &q, out);
    }
    if (strcmp(s->backend, "auto") == 0) {
        TRY(auto_choose(s->topo, &q, spec, m, &choice));
        *out = choice.plan;
        return ST_OK;
    }
    return plan_create(s->backend, s->topo, &q, out);
}

enum status bench_program_init(struct bench_program *out, const struct bench_spec *s,
                               const struct cost_model *m)
{
    struct program_spec spec = {.dtype = s->dtype,
                                .redop = s->redop,
                                .in_place = s->in_place,
                                .fuse = m->topo == NULL,
                                .n = s->n,
                                .chunk_bytes = s->chunk_bytes};

    *out = (struct bench_program){.predicted_s = 0};
    TRY(make_plan(s, &spec, m, &out->plan));
    TRY(auto_program(out->plan, &spec, m, &out->program));
    TRY(program_check(out->program, out->plan));
    return cost_predict(out->program, m, &out->predicted_s);
}

void bench_program_fini(struct bench_program *p)
{
    program_destroy(p->program);
    plan_destroy(p->plan);
}
