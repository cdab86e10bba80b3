#include "comm/comm_parts.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "comm/auto.h"
#include "comm/plan_json.h"

bool comm_uses_nccl(const struct comm_args *a)
{
    return a->places != NULL && a->cfg->plan[0] == '\0' && strcmp(a->cfg->backend, "nccl") == 0;
}

static struct program_spec spec_of(const struct comm_parts *p, const struct comm_args *a, size_t n)
{
    const size_t given = chunk_rules_find(&p->chunks, n * dtype_bytes(wire_dtype(a)));

    return (struct program_spec){.dtype = wire_dtype(a),
                                 .redop = REDOP_SUM,
                                 .in_place = true,
                                 .fuse = p->model.topo == NULL,
                                 .n = n,
                                 .chunk_bytes = given != 0 ? given : a->cfg->chunk_bytes};
}

static enum collective collective_of(const struct comm_args *a)
{
    return a->kind == COMM_REDUCE      ? COLL_REDUCE
           : a->kind == COMM_BROADCAST ? COLL_BROADCAST
                                       : COLL_ALLREDUCE;
}

static struct plan_request request_of(const struct comm_args *a, size_t bytes)
{
    return (struct plan_request){.collective = collective_of(a),
                                 .n_ranks = a->n_ranks,
                                 .root = a->kind == COMM_ALLREDUCE ? -1 : a->root,
                                 .n_bytes = bytes,
                                 .options = a->cfg->treepack};
}

/* The one plan for all messages. */
static enum status read_or_make(struct comm_parts *p, const struct comm_args *a)
{
    struct plan_request q = request_of(a, 0);

    if (a->cfg->plan[0] != '\0') {
        return plan_json_read_for(a->cfg->plan, a->topo, &q, &p->choices[0].plan);
    }
    for (size_t b = 0; b < a->n_buckets; b++) {
        size_t bytes = a->buckets[b].n * dtype_bytes(wire_dtype(a));
        q.n_bytes = bytes > q.n_bytes ? bytes : q.n_bytes;
    }
    return comm_uses_nccl(a) ? plan_create_bare("nccl", a->topo, &q, &p->choices[0].plan)
                             : plan_create(a->cfg->backend, a->topo, &q, &p->choices[0].plan);
}

/* The plan with the least cost for messages of that size. */
static enum status choose(struct comm_parts *p, const struct comm_args *a, size_t bytes,
                          struct comm_choice *out)
{
    struct plan_request q = request_of(a, bytes);
    struct program_spec spec = spec_of(p, a, bytes / dtype_bytes(wire_dtype(a)));
    struct auto_choice best;
    char size[32];

    TRY(auto_choose(a->topo, &q, &spec, &p->model, &best));
    out->bytes = bytes;
    out->plan = best.plan;
    out->reason = best.second == NULL
                      ? mem_printf("up to %s: %s, the only one that fits", text_bytes(bytes, size),
                                   best.plan->backend)
                      : mem_printf("up to %s: %s, %.3g us predicted, then %s with %.3g us",
                                   text_bytes(bytes, size), best.plan->backend, best.time_s * 1e6,
                                   best.second, best.second_s * 1e6);
    return out->reason == NULL ? ST_NOMEM : ST_OK;
}

/* One plan for each class of sizes that occurs. */
static enum status choose_all(struct comm_parts *p, const struct comm_args *a)
{
    for (size_t bytes = chunk_class_bytes(0), seen = 0; seen < a->n_buckets; bytes *= 2) {
        size_t n = 0;
        for (size_t b = 0; b < a->n_buckets; b++) {
            n += chunk_class_bytes(a->buckets[b].n * dtype_bytes(wire_dtype(a))) == bytes;
        }
        if (n > 0) {
            TRY(choose(p, a, bytes, &p->choices[p->n_choices++]));
            seen += n;
        }
    }
    return ST_OK;
}

static enum status make_choices(struct comm_parts *p, const struct comm_args *a)
{
    const size_t n_classes = 8 * sizeof(size_t);

    p->choices = mem_alloc(n_classes, sizeof *p->choices);
    if (p->choices == NULL) {
        return ST_NOMEM;
    }
    if (strcmp(a->cfg->backend, "auto") == 0 && a->cfg->plan[0] == '\0') {
        return choose_all(p, a);
    }
    p->n_choices = 1;
    p->choices[0].bytes = SIZE_MAX;
    return read_or_make(p, a);
}

static void take(void *ctx, size_t first, size_t n, const float *const *parts, int n_parts)
{
    const struct comm_part *part = ctx;

    part->sink.take(part->sink.ctx, part->offset + first, n, parts, n_parts);
}

static enum status make_program(const struct comm_parts *p, struct comm_part *part,
                                const struct program_spec *spec)
{
    const struct program_sink sink = {take, part};

    return part->sink.take == NULL ? auto_program(part->plan, spec, &p->model, &part->program)
                                   : program_create_sink(part->plan, spec, &sink, &part->program);
}

static enum status part_init(struct comm_parts *p, const struct comm_args *a, size_t b)
{
    const struct comm_bucket *bucket = &a->buckets[b];
    struct comm_part *part = &p->parts[b];
    struct program_spec spec = spec_of(p, a, bucket->n);
    const struct comm_choice *choice = p->choices;

    part->bytes = bucket->n * dtype_bytes(wire_dtype(a));
    part->sink = a->sink;
    part->offset = bucket->offset;
    while (choice->bytes < part->bytes) {
        choice++;
    }
    part->plan = choice->plan;
    part->label = mem_printf("bucket %zu (%s)", b, bucket->label != NULL ? bucket->label : "");
    part->buffers = mem_alloc((size_t)part->plan->n_nodes, sizeof *part->buffers);
    if (part->label == NULL || part->buffers == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < a->n_ranks; r++) {
        part->buffers[r].out = wire_bucket(&p->wire, r, b);
        part->buffers[r].in = part->buffers[r].out;
    }
    if (comm_uses_nccl(a)) {
        return program_create(part->plan, &spec, &part->program);
    }
    TRY(make_program(p, part, &spec));
    TRY(program_check(part->program, part->plan));
    return cost_predict(part->program, &p->model, &part->predicted_s);
}

/* What is the same for all buckets. */
static enum status prepare(struct comm_parts *p, const struct comm_args *a)
{
    bool emulate = strcmp(a->cfg->fabric, "emulate") == 0;

    memset(p, 0, sizeof *p);
    TRY(chunk_rules_read(a->cfg->chunks, &p->chunks));
    if (a->cfg->chunk_bytes != 0 && (p->chunks.n > 0 || p->chunks.tune)) {
        return log_fail(ST_INPUT, "[comm] chunk_bytes and chunks are both given, drop one of them");
    }
    p->model =
        (struct cost_model){.topo = emulate || a->places != NULL ? a->topo : NULL,
                            .scale = emulate ? a->cfg->fabric_scale : 1,
                            .startup_s = emulate ? a->cfg->fabric_startup_us * 1e-6 : cost_launch_s,
                            .n_cores = cost_cores()};
    return make_choices(p, a);
}

enum status comm_parts_try(const struct comm_args *a)
{
    struct comm_args none = *a;
    struct comm_parts p;
    enum status st;

    none.n_buckets = 0;
    st = prepare(&p, &none);
    comm_parts_fini(&p);
    return st;
}

enum status comm_parts_init(struct comm_parts *p, const struct comm_args *a)
{
    TRY(prepare(p, a));
    TRY(wire_init(&p->wire, a));
    p->parts = mem_alloc(a->n_buckets, sizeof *p->parts);
    if (p->parts == NULL) {
        return ST_NOMEM;
    }
    p->n_parts = a->n_buckets;
    for (size_t b = 0; b < a->n_buckets; b++) {
        TRY(part_init(p, a, b));
    }
    return ST_OK;
}

void comm_parts_fini(struct comm_parts *p)
{
    for (size_t b = 0; b < p->n_parts; b++) {
        program_destroy(p->parts[b].program);
        mem_free(p->parts[b].buffers);
        mem_free(p->parts[b].label);
    }
    for (size_t k = 0; k < p->n_choices; k++) {
        plan_destroy(p->choices[k].plan);
        mem_free(p->choices[k].reason);
    }
    wire_fini(&p->wire);
    mem_free(p->parts);
    mem_free(p->choices);
}
