/* The meetings and measurements of a survey. */
#include "train/survey.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/layout.h"
#include "train/state.h"

enum {
    PROBES = 3 /* of each bucket after a step, of which the fastest counts */
};

static enum status alloc_tables(struct survey *s, const struct trainer *t)
{
    const size_t n_params = (size_t)graph_n_params(t->ranks[0].graph);

    s->layer_s = mem_alloc((size_t)t->n_ranks, sizeof *s->layer_s);
    s->since_s = mem_alloc((size_t)t->n_ranks, sizeof *s->since_s);
    s->fine = mem_alloc((size_t)t->n_ranks, sizeof *s->fine);
    s->message_s = mem_alloc(n_params, sizeof *s->message_s);
    s->layers = mem_alloc(n_params, sizeof *s->layers);
    s->ends = mem_alloc(n_params, sizeof *s->ends);
    s->work = mem_alloc(n_params + 1, sizeof *s->work);
    s->merged = mem_alloc(n_params, sizeof *s->merged);
    if (s->layer_s == NULL || s->since_s == NULL || s->fine == NULL || s->message_s == NULL ||
        s->layers == NULL || s->ends == NULL || s->work == NULL || s->merged == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < t->n_ranks; r++) {
        s->layer_s[r] = mem_alloc(n_params, sizeof **s->layer_s);
        if (s->layer_s[r] == NULL) {
            return ST_NOMEM;
        }
        for (size_t i = 0; i < n_params; i++) {
            s->layer_s[r][i] = INFINITY;
        }
    }
    return ST_OK;
}

enum status survey_init(struct trainer *t)
{
    struct survey *s;
    const bool merging =
        strcmp(t->cfg->comm.buckets, "merge") == 0 && t->cfg->comm.bucket_layers.n == 0;
    const bool tunes = strcmp(t->cfg->comm.chunks, "tune") == 0;

    if (t->on_device && (merging || tunes)) {
        return log_fail(ST_INPUT,
                        "[comm] %s is found by the host's clock, and cannot go with [device] type "
                        "= %s, give %s",
                        merging ? "buckets = merge" : "chunks = tune", t->cfg->device.type,
                        merging ? "bucket_layers" : "sizes");
    }
    if (t->dry_run || (!merging && !tunes)) {
        return ST_OK;
    }
    t->survey = s = mem_alloc(1, sizeof *s);
    if (s == NULL) {
        return ST_NOMEM;
    }
    s->on = true;
    s->merging = merging;
    s->tunes = tunes;
    TRY(alloc_tables(s, t));
    if (!t->fused) {
        return ST_OK;
    }
    s->weights = mem_alloc(t->n, sizeof *s->weights);
    s->momentum = mem_alloc(t->n, sizeof *s->momentum);
    return s->weights != NULL && s->momentum != NULL ? ST_OK : ST_NOMEM;
}

void survey_fini(struct trainer *t)
{
    struct survey *s = t->survey;

    if (s == NULL) {
        return;
    }
    for (int r = 0; s->layer_s != NULL && r < t->n_ranks; r++) {
        mem_free(s->layer_s[r]);
    }
    mem_free(s->layer_s);
    mem_free(s->since_s);
    mem_free(s->fine);
    mem_free(s->message_s);
    mem_free(s->layers);
    mem_free(s->ends);
    mem_free(s->work);
    mem_free(s->merged);
    mem_free(s->weights);
    mem_free(s->momentum);
    mem_free(s);
}

/* --- backward */

static bool measures_layers(const struct rank *r)
{
    const struct survey *s = r->t->survey;

    return s != NULL && s->merging && s->n_steps >= SURVEY_COLD_STEPS && r->last_micro;
}

void survey_resume(struct rank *r)
{
    if (measures_layers(r)) {
        r->t->survey->since_s[r->index] = clock_now_s();
    }
}

void survey_gradient(struct rank *r, int i)
{
    if (measures_layers(r)) {
        struct survey *s = r->t->survey;
        double *least = &s->layer_s[r->index][i];
        const double took_s = clock_now_s() - s->since_s[r->index];
        *least = took_s < *least ? took_s : *least;
    }
}

/* --- messages */

/* Move a bucket whose gradients have been used: what that takes a rank that does nothing else. */
static enum status probe(struct rank *r, size_t b)
{
    struct trainer *t = r->t;
    const double from_s = clock_now_s();
    double took_s;

    TRY(comm_post(t->comm, r->index, b));
    TRY(comm_wait(t->comm, r->index, b));
    if (t->rooted) {
        TRY(comm_post(t->sharing, r->index, b));
        TRY(comm_wait(t->sharing, r->index, b));
    }
    took_s = clock_now_s() - from_s;
    if (r->index == 0 && took_s < t->survey->message_s[b]) {
        t->survey->message_s[b] = took_s;
    }
    return ST_OK;
}

static void begin_probes(struct trainer *t)
{
    struct survey *s = t->survey;

    t->update.all = NULL;
    t->update.weights = s->weights;
    t->update.momentum = s->momentum;
    for (size_t b = 0; b < t->n_buckets && !(s->merging && s->n_steps > 0); b++) {
        s->message_s[b] = INFINITY;
    }
}

/* The communicator fails for all, but one rank may have been through by then. */
static bool all_fine(const struct trainer *t)
{
    bool fine = true;

    for (int r = 0; r < t->n_ranks; r++) {
        fine = fine && t->survey->fine[r];
    }
    return fine;
}

static void probe_all(struct rank *r)
{
    for (int k = 0; k < PROBES; k++) {
        for (size_t b = 0; b < r->t->n_buckets && r->status == ST_OK; b++) {
            rank_fail(r, probe(r, b));
        }
    }
    r->t->survey->fine[r->index] = r->status == ST_OK;
}

/* --- conclusions */

/* Its threads are not to be kept on the core of this one, nor to think that there is no other. */
static enum status recut_on_all_cores(struct trainer *t)
{
    cpu_set_t own;
    enum status st;

    if (!t->pinned || sched_getaffinity(0, sizeof own, &own) != 0) {
        return replica_recut(t);
    }
    (void)sched_setaffinity(0, sizeof t->cores, &t->cores);
    st = replica_recut(t);
    (void)sched_setaffinity(0, sizeof own, &own);
    return st;
}

static void conclude(struct rank *r, uint64_t step)
{
    struct trainer *t = r->t;
    struct survey *s = t->survey;
    const bool last = 2 * (step + 1) >= t->total_steps; /* the rest is for what was found */

    s->n_steps++;
    t->warmup_steps = t->warmup_steps > step + 2 ? t->warmup_steps : step + 2;
    if (survey_conclude(t, last)) {
        s->status = recut_on_all_cores(t);
    }
}

bool survey_after_step(struct rank *r, uint64_t step)
{
    struct trainer *t = r->t;

    if (t->survey == NULL || !t->survey->on) {
        return true;
    }
    due_take_all(r, true);
    if (r->index == 0) {
        begin_probes(t);
    }
    if (!loop_meet(r, "the measuring of buckets")) {
        return false;
    }
    probe_all(r);
    if (!loop_meet(r, "the end of the measuring of buckets")) {
        return false;
    }
    if (!all_fine(t)) {
        r->status = r->status == ST_OK ? ST_PEER : r->status;
        return false;
    }
    if (r->index == 0) {
        conclude(r, step);
    }
    if (!loop_meet(r, "new buckets")) {
        return false;
    }
    if (r->status == ST_OK) {
        r->status = t->survey->status == ST_OK || r->index == 0 ? t->survey->status : ST_PEER;
    }
    r->mark_s = clock_now_s();
    r->carried_s = 0;
    return r->status == ST_OK;
}
