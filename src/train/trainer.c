#include "train/trainer.h"

#include <math.h>

#include "base/log.h"
#include "base/mem.h"
#include "train/state.h"

/* For a rank that the others have given up: to come back, before the run ends without it. */
static const double GRACE_S = 2;

enum status trainer_create(const struct config *cfg, bool dry_run, struct trainer **out)
{
    return trainer_create_on(cfg, dry_run, NULL, NULL, out);
}

static void tell_no_memory(void)
{
    log_error("no memory for this training, use a smaller model, batch or number of devices");
}

enum status trainer_create_on(const struct config *cfg, bool dry_run,
                              const struct device_ops *device, const struct nn_ops *ops,
                              struct trainer **out)
{
    struct trainer *t = mem_alloc(1, sizeof *t);
    enum status st;

    if (t == NULL) {
        return log_fail(ST_NOMEM, "no memory for the trainer, free some");
    }
    t->cfg = cfg;
    t->comm_cfg = cfg->comm;
    t->dry_run = dry_run;
    t->device = device;
    t->ops = ops;
    st = build_all(t);
    if (st == ST_NOMEM) {
        tell_no_memory();
    }
    if (st != ST_OK) {
        trainer_destroy(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

void trainer_destroy(struct trainer *t)
{
    if (t == NULL || t->stuck) {
        return;
    }
    tracing_fini(t);
    survey_fini(t);
    replica_release_all(t);
    arena_close(t);
    crew_destroy(t->crew);
    meeting_fini(&t->meeting);
    rundir_destroy(t->rundir);
    topo_destroy(t->topo);
    tuning_destroy(t->tuning);
    net_destroy(t->net);
    dataset_close(t->train);
    dataset_close(t->test);
    mem_free(t->records[0]);
    mem_free(t->records[1]);
    mem_free(t->evals);
    mem_free(t->agreements);
    mem_free(t->totals.rank_images);
    mem_free(t->batches);
    mem_free(t);
}

/* The first cause: what another rank's end did to a rank says nothing. */
static enum status first_cause(const struct trainer *t)
{
    enum status st = ST_OK;

    for (int r = 0; r < t->n_ranks; r++) {
        if (t->ranks[r].status != ST_OK && (st == ST_OK || st == ST_PEER)) {
            st = t->ranks[r].status;
        }
    }
    return st;
}

static void train_job(void *trainer, int rank)
{
    struct trainer *t = trainer;

    if (rank == 0) {
        describe_table(t, stdout);
        (void)fflush(stdout); /* an error stays and is found with the first report */
        progress_init(&t->progress, t->cfg->log.progress, stdout);
    }
    loop_run(t, rank);
}

static void end_job(void *trainer, int rank)
{
    struct trainer *t = trainer;

    if (rank == 0) {
        const enum status st[] = {t->stuck ? ST_OK : trace_close(t->trace), report_buckets(t),
                                  summary_write(t, t->result), report_end(t, t->result)};
        for (size_t i = 0; i < sizeof st / sizeof st[0] && t->end == ST_OK; i++) {
            t->end = st[i];
        }
    }
}

static bool is_hopeless(void *trainer)
{
    const struct trainer *t = trainer;

    return meeting_is_broken(&t->meeting);
}

/* A time-out has named those that did not come. */
static void tell_stuck(const struct trainer *t)
{
    if (t->result == ST_TIMEOUT) {
        return;
    }
    for (int r = 0; r < t->n_ranks; r++) {
        if (crew_is_busy(t->crew, r)) {
            log_error("rank %d has not come back %g s after the others gave it up, the process "
                      "ends without it, find out what became of it",
                      r, GRACE_S);
        }
    }
}

/* Where all ranks are gone, none is left to miss them. */
static void tell_gone(const struct trainer *t)
{
    int n = 0;

    for (int r = 0; r < t->n_ranks; r++) {
        n += t->ranks[r].gone;
    }
    if (n == t->n_ranks) {
        log_error("rank %d is gone and no rank is left, see [debug] inject", n - 1);
    }
}

enum status trainer_run(struct trainer *t, struct trainer_summary *out)
{
    struct trainer_summary *s = &t->summary;

    t->stuck = crew_run_until(t->crew, train_job, t, is_hopeless, GRACE_S) != ST_OK;
    t->result = first_cause(t);
    if (t->result == ST_NOMEM) {
        tell_no_memory();
    }
    tell_gone(t);
    s->steps = t->totals.steps;
    s->samples = t->totals.images;
    s->images_per_s = tally_images_per_s(&t->totals.timed);
    if (isnan(s->train_loss)) { /* not one whole epoch */
        s->train_loss = tally_mean(t->ranks[0].epoch.loss_sum, t->ranks[0].epoch.images);
    }
    if (t->stuck) { /* rank 0 may be the one */
        crew_run_here(t->crew, end_job, t);
        tell_stuck(t);
    } else {
        crew_run(t->crew, end_job, t);
    }
    *out = *s;
    return t->result != ST_OK ? t->result : t->end;
}

bool trainer_is_stuck(const struct trainer *t)
{
    return t->stuck;
}

void trainer_cancel(struct trainer *t, int signal_number)
{
    t->signal = signal_number;
}

struct export
{
    struct trainer *t;
    int rank;
    float *out;
    enum status status;
};

static void export_job(void *ctx, int rank)
{
    struct export *e = ctx;

    if (rank == e->rank) {
        struct rank *r = &e->t->ranks[rank];
        float *host = r->place != NULL ? mem_alloc(e->t->n, sizeof *host) : r->weights;
        e->status = host != NULL ? ST_OK : ST_NOMEM;
        if (e->status == ST_OK && r->place != NULL) {
            e->status = arena_get(r, host, r->weights, e->t->n);
        }
        if (e->status == ST_OK) {
            e->status = graph_export(r->graph, host, e->out);
        }
        if (r->place != NULL) {
            mem_free(host);
        }
    }
}

enum status trainer_weights(struct trainer *t, int rank, float *out, size_t n)
{
    struct export e = {t, rank, out, ST_OK};

    if (rank < 0 || rank >= t->n_ranks || n != trainer_n_weights(t)) {
        return log_fail(ST_BADARG, "no weights of rank %d in %zu values, there are %d ranks of %zu",
                        rank, n, t->n_ranks, trainer_n_weights(t));
    }
    crew_run(t->crew, export_job, &e);
    return e.status;
}

size_t trainer_n_weights(const struct trainer *t)
{
    return net_param_elements(t->net);
}
