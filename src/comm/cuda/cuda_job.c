#include "comm/cuda/cuda_job.h"

#include <stdint.h>

#include "base/mem.h"

_Static_assert((int)DEVICE_F32 == (int)DTYPE_F32 && (int)DEVICE_BF16 == (int)DTYPE_BF16 &&
                   (int)DEVICE_F16 == (int)DTYPE_F16 && (int)DEVICE_I32 == (int)DTYPE_I32,
               "types of elements are the same");
_Static_assert((int)DEVICE_SUM == (int)REDOP_SUM && (int)DEVICE_MEAN == (int)REDOP_MEAN &&
                   (int)DEVICE_MAX == (int)REDOP_MAX && (int)DEVICE_MIN == (int)REDOP_MIN,
               "operations are the same");

/* --- Issuing --- */

/* Where element `first` of ref `ref` lies. */
static void *at(const struct cuda_job *j, size_t ref, size_t first)
{
    return (void *)(j->bases[ref] + first * dtype_bytes(j->p->spec.dtype));
}

static void *slot_of(const struct cuda_job *j, int stream, int slot)
{
    size_t bytes = j->itinerary->streams[stream].stage_n * dtype_bytes(j->p->spec.dtype);

    return (char *)j->stages[stream] + (size_t)slot * bytes;
}

static enum status issue_fold(const struct cuda_job *j, const struct command *c, size_t first,
                              size_t n)
{
    const struct program_op *op = &j->p->ops[j->p->trees[c->tree].op + c->op];
    struct device_fold f = {.dtype = (enum device_dtype)j->p->spec.dtype,
                            .redop = (enum device_redop)j->p->spec.redop,
                            .n_src = op->n_src,
                            .n_dst = 1,
                            .n = n,
                            .divisor = op->finish ? j->p->n_ranks : 0};
    int slot = 0;

    for (int k = 0; k < op->n_src; k++) {
        f.src[k] =
            c->staged >> k & 1 ? slot_of(j, c->stream, slot++) : at(j, op->src + (size_t)k, first);
    }
    f.dst[0] = at(j, c->dst, first);
    return j->opt->device->fold(j->opt->set, j->streams[c->stream], &f);
}

static enum status issue(const struct cuda_job *j, const struct command *c)
{
    const struct device_ops *d = j->opt->device;
    void *set = j->opt->set, *stream = j->streams[c->stream];
    size_t first, n, bytes;

    switch (c->kind) {
    case COMMAND_RECORD:
        return d->record(set, stream, j->events[c->event]);
    case COMMAND_WAIT:
        return d->wait(set, stream, j->events[c->event]);
    default:
        break;
    }
    first = program_chunk(j->p, c->tree, c->chunk, &n);
    bytes = n * dtype_bytes(j->p->spec.dtype);
    if (c->kind == COMMAND_COPY) {
        return d->copy(set, stream, at(j, c->dst, first), at(j, c->src, first), bytes);
    }
    if (c->kind == COMMAND_STAGE) {
        return d->copy(set, stream, slot_of(j, c->stream, c->slot), at(j, c->src, first), bytes);
    }
    return issue_fold(j, c, first, n);
}

static enum status issue_all(const struct cuda_job *j)
{
    for (size_t k = 0; k < j->itinerary->n_commands; k++) {
        TRY(issue(j, &j->itinerary->commands[k]));
    }
    return ST_OK;
}

enum status cuda_job_run(const struct cuda_job *j, const struct marks_use *marks)
{
    const struct device_ops *d = j->opt->device;
    void *set = j->opt->set;

    if (j->p->n_instances == 0) {
        return ST_OK; /* of one rank or no elements; nobody waits for an event never recorded */
    }
    for (int r = 0; r < j->p->n_ranks; r++) {
        TRY(d->wait(set, j->streams[0], marks->posted[r]));
    }
    if (marks->begun != NULL) {
        TRY(d->record(set, j->streams[0], marks->begun[0]));
    }
    TRY(j->graph != NULL ? d->graph_launch(set, j->graph, j->streams[0]) : issue_all(j));
    return d->record(set, j->streams[0], marks->done[0]);
}

/* --- Making --- */

struct reach {
    const struct engine_cuda_options *opt;
    bool all; /* so far */
};

static bool reaches(void *ctx, int rank, int node)
{
    struct reach *r = ctx;
    bool yes = node >= r->opt->n_ranks || r->opt->device->reaches(r->opt->set, rank, node);

    r->all = r->all && yes;
    return yes;
}

static enum status make_memory(struct cuda_job *j, const struct program_buffers *buffers)
{
    const struct device_ops *d = j->opt->device;
    size_t bytes = j->p->spec.n * dtype_bytes(j->p->spec.dtype);
    struct program_buffers *all = mem_alloc((size_t)j->p->n_nodes, sizeof *all);
    enum status st = ST_OK;

    j->tmp = mem_alloc((size_t)j->p->n_nodes, sizeof *j->tmp);
    j->bases = mem_alloc(j->p->n_refs, sizeof *j->bases);
    if (all == NULL || j->tmp == NULL || j->bases == NULL) {
        st = ST_NOMEM;
    }
    for (int v = 0; st == ST_OK && v < j->p->n_nodes; v++) {
        if (j->p->has_tmp[v]) {
            st = v < j->p->n_ranks ? d->alloc(j->opt->set, v, bytes, &j->tmp[v])
                                   : d->alloc_host(j->opt->set, bytes, &j->tmp[v]);
        }
        all[v] = buffers[v];
        all[v].tmp = j->tmp[v];
    }
    if (st == ST_OK) {
        program_bind(j->p, all, j->bases);
    }
    mem_free(all);
    return st;
}

static enum status make_stream(const struct cuda_job *j, int rank, void **out)
{
    const struct device_ops *d = j->opt->device;

    return j->urgency > 0 ? d->urgent_stream_create(j->opt->set, rank, j->urgency, out)
                          : d->stream_create(j->opt->set, rank, out);
}

/* The engine's stream for that hop, made if it is the first. */
static enum status find_stream(struct cuda_job *j, struct cuda_job_streams *streams,
                               const struct itinerary_stream *key, void **out)
{
    struct cuda_job_stream *grown;

    for (size_t i = 0; i < streams->n; i++) {
        if (streams->all[i].urgency == j->urgency &&
            itinerary_same_hop(&streams->all[i].key, key)) {
            *out = streams->all[i].handle;
            return ST_OK;
        }
    }
    grown = mem_grow(streams->all, streams->n, streams->n + 1, sizeof *grown);
    if (grown == NULL) {
        return ST_NOMEM;
    }
    streams->all = grown;
    TRY(make_stream(j, key->rank, out));
    streams->all[streams->n++] =
        (struct cuda_job_stream){.key = *key, .urgency = j->urgency, .handle = *out};
    return ST_OK;
}

static enum status make_streams(struct cuda_job *j, struct cuda_job_streams *streams)
{
    const struct itinerary *s = j->itinerary;
    size_t elem = dtype_bytes(j->p->spec.dtype);

    j->streams = mem_alloc((size_t)s->n_streams, sizeof *j->streams);
    j->stages = mem_alloc((size_t)s->n_streams, sizeof *j->stages);
    if (j->streams == NULL || j->stages == NULL) {
        return ST_NOMEM;
    }
    TRY(make_stream(j, s->streams[0].rank, &j->streams[0]));
    for (int q = 1; q < s->n_streams; q++) {
        const struct itinerary_stream *k = &s->streams[q];
        TRY(find_stream(j, streams, k, &j->streams[q]));
        if (k->n_slots > 0) {
            TRY(j->opt->device->alloc(j->opt->set, k->rank, (size_t)k->n_slots * k->stage_n * elem,
                                      &j->stages[q]));
        }
    }
    return ST_OK;
}

static enum status make_events(struct cuda_job *j)
{
    const struct device_ops *d = j->opt->device;
    const struct itinerary *s = j->itinerary;

    j->events = mem_alloc((size_t)s->n_events, sizeof *j->events);
    if (j->events == NULL) {
        return ST_NOMEM;
    }
    for (size_t k = 0; k < s->n_commands; k++) {
        int e = s->commands[k].event;
        if (s->commands[k].kind == COMMAND_RECORD && j->events[e] == NULL) {
            TRY(d->event_create(j->opt->set, s->streams[s->event_stream[e]].rank, &j->events[e]));
        }
    }
    return ST_OK;
}

static enum status make_graph(struct cuda_job *j)
{
    const struct device_ops *d = j->opt->device;
    void *graph = NULL;
    enum status st, end;

    TRY(d->capture_begin(j->opt->set, j->streams[0]));
    st = issue_all(j);
    end = d->capture_end(j->opt->set, j->streams[0], &graph); /* a capture must be ended */
    j->graph = graph;
    return st != ST_OK ? st : end;
}

enum status cuda_job_init(struct cuda_job *j, const struct engine_cuda_options *opt,
                          const struct engine_job *args, int urgency,
                          struct cuda_job_streams *streams)
{
    struct reach reach = {opt, true};

    *j = (struct cuda_job){.opt = opt, .p = args->program, .urgency = urgency};
    TRY(itinerary_create(j->p, reaches, &reach, &j->itinerary));
    TRY(make_memory(j, args->buffers));
    TRY(make_streams(j, streams));
    TRY(make_events(j));
    if (opt->graphs && opt->device->capture_begin != NULL && reach.all) {
        TRY(make_graph(j));
    }
    return ST_OK;
}

void cuda_job_fini(struct cuda_job *j)
{
    const struct device_ops *d = j->opt != NULL ? j->opt->device : NULL;

    if (d == NULL) {
        return;
    }
    if (d->graph_destroy != NULL) {
        d->graph_destroy(j->opt->set, j->graph);
    }
    for (int i = 0; j->events != NULL && i < j->itinerary->n_events; i++) {
        d->event_destroy(j->opt->set, j->events[i]);
    }
    for (int q = 0; j->stages != NULL && q < j->itinerary->n_streams; q++) {
        d->release(j->opt->set, j->itinerary->streams[q].rank, j->stages[q]);
    }
    if (j->streams != NULL) {
        d->stream_destroy(j->opt->set, j->streams[0]);
    }
    for (int v = 0; j->tmp != NULL && v < j->p->n_nodes; v++) {
        if (v < j->p->n_ranks) {
            d->release(j->opt->set, v, j->tmp[v]);
        } else {
            d->release_host(j->opt->set, j->tmp[v]);
        }
    }
    mem_free(j->events);
    mem_free(j->stages);
    mem_free(j->streams);
    mem_free(j->tmp);
    mem_free(j->bases);
    itinerary_destroy(j->itinerary);
}
