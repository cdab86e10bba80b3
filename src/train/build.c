/* Everything that a run needs, from the config. */
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
    if (st == ST_OK && t->cfg->device.tuning[0] != '\0') {
        st = tuning_read(t->tuning, t->cfg->device.tuning);
    }
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

enum status build_all(struct trainer *t)
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
