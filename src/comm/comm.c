#include "comm/comm.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "comm/engine/engine.h"
#include "comm/program.h"

/* What belongs to one bucket. */
struct part {
    struct program *program;
    struct program_buffers *buffers; /* [n_nodes] */
    char *label;
    size_t bytes;
};

struct comm {
    const struct topo *topo;
    struct plan *plan;
    struct part *parts;
    size_t n_parts;
    struct engine *engine;
    int n_ranks, n_workers;
};

static enum status check_args(const struct comm_args *a)
{
    const struct config_comm *cfg = a->cfg;

    if (!(cfg->timeout_s > 0)) {
        return log_fail(ST_INPUT, "[comm] timeout_s = %g must be above 0, give seconds",
                        cfg->timeout_s);
    }
    if (strcmp(cfg->fabric, "memory") != 0) {
        return log_fail(ST_UNSUPPORTED, "[comm] fabric = %s is not built in, use memory",
                        cfg->fabric);
    }
    if (cfg->plan[0] != '\0') {
        return log_fail(ST_UNSUPPORTED,
                        "[comm] plan = %s: plan files cannot be run yet, leave it "
                        "empty and name a backend",
                        cfg->plan);
    }
    return ST_OK;
}

static enum status make_plan(struct comm *c, const struct comm_args *a)
{
    struct plan_request q = {.collective = COLL_ALLREDUCE, .n_ranks = a->n_ranks, .root = -1};

    for (size_t b = 0; b < a->n_buckets; b++) {
        size_t bytes = a->buckets[b].n * sizeof(float);
        q.n_bytes = bytes > q.n_bytes ? bytes : q.n_bytes;
    }
    return plan_create(a->cfg->backend, a->topo, &q, &c->plan);
}

static enum status part_init(struct comm *c, const struct comm_args *a, size_t b)
{
    const struct comm_bucket *bucket = &a->buckets[b];
    struct part *part = &c->parts[b];
    struct program_spec spec = {.dtype = DTYPE_F32,
                                .redop = REDOP_SUM,
                                .in_place = true,
                                .fuse = true,
                                .n = bucket->n,
                                .chunk_bytes = a->cfg->chunk_bytes};

    part->bytes = bucket->n * sizeof(float);
    part->label = mem_printf("bucket %zu (%s)", b, bucket->label != NULL ? bucket->label : "");
    part->buffers = mem_alloc((size_t)c->plan->n_nodes, sizeof *part->buffers);
    if (part->label == NULL || part->buffers == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < a->n_ranks; r++) {
        part->buffers[r].out = a->arenas[r] + bucket->offset;
        part->buffers[r].in = part->buffers[r].out;
    }
    TRY(program_create(c->plan, &spec, &part->program));
    return program_check(part->program, c->plan);
}

static enum status start_engine(struct comm *c, const struct comm_args *a)
{
    struct engine_options opt = {.n_ranks = a->n_ranks,
                                 .n_workers = c->n_workers,
                                 .timeout_s = a->cfg->timeout_s,
                                 .last_first = strcmp(a->cfg->order, "priority") == 0};
    struct engine_job *jobs = mem_alloc(c->n_parts, sizeof *jobs);
    enum status st;

    if (jobs == NULL) {
        return ST_NOMEM;
    }
    for (size_t b = 0; b < c->n_parts; b++) {
        jobs[b] = (struct engine_job){c->parts[b].program, c->parts[b].buffers,
                                      collective_name(c->plan->collective), c->parts[b].label};
    }
    st = engine_create(&opt, jobs, c->n_parts, &c->engine);
    mem_free(jobs);
    return st;
}

static enum status fill(struct comm *c, const struct comm_args *a)
{
    TRY(check_args(a));
    c->topo = a->topo;
    c->n_ranks = a->n_ranks;
    /* The ranks' own threads move the bytes while they post and wait: more threads would only take
     * the cores from them. */
    c->n_workers = a->cfg->workers < 0 ? 0 : (int)a->cfg->workers;
    TRY(make_plan(c, a));
    c->parts = mem_alloc(a->n_buckets, sizeof *c->parts);
    if (c->parts == NULL) {
        return ST_NOMEM;
    }
    c->n_parts = a->n_buckets;
    for (size_t b = 0; b < a->n_buckets; b++) {
        TRY(part_init(c, a, b));
    }
    return start_engine(c, a);
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
    for (size_t b = 0; b < c->n_parts; b++) {
        program_destroy(c->parts[b].program);
        mem_free(c->parts[b].buffers);
        mem_free(c->parts[b].label);
    }
    mem_free(c->parts);
    plan_destroy(c->plan);
    mem_free(c);
}

enum status comm_post(struct comm *c, int rank, size_t b)
{
    return engine_post(c->engine, rank, b);
}

enum status comm_wait(struct comm *c, int rank, size_t b)
{
    return engine_wait(c->engine, rank, b);
}

bool comm_done(const struct comm *c, int rank, size_t b)
{
    return engine_done(c->engine, rank, b);
}

void comm_abort(struct comm *c, int rank, enum status why)
{
    engine_abort(c->engine, rank, why);
}

struct comm_times comm_last_times(const struct comm *c, int rank, size_t b)
{
    struct engine_times t = engine_last_times(c->engine, rank, b);

    return (struct comm_times){t.posted_s, t.started_s, t.done_s};
}

const struct plan *comm_plan(const struct comm *c, size_t b)
{
    (void)b; /* one plan serves all sizes */
    return c->plan;
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

    for (size_t i = 0; i < c->n_parts; i++) {
        size_t bytes = c->parts[i].bytes, piece = chunk_bytes(c->parts[i].program);
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
        chunk = piece > chunk ? piece : chunk;
        n_ops += c->parts[i].program->n_instances;
        total += bytes;
    }
    fprintf(out,
            "  buckets    %zu of %s to %s, %s in all, chunks up to %s, %zu operations a step\n",
            c->n_parts, text_bytes(c->n_parts == 0 ? 0 : least, a), text_bytes(most, b),
            text_bytes(total, s), text_bytes(chunk, k), n_ops);
}

void comm_describe(const struct comm *c, FILE *out)
{
    const struct plan *p = c->plan;
    double s = plan_link_seconds_per_byte(p, c->topo);

    fprintf(out, "  backend    %s, %s over %d devices of topology %s\n", p->backend,
            collective_name(p->collective), p->n_ranks, c->topo->name);
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
    describe_buckets(c, out);
    fprintf(out, "  engine     host, %d worker threads besides the devices' own\n", c->n_workers);
}
