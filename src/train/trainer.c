#include "train/trainer.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "models/models.h"
#include "topo/topo_discover.h"
#include "train/state.h"

enum {
    MESH_LATENCY_NS = 500
};
/* Between two cores through memory; only predictions depend on it. */
static const int64_t MESH_BYTES_PER_S = 20000000000;

/* For a rank that the others have given up: to come back, before the run ends without it. */
static const double GRACE_S = 2;

static void read_options(struct trainer *t)
{
    const struct config *cfg = t->cfg;
    t->n_ranks = (int)cfg->device.count;
    t->on_nan = strcmp(cfg->train.on_nan, "skip") == 0     ? ON_NAN_SKIP
                : strcmp(cfg->train.on_nan, "ignore") == 0 ? ON_NAN_IGNORE
                                                           : ON_NAN_STOP;
    t->rooted = strcmp(cfg->comm.sync, "reduce-broadcast") == 0;
    t->across = t->rooted || strcmp(cfg->comm.order, "priority") == 0;
    t->summary = (struct trainer_summary){
        .train_loss = NAN, .test_loss = NAN, .top1 = NAN, .top5 = NAN, .images_per_s = NAN};
}

/* What cannot be had together. */
static enum status check_options(const struct trainer *t)
{
    const struct config *cfg = t->cfg;
    const char *what = t->rooted ? "sync = reduce-broadcast" : "order = priority";

    if (cfg->comm.credit_bytes != 0 && strcmp(cfg->comm.fabric, "memory") == 0) {
        log_warn("[comm] credit_bytes has no effect with fabric = memory, where the threads of the "
                 "ranks move one chunk each at a time, leave it out or use fabric = emulate");
    }
    if (!t->across) {
        return ST_OK;
    }
    if (!cfg->comm.overlap && !t->rooted) {
        return log_fail(ST_INPUT,
                        "%s lets sums come in during the next forward pass, [comm], and cannot go "
                        "with overlap = no, use order = fifo",
                        what);
    }
    if (t->on_nan == ON_NAN_SKIP) {
        return log_fail(ST_INPUT,
                        "%s changes weights before all ranks have seen all sums, [comm], and "
                        "cannot go with [train] on_nan = skip, use on_nan = stop",
                        what);
    }
    return ST_OK;
}

/* --- threads and cores */

static int default_threads(int n_cores, int n_ranks)
{
    const char *omp = getenv("OMP_NUM_THREADS"); /* a user's wish */
    int64_t wish;

    if (omp != NULL && text_to_i64(omp, &wish) && wish > 0 && wish < 4096) {
        return (int)wish;
    }
    return n_cores > n_ranks ? n_cores / n_ranks : 1;
}

/* Deal the cores that this process may use to the ranks, `n_threads` each. */
static void deal_cores(const struct trainer *t, const cpu_set_t *mask, cpu_set_t *sets)
{
    int core = 0;

    for (int r = 0; r < t->n_ranks; r++) {
        CPU_ZERO(&sets[r]);
        for (int k = 0; k < t->n_threads; core++) {
            if (CPU_ISSET(core, mask)) {
                CPU_SET(core, &sets[r]);
                k++;
            }
        }
    }
}

static enum status start_crew(struct trainer *t)
{
    cpu_set_t *sets = NULL;
    int n_cores = 1;
    enum status st;

    if (sched_getaffinity(0, sizeof t->cores, &t->cores) == 0) {
        n_cores = CPU_COUNT(&t->cores);
    }
    t->n_threads = (int)t->cfg->device.threads_per_device;
    if (t->n_threads == 0) {
        t->n_threads = default_threads(n_cores, t->n_ranks);
    }
    t->pinned = t->cfg->device.pin && t->n_ranks * t->n_threads <= n_cores;
    if (t->cfg->device.pin && !t->pinned) {
        log_warn("devices are not pinned: %d devices of %d threads do not fit on %d cores",
                 t->n_ranks, t->n_threads, n_cores);
    }
    if (t->pinned) {
        sets = mem_alloc((size_t)t->n_ranks, sizeof *sets);
        if (sets == NULL) {
            return ST_NOMEM;
        }
        deal_cores(t, &t->cores, sets);
    }
    st = meeting_init(&t->meeting, t->n_ranks, t->n_ranks * t->n_threads <= n_cores);
    if (st == ST_OK) {
        st = crew_create(t->n_ranks, sets, &t->crew);
    }
    mem_free(sets);
    return st;
}

/* --- data and model */

static enum status check_test_set(const struct trainer *t)
{
    size_t a[3], b[3];

    dataset_shape(t->train, a);
    dataset_shape(t->test, b);
    if (memcmp(a, b, sizeof a) != 0) {
        return log_fail(ST_INPUT,
                        "test images have another shape, %zux%zux%zu and not %zux%zux%zu, give "
                        "training and test images of one data set",
                        b[0], b[1], b[2], a[0], a[1], a[2]);
    }
    if (dataset_classes(t->test) > dataset_classes(t->train)) {
        return log_fail(ST_INPUT,
                        "test labels have %d classes, training labels %d, set [data] classes",
                        dataset_classes(t->test), dataset_classes(t->train));
    }
    return ST_OK;
}

static enum status open_data(struct trainer *t)
{
    const struct config_data *cfg = &t->cfg->data;
    const uint64_t seed = (uint64_t)t->cfg->train.seed;

    TRY(dataset_open(cfg, DATA_TRAIN, seed, &t->train));
    TRY(work_begin(t));
    TRY(dataset_open(cfg, DATA_TEST, seed, &t->test));
    return check_test_set(t);
}

static enum status make_model(struct trainer *t)
{
    size_t shape[3];
    struct shape input;

    dataset_shape(t->train, shape);
    input = (struct shape){shape[0], shape[1], shape[2]};
    TRY(model_create(&t->cfg->model, input, dataset_classes(t->train), &t->net));
    if (t->ops == NULL) {
        t->ops = nn_ops_find(t->cfg->device.type);
    }
    if (t->ops == NULL) {
        return log_fail(ST_UNSUPPORTED,
                        "this build has no devices of type '%s', [device] type, use cpu or build "
                        "with support for it",
                        t->cfg->device.type);
    }
    return ST_OK;
}

static enum status make_tuning(struct trainer *t)
{
    char *path = rundir_tuning_cache();
    enum status st;

    if (path == NULL) {
        return ST_NOMEM;
    }
    st = tuning_create(path, &t->tuning);
    mem_free(path);
    return st;
}

/* The topology's first devices, as many as there are ranks. */
static enum status take_devices(struct trainer *t, struct topo *all)
{
    int *ranks;
    enum status st;

    if (all->n_devices < t->n_ranks) {
        return log_fail(ST_INPUT,
                        "topology %s has %d devices, [comm] topology, %d are wanted by [device] "
                        "count, use at most %d",
                        all->name, all->n_devices, t->n_ranks, all->n_devices);
    }
    ranks = mem_alloc((size_t)t->n_ranks, sizeof *ranks);
    if (ranks == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < t->n_ranks; r++) {
        ranks[r] = r;
    }
    st = topo_subset(all, ranks, t->n_ranks, &t->topo);
    mem_free(ranks);
    return st;
}

static enum status make_topology(struct trainer *t)
{
    const char *name = t->cfg->comm.topology;
    const bool found = strcmp(name, "auto") == 0;
    struct topo *all;
    enum status st;

    if (name[0] == '\0' || (found && !t->on_device)) {
        return topo_mesh(t->n_ranks, MESH_BYTES_PER_S, MESH_LATENCY_NS, &t->topo);
    }
    TRY(found ? topo_discover(&(struct topo_discovery){.library = NULL}, &all)
              : topo_open(name, &all));
    st = take_devices(t, all);
    topo_destroy(all);
    return st;
}

static enum status make_records(struct trainer *t)
{
    const size_t n = (size_t)t->n_ranks;

    t->records[0] = mem_alloc(n, sizeof *t->records[0]);
    t->records[1] = mem_alloc(n, sizeof *t->records[1]);
    t->evals = mem_alloc(n, sizeof *t->evals);
    t->agreements = mem_alloc(n, sizeof *t->agreements);
    t->totals.rank_images = mem_alloc(n, sizeof *t->totals.rank_images);
    return t->records[0] != NULL && t->records[1] != NULL && t->evals != NULL &&
                   t->agreements != NULL && t->totals.rank_images != NULL
               ? ST_OK
               : ST_NOMEM;
}

static enum status write_tuning(const struct trainer *t)
{
    char *path = rundir_file(t->rundir, "tuning.txt");
    enum status st;

    if (path == NULL) {
        return ST_NOMEM;
    }
    st = tuning_write(t->tuning, path);
    mem_free(path);
    return st;
}

/* Before the data are read, which may take a while. */
static enum status find_devices(struct trainer *t)
{
    int n;

    if (t->device == NULL) {
        TRY(device_find(t->cfg->device.type, &t->device));
    }
    t->on_device = t->device != &device_cpu;
    return t->device->count(&n);
}

/* The run directory comes last, so that bad input leaves none behind. */
static enum status build(struct trainer *t)
{
    TRY(inject_parse(t->cfg->debug.inject, (int)t->cfg->device.count, &t->inject));
    TRY(find_devices(t));
    read_options(t);
    TRY(fuse_decide(t));
    TRY(check_options(t));
    TRY(precision_check(t));
    TRY(open_data(t));
    TRY(work_plan(t));
    TRY(make_model(t));
    TRY(make_tuning(t));
    TRY(make_topology(t));
    TRY(make_records(t));
    TRY(start_crew(t));
    TRY(arena_open(t));
    TRY(replica_build_all(t));
    TRY(survey_init(t));
    if (t->dry_run) {
        return ST_OK;
    }
    TRY(rundir_create(t->cfg, &t->rundir));
    TRY(tracing_init(t));
    return write_tuning(t);
}

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
    st = build(t);
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

static void tell_stuck(const struct trainer *t)
{
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
