#include "comm/comm.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "comm/comm_parts.h"
#include "comm/cuda/engine_cuda.h"
#include "comm/engine/engine.h"

struct comm {
    const struct topo *topo;
    struct comm_parts parts;
    struct fabric_model fabric;
    struct engine *engine;             /* of memory of the host, */
    const struct device_place *places; /* or */
    struct engine_cuda *engine_cuda;   /* of devices, */
    struct nccl_lanes *lanes;          /* perhaps by NCCL */
    int n_ranks, n_workers;
    bool emulate;
};

static enum status check_args(const struct comm_args *a)
{
    const struct config_comm *cfg = a->cfg;

    assert(cfg->backend != NULL && cfg->plan != NULL && cfg->fabric != NULL && cfg->order != NULL &&
           cfg->wire != NULL);
    if (a->places != NULL && strcmp(cfg->fabric, "emulate") == 0) {
        return log_fail(ST_INPUT,
                        "[comm] fabric = emulate moves bytes in the host's memory and cannot go "
                        "with [device] type = %s, use fabric = memory",
                        a->places[0].ops->type);
    }
    if (comm_uses_nccl(a) && strcmp(cfg->order, "priority") == 0) {
        return log_fail(ST_INPUT,
                        "[comm] order = priority cannot go with backend = nccl, whose collectives "
                        "run in the order in which they are started, use order = fifo");
    }
    if (!(cfg->timeout_s > 0)) {
        return log_fail(ST_INPUT, "[comm] timeout_s = %g must be above 0, give seconds",
                        cfg->timeout_s);
    }
    if (strcmp(cfg->fabric, "memory") != 0 && strcmp(cfg->fabric, "emulate") != 0) {
        return log_fail(ST_INPUT, "unknown [comm] fabric = %s, use memory or emulate", cfg->fabric);
    }
    if (strcmp(cfg->fabric, "emulate") == 0 && !(cfg->fabric_scale > 0)) {
        return log_fail(ST_INPUT, "[comm] fabric_scale = %g must be above 0, 1 is real time",
                        cfg->fabric_scale);
    }
    if (a->sink.take != NULL &&
        (a->kind != COMM_ALLREDUCE || strcmp(cfg->fabric, "emulate") == 0)) {
        return log_fail(ST_BADARG,
                        "only allreduce with [comm] fabric = memory has a sink for sums");
    }
    return ST_OK;
}

static enum status start_on_host(struct comm *c, const struct comm_args *a,
                                 const struct engine_job *jobs)
{
    struct engine_options opt = {.n_ranks = a->n_ranks,
                                 .n_workers = c->n_workers,
                                 .timeout_s = a->cfg->timeout_s,
                                 .timed = a->timed,
                                 .fabric = c->emulate ? &c->fabric : NULL,
                                 .last_first = strcmp(a->cfg->order, "priority") == 0};

    return engine_create(&opt, jobs, c->parts.n_parts, &c->engine);
}

static enum status find_lanes(struct comm *c, const struct comm_args *a)
{
    struct nccl_lanes_args args = {.library = a->cfg->nccl[0] != '\0' ? a->cfg->nccl : NULL,
                                   .log_path =
                                       a->cfg->nccl_log[0] != '\0' ? a->cfg->nccl_log : NULL,
                                   .places = a->places,
                                   .n_ranks = a->n_ranks,
                                   .timeout_s = a->cfg->timeout_s};

    if (!comm_uses_nccl(a)) {
        return ST_OK;
    }
    if (a->beside != NULL && a->beside->lanes != NULL) {
        c->lanes = nccl_lanes_hold(a->beside->lanes);
        return ST_OK;
    }
    return nccl_lanes_create(&args, &c->lanes);
}

static enum status start_on_devices(struct comm *c, const struct comm_args *a,
                                    const struct engine_job *jobs)
{
    struct engine_cuda_options opt = {.device = a->places[0].ops,
                                      .set = a->places[0].set,
                                      .n_ranks = a->n_ranks,
                                      .timeout_s = a->cfg->timeout_s,
                                      .timed = a->timed,
                                      .graphs = true,
                                      .last_first = strcmp(a->cfg->order, "priority") == 0,
                                      .root = a->root};

    c->places = a->places;
    TRY(find_lanes(c, a));
    opt.lanes = c->lanes;
    return engine_cuda_create(&opt, jobs, c->parts.n_parts, &c->engine_cuda);
}

static enum status start_engine(struct comm *c, const struct comm_args *a)
{
    size_t n = c->parts.n_parts;
    struct engine_job *jobs = mem_alloc(n, sizeof *jobs);
    enum status st;

    if (jobs == NULL) {
        return ST_NOMEM;
    }
    for (size_t b = 0; b < n; b++) {
        const struct comm_part *part = &c->parts.parts[b];
        jobs[b] = (struct engine_job){part->program, part->buffers,
                                      collective_name(part->plan->collective), part->label};
    }
    st = a->places == NULL ? start_on_host(c, a, jobs) : start_on_devices(c, a, jobs);
    mem_free(jobs);
    return st;
}

static enum status fill(struct comm *c, const struct comm_args *a)
{
    const struct config_comm *cfg = a->cfg;

    TRY(check_args(a));
    c->topo = a->topo;
    c->n_ranks = a->n_ranks;
    c->emulate = strcmp(cfg->fabric, "emulate") == 0;
    c->fabric = (struct fabric_model){.topo = a->topo,
                                      .scale = cfg->fabric_scale,
                                      .startup_s = cfg->fabric_startup_us * 1e-6,
                                      .credit_bytes = (size_t)cfg->credit_bytes};
    /* The ranks' own threads move the bytes while they post and wait: more threads would only take
     * the cores from them. */
    c->n_workers = cfg->workers < 0 ? 0 : (int)cfg->workers;
    TRY(comm_parts_init(&c->parts, a));
    return start_engine(c, a);
}

enum status comm_try(const struct comm_args *args)
{
    TRY(check_args(args));
    return comm_parts_try(args);
}

enum status comm_create(const struct comm_args *args, struct comm **out)
{
    struct comm *c = mem_alloc(1, sizeof *c);
    enum status st;

    if (c == NULL) {
        return ST_NOMEM;
    }
    st = fill(c, args);
    if (st != ST_OK) {
        comm_destroy(c);
        return st;
    }
    *out = c;
    return ST_OK;
}

void comm_destroy(struct comm *c)
{
    if (c == NULL) {
        return;
    }
    engine_destroy(c->engine);
    engine_cuda_destroy(c->engine_cuda);
    nccl_lanes_release(c->lanes);
    comm_parts_fini(&c->parts);
    mem_free(c);
}

enum status comm_post(struct comm *c, int rank, size_t b)
{
    TRY(wire_narrow(&c->parts.wire, rank, b));
    return c->places == NULL ? engine_post(c->engine, rank, b)
                             : engine_cuda_post(c->engine_cuda, rank, b, c->places[rank].stream);
}

enum status comm_wait(struct comm *c, int rank, size_t b)
{
    TRY(c->places == NULL ? engine_wait(c->engine, rank, b)
                          : engine_cuda_wait(c->engine_cuda, rank, b, c->places[rank].stream));
    return wire_widen(&c->parts.wire, rank, b);
}

bool comm_done(const struct comm *c, int rank, size_t b)
{
    return c->places == NULL ? engine_done(c->engine, rank, b)
                             : engine_cuda_issued(c->engine_cuda, rank, b);
}

enum status comm_check(const struct comm *c)
{
    return c->lanes == NULL ? ST_OK : nccl_lanes_check(c->lanes);
}

bool comm_abort(struct comm *c, int rank, enum status why)
{
    return c->places == NULL ? engine_abort(c->engine, rank, why)
                             : engine_cuda_abort(c->engine_cuda, rank, why);
}

struct comm_times comm_last_times(const struct comm *c, int rank, size_t b)
{
    const struct engine_times t = engine_last_times(c->engine, rank, b);

    return (struct comm_times){
        .posted_s = t.posted_s, .started_s = t.started_s, .done_s = t.done_s};
}

bool comm_device_times(const struct comm *c, int rank, size_t b, size_t use, struct comm_times *out)
{
    struct device_times t;

    if (!engine_cuda_times(c->engine_cuda, rank, b, use, &t)) {
        return false;
    }
    *out = (struct comm_times){.posted_s = t.posted_s,
                               .started_s = t.started_s,
                               .done_s = t.done_s,
                               .waited_s = t.waited_s};
    return true;
}

size_t comm_bytes(const struct comm *c, size_t b)
{
    return c->parts.parts[b].bytes;
}

const struct plan *comm_plan(const struct comm *c, size_t b)
{
    return c->parts.parts[b].plan;
}

/* The largest chunk of a bucket in bytes. */
static size_t chunk_bytes(const struct program *p)
{
    size_t most = 0;

    for (size_t t = 0; t < p->n_trees; t++) {
        size_t n = p->trees[t].chunk < p->trees[t].n ? p->trees[t].chunk : p->trees[t].n;
        most = n > most ? n : most;
    }
    return most * dtype_bytes(p->spec.dtype);
}

static void describe_buckets(const struct comm *c, FILE *out)
{
    size_t least = SIZE_MAX, most = 0, total = 0, chunk = 0, n_ops = 0;
    char a[32], b[32], s[32], k[32];
    double predicted_s = 0;

    for (size_t i = 0; i < c->parts.n_parts; i++) {
        const struct comm_part *part = &c->parts.parts[i];
        size_t piece = chunk_bytes(part->program);
        least = part->bytes < least ? part->bytes : least;
        most = part->bytes > most ? part->bytes : most;
        chunk = piece > chunk ? piece : chunk;
        n_ops += part->program->n_instances;
        total += part->bytes;
        predicted_s += part->predicted_s;
    }
    fprintf(out, "  buckets    %zu of %s", c->parts.n_parts,
            text_bytes(least < most ? least : most, a));
    if (least < most) {
        fprintf(out, " to %s", text_bytes(most, b));
    }
    if (c->parts.n_parts > 1) {
        fprintf(out, ", %s in all", text_bytes(total, s));
    }
    if (c->lanes != NULL) {
        fprintf(out, "\n");
        return;
    }
    fprintf(out, ", chunks up to %s, %zu operations a step\n", text_bytes(chunk, k), n_ops);
    fprintf(out, "  predicted  %.3g ms for all buckets, one after the other\n", predicted_s * 1e3);
}

static void describe_plan(const struct comm *c, const struct comm_choice *choice, FILE *out)
{
    const struct plan *p = choice->plan;
    double s = p->n_trees > 0 ? plan_link_seconds_per_byte(p, c->topo) : 0;

    if (choice->reason != NULL) {
        fprintf(out, "  auto       %s\n", choice->reason);
    }
    fprintf(out, "  backend    %s, %s over %d devices of topology %s\n", p->backend,
            collective_name(p->collective), p->n_ranks, c->topo->name);
    if (p->n_trees == 0) {
        return;
    }
    fprintf(out, "  plan       %zu tree%s, depth %d, %s", p->n_trees, p->n_trees == 1 ? "" : "s",
            plan_depth(p), p->pipelined ? "in chunks" : "the whole share at each hop");
    if (s > 0) {
        fprintf(out, ", links allow %.3f GB/s", 1e-9 / s);
    }
    fprintf(out, "\n");
    if (p->bound_bytes_per_s > 0) {
        fprintf(out, "  bound      %.3f GB/s%s%s\n", p->bound_bytes_per_s * 1e-9,
                p->bottleneck != NULL ? ": " : "", p->bottleneck != NULL ? p->bottleneck : "");
    }
}

void comm_describe(const struct comm *c, FILE *out)
{
    for (size_t k = 0; k < c->parts.n_choices; k++) {
        describe_plan(c, &c->parts.choices[k], out);
    }
    describe_buckets(c, out);
    if (c->lanes != NULL) {
        fprintf(out,
                "  engine     %s, one collective after the other, on a stream of each device\n",
                nccl_lanes_version(c->lanes));
    } else if (c->places != NULL) {
        fprintf(out,
                "  engine     streams of %s devices, a graph for each bucket where they have "
                "graphs\n",
                c->places[0].ops->type);
    } else if (c->emulate) {
        fprintf(out, "  engine     host, links emulated %g times slower than topology %s\n",
                c->fabric.scale, c->topo->name);
    } else {
        fprintf(out, "  engine     host, %d worker threads besides the devices' own\n",
                c->n_workers);
    }
}
