#include "comm/cuda/itinerary.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "device/device.h"

enum {
    MAIN = 0, /* the stream, and the event recorded on it first */
    NO_STREAM = -1
};

/* An operation of the templates. */
struct plan_op {
    int stream, level;
    int event;
    size_t position; /* on its stream, of the chunk issued last; from 1 */
    size_t record;   /* command that recorded its event then */
};

struct maker {
    const struct program *p;
    itinerary_reaches *reaches;
    void *ctx;
    struct itinerary *s;
    struct plan_op *ops; /* [p->n_ops] */
    int cap_streams;
    size_t cap_commands;
    size_t *clock;        /* [n_streams, n_streams] how much of stream q stream s comes after */
    size_t *snapshot;     /* [n_events, n_streams] the clock of the stream when it was recorded */
    bool *needed;         /* [n_commands] records that are waited for */
    size_t *last_op;      /* [n_streams] of p->ops, the latest issued; n_ops: none */
    size_t *last_command; /* [n_streams] when */
};

static void maker_fini(struct maker *m)
{
    mem_free(m->ops);
    mem_free(m->clock);
    mem_free(m->snapshot);
    mem_free(m->needed);
    mem_free(m->last_op);
    mem_free(m->last_command);
}

/* --- Streams --- */

bool itinerary_same_hop(const struct itinerary_stream *a, const struct itinerary_stream *b)
{
    return a->rank == b->rank && a->from == b->from && a->to == b->to && a->level == b->level;
}

static int rank_of(const struct maker *m, const struct program_op *op, int node)
{
    if (node < m->p->n_ranks) {
        return node;
    }
    /* A relay is memory of the host: some rank that takes part does its work. */
    return op->n_ranks > 0 ? m->p->ints[op->ranks] : 0;
}

static enum status add_stream(struct maker *m, struct itinerary_stream want, int *out)
{
    struct itinerary *s = m->s;

    for (int i = 1; i < s->n_streams; i++) {
        if (itinerary_same_hop(&s->streams[i], &want)) {
            *out = i;
            return ST_OK;
        }
    }
    if (s->n_streams == m->cap_streams) {
        int cap = 2 * m->cap_streams + 16;
        void *grown = mem_grow(s->streams, (size_t)s->n_streams, (size_t)cap, sizeof *s->streams);
        if (grown == NULL) {
            return ST_NOMEM;
        }
        s->streams = grown;
        m->cap_streams = cap;
    }
    *out = s->n_streams;
    s->streams[s->n_streams++] = want;
    return ST_OK;
}

/* The hop of an operation: a copy is pushed by its source, a sum is pulled by where it grows. */
static enum status place_op(struct maker *m, const struct program_tree *t, size_t i)
{
    const struct program_op *op = &m->p->ops[t->op + i];
    struct plan_op *plan = &m->ops[t->op + i];
    int from = m->p->refs[op->src + (size_t)op->n_src - 1].node;
    int to = m->p->refs[op->dst].node;
    int by = op->n_src == 1 ? from : to;

    if (op->n_src > DEVICE_MAX_REFS) {
        return log_fail(ST_UNSUPPORTED,
                        "an operation has %d sources and a device folds %d at once, build the "
                        "program without fusing",
                        op->n_src, DEVICE_MAX_REFS);
    }
    return add_stream(m,
                      (struct itinerary_stream){
                          .rank = rank_of(m, op, by), .from = from, .to = to, .level = plan->level},
                      &plan->stream);
}

static void find_levels(struct maker *m, const struct program_tree *t)
{
    for (size_t i = 0; i < t->n_ops; i++) { /* operations follow what they depend on */
        const struct program_op *op = &m->p->ops[t->op + i];
        const int *next = m->p->ints + op->next;
        for (int k = 0; k < op->n_next; k++) {
            struct plan_op *later = &m->ops[t->op + (size_t)next[k]];
            int level = m->ops[t->op + i].level + 1;
            later->level = level > later->level ? level : later->level;
        }
    }
}

static enum status make_streams(struct maker *m)
{
    int main_stream;

    TRY(add_stream(m, (struct itinerary_stream){.rank = 0, .from = -1, .to = -1}, &main_stream));
    for (size_t t = 0; t < m->p->n_trees; t++) {
        const struct program_tree *tree = &m->p->trees[t];
        find_levels(m, tree);
        for (size_t i = 0; tree->n_chunks > 0 && i < tree->n_ops; i++) {
            TRY(place_op(m, tree, i));
        }
    }
    return ST_OK;
}

/* --- Commands --- */

static size_t *clock_of(struct maker *m, int stream)
{
    return m->clock + (size_t)stream * (size_t)m->s->n_streams;
}

static size_t *snapshot_of(struct maker *m, int event)
{
    return m->snapshot + (size_t)event * (size_t)m->s->n_streams;
}

static enum status add_command(struct maker *m, struct command c)
{
    struct itinerary *s = m->s;

    if (s->n_commands == m->cap_commands) {
        size_t cap = 2 * m->cap_commands + 256;
        void *commands = mem_grow(s->commands, s->n_commands, cap, sizeof *s->commands), *needed;
        if (commands == NULL) {
            return ST_NOMEM;
        }
        s->commands = commands;
        needed = mem_grow(m->needed, s->n_commands, cap, sizeof *m->needed);
        if (needed == NULL) {
            return ST_NOMEM;
        }
        m->needed = needed;
        m->cap_commands = cap;
    }
    m->needed[s->n_commands] = c.kind != COMMAND_RECORD;
    s->commands[s->n_commands++] = c;
    return ST_OK;
}

static enum status add_record(struct maker *m, int stream, int event)
{
    size_t bytes = (size_t)m->s->n_streams * sizeof *m->clock;

    m->s->event_stream[event] = stream;
    clock_of(m, stream)[stream]++; /* its place, also of what it follows on the stream */
    memcpy(snapshot_of(m, event), clock_of(m, stream), bytes);
    return add_command(m, (struct command){COMMAND_RECORD, .stream = stream, .event = event});
}

/* `stream` goes on after the place of `event`, the `position` of its stream, that command `record`
 * recorded. */
static enum status add_wait(struct maker *m, int stream, int event, size_t position, size_t record)
{
    const size_t *theirs = snapshot_of(m, event);
    size_t *mine = clock_of(m, stream);

    if (mine[m->s->event_stream[event]] >= position) {
        return ST_OK; /* it does already */
    }
    m->needed[record] = true;
    for (int q = 0; q < m->s->n_streams; q++) {
        mine[q] = theirs[q] > mine[q] ? theirs[q] : mine[q];
    }
    return add_command(m, (struct command){COMMAND_WAIT, .stream = stream, .event = event});
}

/* The latest first, so that what they imply is known. */
static enum status add_waits(struct maker *m, const struct program_tree *t, size_t i)
{
    const struct program *p = m->p;
    int stream = m->ops[t->op + i].stream;

    for (size_t j = i; j-- > 0;) {
        const struct program_op *before = &p->ops[t->op + j];
        const struct plan_op *plan = &m->ops[t->op + j];
        for (int k = 0; k < before->n_next; k++) {
            if ((size_t)p->ints[before->next + (size_t)k] == i) {
                TRY(add_wait(m, stream, plan->event, plan->position, plan->record));
            }
        }
    }
    if (p->ops[t->op + i].n_posts > 0) {
        TRY(add_wait(m, stream, MAIN, 1, 0));
    }
    return ST_OK;
}

static enum status add_fold(struct maker *m, struct command c, const struct program_op *op)
{
    struct itinerary_stream *stream = &m->s->streams[c.stream];
    int n_slots = 0;

    for (int k = 0; k < op->n_src; k++) {
        if (m->reaches(m->ctx, stream->rank, m->p->refs[op->src + (size_t)k].node)) {
            continue;
        }
        c.kind = COMMAND_STAGE;
        c.src = op->src + (size_t)k;
        c.slot = n_slots++;
        c.staged |= 1ull << k;
        TRY(add_command(m, c));
    }
    stream->n_slots = n_slots > stream->n_slots ? n_slots : stream->n_slots;
    c.kind = COMMAND_FOLD;
    c.src = op->src;
    return add_command(m, c);
}

/* The work of one operation on one chunk: a copy, or a sum at the first destination, which is then
 * copied to the others. */
static enum status add_work(struct maker *m, size_t tree, size_t chunk, size_t i)
{
    const struct program_tree *t = &m->p->trees[tree];
    const struct program_op *op = &m->p->ops[t->op + i];
    struct command c = {.stream = m->ops[t->op + i].stream,
                        .tree = tree,
                        .chunk = chunk,
                        .op = i,
                        .src = op->src,
                        .dst = op->dst};
    struct itinerary_stream *stream = &m->s->streams[c.stream];
    int first = 0;

    stream->stage_n = t->chunk > stream->stage_n ? t->chunk : stream->stage_n;
    if (op->n_src > 1 || op->finish) {
        TRY(add_fold(m, c, op));
        c.src = op->dst;
        first = 1;
    }
    c.kind = COMMAND_COPY;
    for (int k = first; k < op->n_dst; k++) {
        c.dst = op->dst + (size_t)k;
        TRY(add_command(m, c));
    }
    return ST_OK;
}

static enum status add_op(struct maker *m, size_t tree, size_t chunk, size_t i)
{
    const struct program_tree *t = &m->p->trees[tree];
    struct plan_op *plan = &m->ops[t->op + i];

    TRY(add_waits(m, t, i));
    TRY(add_work(m, tree, chunk, i));
    TRY(add_record(m, plan->stream, plan->event));
    plan->position = clock_of(m, plan->stream)[plan->stream];
    plan->record = m->s->n_commands - 1;
    m->last_op[plan->stream] = t->op + i;
    m->last_command[plan->stream] = m->s->n_commands;
    return ST_OK;
}

/* The stream whose last command is the latest, and not joined yet. */
static int latest(const struct maker *m)
{
    int found = NO_STREAM;

    for (int q = 1; q < m->s->n_streams; q++) {
        if (m->last_op[q] < m->p->n_ops &&
            (found == NO_STREAM || m->last_command[q] > m->last_command[found])) {
            found = q;
        }
    }
    return found;
}

static enum status join(struct maker *m)
{
    for (int q = latest(m); q != NO_STREAM; q = latest(m)) {
        const struct plan_op *plan = &m->ops[m->last_op[q]];
        TRY(add_wait(m, MAIN, plan->event, plan->position, plan->record));
        m->last_op[q] = m->p->n_ops;
    }
    return ST_OK;
}

static enum status make_commands(struct maker *m)
{
    size_t most = 0;

    TRY(add_record(m, MAIN, MAIN));
    m->needed[0] = true; /* main goes on, also without operations */
    for (size_t t = 0; t < m->p->n_trees; t++) {
        most = m->p->trees[t].n_chunks > most ? m->p->trees[t].n_chunks : most;
    }
    for (size_t c = 0; c < most; c++) {
        for (size_t t = 0; t < m->p->n_trees; t++) {
            for (size_t i = 0; c < m->p->trees[t].n_chunks && i < m->p->trees[t].n_ops; i++) {
                TRY(add_op(m, t, c, i));
            }
        }
    }
    return join(m);
}

/* Records that nobody waits for are left out. */
static void drop_records(struct maker *m)
{
    struct itinerary *s = m->s;
    size_t n = 0;

    for (size_t k = 0; k < s->n_commands; k++) {
        if (m->needed[k]) {
            s->commands[n++] = s->commands[k];
        }
    }
    s->n_commands = n;
}

static enum status make_tables(struct maker *m)
{
    struct itinerary *s = m->s;
    size_t n_streams = (size_t)s->n_streams;

    s->n_events = 1 + (int)m->p->n_ops;
    for (size_t i = 0; i < m->p->n_ops; i++) {
        m->ops[i].event = 1 + (int)i;
    }
    s->event_stream = mem_alloc((size_t)s->n_events, sizeof *s->event_stream);
    m->clock = mem_alloc(n_streams * n_streams, sizeof *m->clock);
    m->snapshot = mem_alloc((size_t)s->n_events * n_streams, sizeof *m->snapshot);
    m->last_op = mem_alloc(n_streams, sizeof *m->last_op);
    m->last_command = mem_alloc(n_streams, sizeof *m->last_command);
    if (s->event_stream == NULL || m->clock == NULL || m->snapshot == NULL || m->last_op == NULL ||
        m->last_command == NULL) {
        return ST_NOMEM;
    }
    for (size_t q = 0; q < n_streams; q++) {
        m->last_op[q] = m->p->n_ops;
    }
    return ST_OK;
}

static enum status fill(struct maker *m)
{
    m->ops = mem_alloc(m->p->n_ops, sizeof *m->ops);
    if (m->ops == NULL) {
        return ST_NOMEM;
    }
    TRY(make_streams(m));
    TRY(make_tables(m));
    TRY(make_commands(m));
    drop_records(m);
    return ST_OK;
}

enum status itinerary_create(const struct program *p, itinerary_reaches *reaches, void *ctx,
                             struct itinerary **out)
{
    struct itinerary *s = mem_alloc(1, sizeof *s);
    struct maker m = {.p = p, .reaches = reaches, .ctx = ctx, .s = s};
    enum status st = s != NULL ? fill(&m) : ST_NOMEM;

    maker_fini(&m);
    if (st != ST_OK) {
        itinerary_destroy(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

void itinerary_destroy(struct itinerary *s)
{
    if (s == NULL) {
        return;
    }
    mem_free(s->streams);
    mem_free(s->event_stream);
    mem_free(s->commands);
    mem_free(s);
}
