/*
 * Evaluation: every test image counts once, on whatever rank it falls. Each rank adds up its share,
 * and rank 0 adds the shares in the order of the ranks, so the number of correct images is the same
 * for every number of devices.
 *
 * Batch norm: a rank's running statistics follow its own batches. At every evaluation and at the
 * end all ranks go on from the plain mean over the ranks (each rank has seen the same number of
 * batches).
 */
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "train/state.h"

/* all[n_ranks][n]: the states become their mean, in the first one. */
static void average(float *all, size_t n_ranks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t k = 0; k < n_ranks; k++) {
            sum += all[k * n + i];
        }
        all[i] = (float)(sum / (double)n_ranks);
    }
}

/* All ranks but the caller's wait meanwhile. */
static enum status share_average(struct trainer *t, size_t n)
{
    const size_t n_ranks = (size_t)t->n_ranks;
    float *all = mem_alloc(n_ranks * n, sizeof *all);
    enum status st = all != NULL ? ST_OK : ST_NOMEM;

    for (size_t k = 0; st == ST_OK && k < n_ranks; k++) {
        st = arena_get(&t->ranks[k], all + k * n, graph_state(t->ranks[k].graph), n);
    }
    if (st == ST_OK) {
        average(all, n_ranks, n);
    }
    for (size_t k = 0; st == ST_OK && k < n_ranks; k++) {
        st = arena_put(&t->ranks[k], graph_state(t->ranks[k].graph), all, n);
    }
    mem_free(all);
    return st;
}

bool evaluate_sync_state(struct rank *r)
{
    struct trainer *t = r->t;
    const size_t n = graph_state_n(r->graph);

    if (n == 0 || t->n_ranks == 1) {
        return true;
    }
    if (!loop_meet(r, "the mean of the batch-norm statistics")) {
        return false;
    }
    if (r->index == 0) {
        rank_fail(r, share_average(t, n));
    }
    return loop_meet(r, "the mean of the batch-norm statistics");
}

static void run_share(struct rank *r, struct eval_record *out)
{
    struct graph_result one;
    struct batch batch;

    *out = (struct eval_record){.status = ST_OK};
    loader_start(r->test_loader, 0, 0);
    while (out->status == ST_OK && loader_next(r->test_loader, &batch)) {
        if (batch.n == 0) {
            continue;
        }
        out->status = graph_forward(r->graph, batch.x, batch.labels, batch.n, false, 0, NULL, &one);
        if (out->status == ST_OK) {
            out->result.loss_sum += one.loss_sum;
            out->result.top1 += one.top1;
            out->result.top5 += one.top5;
            out->result.n += one.n;
        }
    }
}

static void add_up(struct trainer *t)
{
    struct trainer_summary *s = &t->summary;
    struct graph_result sum = {0, 0, 0, 0};

    for (int k = 0; k < t->n_ranks; k++) {
        sum.loss_sum += t->evals[k].result.loss_sum;
        sum.top1 += t->evals[k].result.top1;
        sum.top5 += t->evals[k].result.top5;
        sum.n += t->evals[k].result.n;
    }
    s->test_loss = tally_mean(sum.loss_sum, sum.n);
    s->top1 = tally_mean((double)sum.top1, sum.n);
    s->top5 = tally_mean((double)sum.top5, sum.n);
    s->test_n = sum.n;
    s->test_top1_n = sum.top1;
}

bool evaluate_run(struct rank *r)
{
    struct trainer *t = r->t;

    if (!evaluate_sync_state(r)) {
        return false;
    }
    run_share(r, &t->evals[r->index]);
    if (t->evals[r->index].status == ST_OK) {
        t->evals[r->index].status = r->status;
    }
    if (!loop_meet(r, "the end of the evaluation")) {
        return false;
    }
    if (r->index == 0) {
        add_up(t);
    }
    for (int k = 0; k < t->n_ranks; k++) {
        if (t->evals[k].status != ST_OK) {
            r->status = k == r->index ? t->evals[k].status : ST_PEER;
            return false;
        }
    }
    return true;
}
