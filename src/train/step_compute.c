/* Forward and backward over the micro-batches of a step; buckets are posted on the way. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/step.h"

static void post(struct step *s, size_t b)
{
    const double from_s = s->r->traced ? clock_now_s() : 0;

    step_keep_gradients(s, b);
    if (!step_loses_bucket(s, b)) {
        step_fail(s, comm_post(s->r->t->comm, s->r->index, b));
        s->r->left[b] = BUCKET_POSTED;
    }
    if (s->r->traced) {
        trace_add(s->r->t->trace, s->r->index, TRACE_POST, b, from_s, clock_now_s());
    }
}

void step_post_all(struct step *s)
{
    for (size_t b = 0; b < s->r->t->n_buckets && s->r->status == ST_OK; b++) {
        post(s, b);
    }
}

/* Move the gradients of a bucket from backward's arena into the sums over the micro-batches. */
static void accumulate(struct rank *r, size_t b)
{
    const struct comm_bucket *k = &r->t->buckets[b];
    const float *from = r->grads + k->offset;
    float *to = r->sums + k->offset;

    if (r->grads != r->sums) {
        rank_fail(r, r->first_micro ? arena_copy(r, to, from, k->n) : arena_add(r, to, from, k->n));
    }
}

/* --- the layers in the trace: from one layer with parameters to the next */

static void trace_layer(struct step *s, enum trace_kind kind)
{
    if (s->layer >= 0) {
        trace_add(s->r->t->trace, s->r->index, kind, (size_t)s->layer, s->layer_from_s,
                  clock_now_s());
    }
}

static enum status before_forward(void *ctx, int i)
{
    struct step *s = ctx;
    struct rank *r = s->r;
    const int layer = r->traced ? r->t->layer_of[i] : -1;

    if (r->traced && layer != s->layer) {
        trace_layer(s, TRACE_FORWARD);
        s->layer = -1;
    }
    if (r->t->across) { /* the same cuts in every pass, whatever is due */
        rank_fail(r, graph_cut(r->graph));
    }
    due_take(r, (size_t)r->t->bucket_of[i], true);
    if (r->traced && layer != s->layer) {
        s->layer = layer;
        s->layer_from_s = clock_now_s();
    }
    return r->status;
}

/*
 * All gradients of bucket `b` are there. Where the reduction updates the weights at once, it must
 * wait for this layer's backward pass to its inputs, which reads them and comes after the hook.
 */
static void complete(struct step *s, size_t b)
{
    struct rank *r = s->r;

    rank_fail(r, graph_cut(r->graph));
    accumulate(r, b);
    if (r->status != ST_OK || !r->last_micro || !r->t->cfg->comm.overlap) {
        return;
    }
    if (r->t->fused) {
        s->held = (int)b;
    } else {
        post(s, b);
    }
}

static void post_held(struct step *s)
{
    if (s->held >= 0 && s->r->status == ST_OK) {
        post(s, (size_t)s->held);
        s->held = -1;
    }
}

static enum status after_backward(void *ctx, int i)
{
    struct step *s = ctx;
    struct rank *r = s->r;
    const int b = r->t->bucket_of[i];

    survey_gradient(r, i);
    if (r->traced && r->t->layer_of[i] != s->layer) {
        s->layer = r->t->layer_of[i];
        trace_layer(s, TRACE_BACKWARD);
    }
    post_held(s);
    if (--r->left[b] == 0) {
        complete(s, (size_t)b);
    }
    s->layer_from_s = r->traced ? clock_now_s() : 0;
    survey_resume(r);
    return r->status;
}

/* What the oldest forward pass came to; a device gets there while the next calls are made. */
static void collect_one(struct rank *r)
{
    struct step_record *to = r->owed[0];
    struct graph_result result = {0, 0, 0, 0};

    rank_fail(r, graph_collect(r->graph, &result));
    r->owed[0] = r->owed[1];
    r->n_owed--;
    if (r->status != ST_OK) {
        return;
    }
    to->loss_sum += result.loss_sum;
    to->n += result.n;
    to->top1 += result.top1;
    to->top5 += result.top5;
    if (!isfinite(result.loss_sum) && to->nonfinite == NULL) {
        const char *layer = r->t->on_nan == ON_NAN_STOP ? graph_find_nonfinite(r->graph) : NULL;
        to->nonfinite = layer == NULL ? "loss" : layer;
    }
}

void step_collect(struct rank *r, size_t n_left)
{
    while (r->n_owed > n_left && r->status == ST_OK) {
        collect_one(r);
    }
}

/* Late: what is left of the step before. */
static void collect_before(struct step *s)
{
    struct rank *r = s->r;
    struct step_record *before = &r->t->records[(s->number + 1) % 2][r->index];

    if (before->counted) { /* at the end of an epoch; others may be reading it */
        return;
    }
    while (r->n_owed > 0 && r->owed[0] == before && r->status == ST_OK) {
        collect_one(r);
    }
    before->counted = r->status == ST_OK;
}

static void forward(struct step *s, const struct batch *batch)
{
    struct rank *r = s->r;
    const struct graph_hooks hooks = {s, before_forward, NULL};

    s->layer = -1;
    step_fail(s, graph_forward(r->graph, batch->x, batch->labels, batch->n, true,
                               s->number * r->t->schedule.accum + batch->micro, &hooks, NULL));
    if (r->traced) {
        trace_layer(s, TRACE_FORWARD);
    }
    if (r->status != ST_OK) {
        return;
    }
    r->owed[r->n_owed++] = s->mine;
    if (r->place == NULL) {
        step_collect(r, 0);
    } else {
        step_fail(s, arena_vote(r, s->number, graph_loss(r->graph), r->first_micro));
    }
}

static void reset_buckets(struct rank *r)
{
    memset(r->left, 0, r->t->n_buckets * sizeof *r->left);
    for (int i = 0; i < graph_n_params(r->graph); i++) {
        r->left[r->t->bucket_of[i]]++;
    }
}

static void backward(struct step *s, const struct batch *batch)
{
    struct rank *r = s->r;
    const struct graph_hooks hooks = {s, NULL, after_backward};

    due_take_all(r, true); /* of parameters that the forward pass does not read */
    reset_buckets(r);
    s->layer = -1;
    s->layer_from_s = r->traced ? clock_now_s() : 0;
    survey_resume(r);
    step_fail(s, graph_backward(r->graph, r->scale.factor / (float)batch->n_global, &hooks));
    post_held(s);
    r->first_micro = false;
}

/* Samples or not, a rank takes part in every sum: with zeros if it had none in the whole step. */
static void finish_without_samples(struct step *s)
{
    struct rank *r = s->r;

    due_take_all(r, true);
    if (r->first_micro) {
        step_fail(s, arena_clear(r, r->sums, r->t->n));
        step_fail(s, r->place != NULL ? arena_vote(r, s->number, NULL, true) : ST_OK);
    }
    if (r->t->cfg->comm.overlap) {
        step_post_all(s);
    }
}

static void micro_batch(struct step *s, struct batch *batch)
{
    struct rank *r = s->r;

    r->last_micro = batch->micro + 1 == r->t->schedule.accum;
    step_plant_faults(s, batch);
    step_collect(r, r->t->late ? 1 : 0);
    if (batch->n > 0 && r->status == ST_OK) {
        forward(s, batch);
    }
    if (r->last_micro && (!r->t->shared || r->t->fused) && r->place == NULL) {
        step_arrive(s);
    }
    if (r->status != ST_OK) {
        return;
    }
    if (batch->n > 0) {
        backward(s, batch);
    } else if (r->last_micro) {
        finish_without_samples(s);
    }
}

/* All micro-batches. Every rank gets as many as the others, some of them empty. */
void step_compute(struct step *s)
{
    struct rank *r = s->r;
    struct step_times *times = &s->mine->times;
    double now = clock_now_s();

    times->exposed_s = r->place == NULL ? r->carried_s : 0;
    r->first_micro = true;
    for (size_t m = 0; m < r->t->schedule.accum; m++) {
        struct batch batch = {.micro = m};
        double ready, exposed_s;
        if (r->status == ST_OK && !loader_next(r->loader, &batch)) {
            step_fail(s, log_fail(ST_INTERNAL, "the images of rank %d ended early, step %llu",
                                  r->index, (unsigned long long)s->number + 1));
        }
        ready = clock_now_s();
        times->data_s += ready - now;
        if (r->traced) {
            trace_add(r->t->trace, r->index, TRACE_DATA, 0, now, ready);
        }
        exposed_s = times->exposed_s;
        micro_batch(s, &batch);
        now = clock_now_s();
        times->compute_s += now - ready - (times->exposed_s - exposed_s);
    }
    if (r->place != NULL) { /* backward is under way, and what it follows is known */
        if (r->t->late) {
            collect_before(s);
        } else {
            step_collect(r, 0);
        }
        step_arrive(s);
        times->compute_s += clock_now_s() - now;
    }
}
