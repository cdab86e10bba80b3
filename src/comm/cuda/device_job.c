#include "comm/cuda/device_job.h"

#include "base/clock.h"
#include "base/mem.h"

enum {
    MAX_AHEAD = 4 /* uses of a job that the host may be ahead, where it matters which one is done */
};

/* --- Making --- */

static enum status make_counts(struct device_job *j)
{
    const size_t n_ranks = (size_t)j->opt->n_ranks;

    j->posted_s = mem_alloc(n_ranks * j->marks.n_uses, sizeof *j->posted_s);
    j->n_posts = mem_alloc(n_ranks, sizeof *j->n_posts);
    j->n_waits = mem_alloc(n_ranks, sizeof *j->n_waits);
    return j->posted_s != NULL && j->n_posts != NULL && j->n_waits != NULL ? ST_OK : ST_NOMEM;
}

/* What is left to NCCL, with the marks of each use. */
static enum status make_runs(struct device_job *j, const struct engine_job *args)
{
    const struct program *p = args->program;
    const size_t n_ranks = (size_t)j->opt->n_ranks;

    j->in = mem_alloc(n_ranks, sizeof *j->in);
    j->out = mem_alloc(n_ranks, sizeof *j->out);
    j->runs = mem_alloc(j->marks.n_uses, sizeof *j->runs);
    if (j->in == NULL || j->out == NULL || j->runs == NULL) {
        return ST_NOMEM;
    }
    for (size_t r = 0; r < n_ranks; r++) {
        j->in[r] = args->buffers[r].in;
        j->out[r] = args->buffers[r].out;
    }
    for (size_t k = 0; k < j->marks.n_uses; k++) {
        const struct marks_use *u = marks_of(&j->marks, k);
        j->runs[k] = (struct nccl_run){.call = {.collective = p->collective,
                                                .dtype = p->spec.dtype,
                                                .redop = p->spec.redop,
                                                .n = p->spec.n,
                                                .root = j->opt->root,
                                                .in = j->in,
                                                .out = j->out},
                                       .label = j->label,
                                       .posted = u->posted,
                                       .begun = u->begun,
                                       .done = u->done};
    }
    return ST_OK;
}

enum status device_job_init(struct device_job *j, const struct engine_cuda_options *opt,
                            const struct engine_job *args, int urgency,
                            struct cuda_job_streams *streams)
{
    const bool lanes = opt->lanes != NULL;

    *j = (struct device_job){.opt = opt,
                             .what = args->what,
                             .label = args->label,
                             .marks = {.device = opt->device,
                                       .set = opt->set,
                                       .n_ranks = opt->n_ranks,
                                       .timed = opt->timed,
                                       .each = lanes,
                                       .n_uses = lanes || opt->timed ? MAX_AHEAD : 1}};
    TRY(make_counts(j));
    TRY(marks_init(&j->marks));
    return lanes ? make_runs(j, args) : cuda_job_init(&j->own, opt, args, urgency, streams);
}

void device_job_fini(struct device_job *j)
{
    cuda_job_fini(&j->own);
    marks_fini(&j->marks);
    mem_free(j->runs);
    mem_free(j->in);
    mem_free(j->out);
    mem_free(j->posted_s);
    mem_free(j->n_posts);
    mem_free(j->n_waits);
}

/* --- Uses --- */

static double *posted_at(const struct device_job *j, int rank, size_t use)
{
    return &j->posted_s[(size_t)rank * j->marks.n_uses + use % j->marks.n_uses];
}

enum status device_job_mark_post(const struct device_job *j, int rank, void *stream)
{
    const struct marks_use *u = marks_of(&j->marks, j->n_posts[rank]);

    if (j->marks.n_uses > 1) {
        TRY(j->opt->device->event_sync(j->opt->set, u->done[rank]));
    }
    *posted_at(j, rank, j->n_posts[rank]) = clock_now_s();
    return j->opt->device->record(j->opt->set, stream, u->posted[rank]);
}

enum status device_job_run(const struct device_job *j)
{
    return j->opt->lanes != NULL
               ? nccl_lanes_start(j->opt->lanes, &j->runs[j->n_runs % j->marks.n_uses])
               : cuda_job_run(&j->own, marks_of(&j->marks, j->n_runs));
}

void *device_job_done(const struct device_job *j, int rank)
{
    return marks_of(&j->marks, j->n_posts[rank] - 1)->done[rank];
}

enum status device_job_wait(const struct device_job *j, int rank, void *stream)
{
    const struct marks_use *u = marks_of(&j->marks, j->n_posts[rank] - 1);

    if (u->waited != NULL) {
        TRY(j->opt->device->record(j->opt->set, stream, u->waited[rank]));
    }
    return j->opt->device->wait(j->opt->set, stream, u->done[rank]);
}

/* --- Times --- */

/* What is done for all at once is marked on the device of rank 0. */
static int marked_by(const struct device_job *j, int rank)
{
    return j->marks.each ? rank : 0;
}

/* The use is in order: it began when the last rank came to it. */
static enum status read_begin(const struct device_job *j, struct device_clock *clock,
                              const struct marks_use *u, double posted_s, double *began_s)
{
    for (int r = 0; r < (j->marks.each ? j->opt->n_ranks : 1); r++) {
        double s;
        TRY(device_clock_read(clock, r, u->begun[r], posted_s, &s));
        *began_s = r == 0 || s > *began_s ? s : *began_s;
    }
    return ST_OK;
}

/* Jobs without operations are over when they are posted. */
static bool moves(const struct device_job *j)
{
    return j->opt->lanes != NULL || j->own.p->n_instances > 0;
}

static enum status read_times(const struct device_job *j, struct device_clock *clock, int rank,
                              size_t use, struct device_times *out)
{
    const struct marks_use *u = marks_of(&j->marks, use);
    const double posted_s = *posted_at(j, rank, use);

    TRY(device_clock_read(clock, rank, u->posted[rank], posted_s, &out->posted_s));
    TRY(device_clock_read(clock, rank, u->waited[rank], posted_s, &out->waited_s));
    out->started_s = out->done_s = out->posted_s;
    if (moves(j)) {
        TRY(read_begin(j, clock, u, posted_s, &out->started_s));
        TRY(device_clock_read(clock, marked_by(j, rank), u->done[rank], posted_s, &out->done_s));
    }
    return ST_OK;
}

enum status device_job_times(const struct device_job *j, struct device_clock *clock, int rank,
                             size_t use, struct device_times *out, bool *known)
{
    const struct device_ops *d = j->opt->device;
    const struct marks_use *u = marks_of(&j->marks, use);

    *known = clock != NULL && use < j->n_waits[rank] && j->n_posts[rank] - use <= j->marks.n_uses;
    if (*known) {
        TRY(d->done(j->opt->set, u->waited[rank], known));
    }
    if (*known && moves(j)) {
        TRY(d->done(j->opt->set, u->done[rank], known));
    }
    /* A rank may be through with a reduce or a broadcast before others come to it. */
    for (int r = 0; *known && j->marks.each && r < j->opt->n_ranks; r++) {
        TRY(d->done(j->opt->set, u->begun[r], known));
    }
    return *known ? read_times(j, clock, rank, use, out) : ST_OK;
}
