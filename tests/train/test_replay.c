/*
 * Passes on devices as graphs: captured once, replayed for every later step. What changes from step
 * to step must not be in them.
 */
#include "fixture_sealed.h"

#include "base/log.h"
#include "nn/graph.h"
#include "train/state.h"

TestSuite(replay, .init = scratch_make, .fini = scratch_remove);

enum {
    MAX_SETTINGS = 16
};

/* Runs that are long enough for every batch size, in both places of memory, to be replayed. */
static const char *const ways[][MAX_SETTINGS] = {
    {"device.count=1", "train.epochs=3"},
    {"device.count=4", "train.epochs=6", "comm.buckets=layer", "comm.backend=ring"},
    {"device.count=2", "train.epochs=6", "data.n_train=90", "data.drop_last=no",
     "train.eval_every=1"},
    {"device.count=3", "train.epochs=6", "data.n_train=97", "train.batch_per_device=16"},
    {"device.count=2", "train.epochs=5", "train.accum_steps=3", "train.batch_per_device=4"},
    {"device.count=2", "train.epochs=4", "comm.order=priority", "comm.buckets=layer",
     "train.eval_every=1"},
    {"device.count=3", "train.epochs=6", "comm.sync=reduce-broadcast"},
    {"device.count=2", "train.epochs=4", "comm.overlap=no"},
    {"device.count=2", "train.epochs=4", "debug.verify_every=3"},
    {"device.count=2", "train.epochs=4", "train.on_nan=skip", "debug.inject=nan:1@9"},
    {"device.count=2", "train.epochs=4", "train.on_nan=stop", "debug.inject=nan:0@9"},
    {"device.count=2", "train.epochs=4", "optim.policy=poly", "optim.lr=0.1"},
    {"device.count=2", "train.epochs=3", "optim.loss_scale=1024", "optim.loss_scale_steps=2"},
    {"device.count=2", "train.epochs=3", "model.hidden=16,12,9", "model.dropout=0.5"},
    {"model.name=resnet20", "data.shape=3,16,16", "device.count=2", "data.n_train=36",
     "data.n_test=9", "train.epochs=4", "train.batch_per_device=4"},
};

Test(replay, gives_the_bits_of_the_host)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct outcome host = run(ways[i]);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct outcome sealed = run_sealed(ways[i], seed);
            cr_assert(same(&sealed, &host), "%s %s %s", ways[i][0], ways[i][1], ways[i][2]);
            cr_assert_gt(sealed.summary.graphs, 0);
            free_outcome(&sealed);
        }
        free_outcome(&host);
    }
    cr_assert_eq(sealed_faults(), 0);
}

/* That these devices would show it: the step decides what dropout drops, and the scale of the loss
 * changes. */
Test(replay, numbers_that_are_captured_are_seen)
{
    static const char *const baked[][MAX_SETTINGS] = {
        {"device.count=2", "train.epochs=3", "optim.loss_scale=1024", "optim.loss_scale_steps=2"},
        {"device.count=2", "train.epochs=3", "model.hidden=16,12,9", "model.dropout=0.5"},
    };

    for (size_t i = 0; i < 2; i++) {
        struct outcome host = run(baked[i]), sealed;
        sealed_bake(true);
        sealed = run_sealed(baked[i], 1);
        sealed_bake(false);
        cr_assert(!same(&sealed, &host), "%s", baked[i][2]);
        free_outcome(&sealed);
        free_outcome(&host);
    }
}

/* One graph for each stretch between the ends of buckets, both ways, in both places of a batch. */
Test(replay, has_a_graph_for_each_stretch)
{
    static const char *const one[] = {"comm.buckets=one", "train.epochs=3", "train.eval_every=0",
                                      "data.n_test=8", NULL};
    static const char *const layers[] = {"comm.buckets=layer", "train.epochs=3",
                                         "train.eval_every=0", "data.n_test=8", NULL};
    struct outcome o = run_sealed(one, 1);

    cr_assert_eq(o.summary.graphs, 2 * (1 + 1), "%zu", o.summary.graphs);
    free_outcome(&o);
    o = run_sealed(layers, 1);
    cr_assert_eq(o.summary.graphs, 2 * (1 + 2), "%zu", o.summary.graphs);
    free_outcome(&o);
}

/* --- a graph by itself */

struct cutter {
    struct graph *graph;
    int at; /* it cuts after this parameter's gradient */
};

static enum status cut(void *ctx, int i)
{
    const struct cutter *c = ctx;

    return i == c->at ? graph_cut(c->graph) : ST_OK;
}

static enum status train_once(struct trainer *t, int at)
{
    static float x[8 * 36];
    static int32_t labels[8];
    struct cutter c = {t->ranks[0].graph, at};
    struct graph_result result;
    const struct graph_hooks hooks = {&c, NULL, cut};

    TRY(graph_forward(c.graph, x, labels, 8, true, 0, NULL, &result));
    return graph_backward(c.graph, 1, &hooks);
}

static struct trainer *make_trainer(struct config *cfg)
{
    struct trainer *t = NULL;

    make_config(cfg, NULL);
    cr_assert_eq(trainer_create_on(cfg, true, sealed_device(), sealed_ops(), &t), ST_OK);
    return t;
}

Test(replay, other_cuts_than_those_captured_are_refused)
{
    struct config cfg;
    struct trainer *t = make_trainer(&cfg);
    char *said;
    int old;

    for (int i = 0; i < 6; i++) {
        cr_assert_eq(train_once(t, 1), ST_OK);
    }
    old = capture_stderr("err");
    cr_assert_eq(train_once(t, 2), ST_INTERNAL);
    release_stderr(old);
    said = slurp("err");
    cr_assert_not_null(strstr(said, "set [device] graph = off"), "%s", said);
    free(said);
    trainer_destroy(t);
    config_fini(&cfg);
    cr_assert_eq(sealed_faults(), 0);
}

/* Of the first capture, and the passes go on without one. */
Test(replay, every_failed_allocation_is_cleaned_up)
{
    enum status st = ST_NOMEM;

    for (size_t k = 1; st != ST_OK; k++) {
        size_t live = mem_live();
        struct config cfg;
        struct trainer *t = make_trainer(&cfg);
        cr_assert_eq(train_once(t, 1), ST_OK);
        cr_assert_eq(train_once(t, 1), ST_OK);
        mem_fail_at(k);
        st = train_once(t, 1);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text(st));
        for (int i = 0; i < 4; i++) {
            cr_assert_eq(train_once(t, 1), ST_OK);
        }
        trainer_destroy(t);
        config_fini(&cfg);
        cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
    }
    cr_assert_eq(sealed_faults(), 0);
}
