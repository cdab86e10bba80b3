#ifndef NN_GRAPH_H
#define NN_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "device/device.h"
#include "nn/net.h"

/*
 * One replica of a network on one device: memory, op library and the passes over the layers.
 * Replicas of one process that share a `tuning` have identical arenas, layouts and algorithms.
 *
 * Threads: one thread at a time drives a graph.
 */
struct graph;

/* --- the choice of algorithms and layouts
 * ---------------------------------------------------------------------- */

/*
 * What was timed per layer shape and pass, from which algorithms and layouts are chosen. Made once
 * per process and shared by all replicas. It is read from and kept in two places: the run's
 * directory (so that a run can be repeated bitwise) and a cache of the user, keyed by machine,
 * library version, threads, batch and shape.
 *
 * A graph that lacks times runs a few training steps with each variant before it is built, while
 * other graphs of the process wait. Without a cache path nothing is timed: where no file gives the
 * times, fixed rules choose, the same on every run. So do they with tuning = NULL.
 */
struct tuning;

/* `cache_path`: the user's cache file; NULL or "" for none. Missing files are fine; damaged ones
 * are ignored with a warning. Errors: ST_NOMEM. */
MUST_CHECK enum status tuning_create(const char *cache_path, struct tuning **out);
void tuning_destroy(struct tuning *t); /* takes NULL */
/* Add the choices of a file (they win over timing). Errors: ST_INPUT, ST_IO, ST_NOMEM. */
MUST_CHECK enum status tuning_read(struct tuning *t, const char *path);
/* Write all choices that were used. Errors: ST_IO. */
MUST_CHECK enum status tuning_write(const struct tuning *t, const char *path);

/* --- op libraries
 * ------------------------------------------------------------------------------------------------
 */

struct nn_ops; /* a library of operations: one slot per layer kind; see nn/ops.h */

/* The op library for a device type ("cpu", "cuda"), or NULL if this build has none; what is missing
 * of "cuda" is logged. */
const struct nn_ops *nn_ops_find(const char *device_type);
const char *nn_ops_version(const struct nn_ops *ops); /* "oneDNN 2.6.3, avx512_core_bf16" */

/* --- building
 * ------------------------------------------------------------------------------------------------------
 */

enum graph_dtype {
    GRAPH_FP32,
    GRAPH_BF16,
    GRAPH_FP16 /* GPUs only */
};

struct graph_args {
    const struct net *net; /* must outlive the graph */
    const struct nn_ops *ops;
    struct tuning *tuning; /* must outlive the graph; NULL: fixed rules choose */
    const size_t *
        batches; /* the batch sizes that will be run, descending; forward(n) works for these only */
    size_t n_batches;
    bool training;            /* false: forward only */
    enum graph_dtype compute; /* bf16, fp16: activations and products; the arenas stay fp32 */
    bool tf32;                /* GPUs: products of fp32 may round their factors to TF32 */
    int n_threads;            /* of the op library */
    const struct device_place *place; /* where it is computed; NULL: on the host. Must outlive it */
    uint64_t seed;                    /* dropout */
    int rank;                         /* dropout: ranks differ */
    bool capture; /* on devices that have graphs: run each pass from graphs, see graph_cut */
};

/*
 * Build a replica: choose algorithms and layouts, allocate activations. Call it from the thread
 * that will drive it (pages are placed near their first writer). Errors: ST_NOMEM; ST_UNSUPPORTED
 * with layer and shape.
 *
 * On a device of its own, arenas, values and state are the device's memory, x and labels are the
 * host's, and the passes only put work on the place's stream: what is put there before a pass is
 * done before it, and what follows a pass, or is put there by a hook, comes after what was put
 * there until then. The host waits for nothing but graph_collect.
 */
MUST_CHECK enum status graph_create(const struct graph_args *args, struct graph **out);
void graph_destroy(struct graph *g); /* takes NULL; waits for the stream */

/* --- arenas
 * --------------------------------------------------------------------------------------------------------
 */

/*
 * Parameters and gradients live in one flat fp32 arena each, in the order in which backward
 * finishes them, in the layout of the op library (padding is zero and stays zero under SGD). The
 * caller owns the arenas.
 */
struct graph_param {
    int param; /* index into the net's parameters */
    size_t offset,
        n; /* range in the arenas, n >= the canonical count; offset is a multiple of 16 elements */
};

size_t graph_arena_n(const struct graph *g);
int graph_n_params(const struct graph *g);
struct graph_param graph_param(const struct graph *g,
                               int i); /* ascending offsets: backward order */

/* Where weights are read and gradients written from now on; both [graph_arena_n], 64-byte aligned.
 * `grads` may be NULL without training. Before the first pass, where passes are captured. */
void graph_bind(struct graph *g, const float *params, float *grads);

/* Tell the graph that the bound parameters have changed; the next forward refreshes what it derives
 * from them. */
void graph_params_changed(struct graph *g);

/* Fill `params` (an arena, of the host) with the start values; a pure function of net and seed. */
void graph_init_params(const struct graph *g, uint64_t seed, float *params);

/* Convert between an arena of the host and the canonical order (net_param order, row-major,
 * concatenated; net_param_elements values). */
MUST_CHECK enum status graph_export(const struct graph *g, const float *arena, float *canonical);
MUST_CHECK enum status graph_import(const struct graph *g, const float *canonical, float *arena);

/* State outside the arenas: running means and variances of all batch norms, in layer order.
 * Canonical fp32, in the memory where the arenas are. */
size_t graph_state_n(const struct graph *g);
float *graph_state(struct graph *g);

/* --- passes
 * --------------------------------------------------------------------------------------------------------
 */

struct graph_result {
    double loss_sum;   /* sum over the samples, not their mean */
    size_t top1, top5; /* correct samples */
    size_t n;
};

/*
 * A hook is about to put something on the graph's stream, or to look at what is there: it must call
 * this before. A pass that is captured ends a stretch here, and puts it on the stream.
 *
 * Captured passes: the first pass of its kind (batch size, place of the batch, direction) is issued
 * call by call, the second one is captured, those that follow launch what was captured. Therefore
 * its hooks must cut at the same layers every time, or the pass fails with ST_INTERNAL.
 */
MUST_CHECK enum status graph_cut(struct graph *g);

/* Stretches that were captured so far. */
size_t graph_n_captured(const struct graph *g);

/*
 * Called around layers. `i` is an index for graph_param(). before_forward: parameter i is about to
 * be read (it may wait for it); after_backward: the gradient of parameter i is written. Either may
 * be NULL; an error ends the pass.
 */
struct graph_hooks {
    void *ctx;
    enum status (*before_forward)(void *ctx, int i);
    enum status (*after_backward)(void *ctx, int i);
};

/*
 * Forward pass over x[n,C,H,W] (canonical fp32) and labels[n], n one of the built batch sizes. In
 * training mode batch norm uses and updates batch statistics and dropout drops by (seed, rank,
 * step). `x` and `labels` are read until the backward pass has ended (on a device: only in this
 * call). Top-k: a sample is correct if fewer than k classes have a larger output, or an equal one
 * and a smaller index, than its label. With out = NULL the result is left for graph_collect.
 * Errors: a hook's; ST_INPUT for a label out of range (nothing is computed); ST_BADARG for a batch
 * size that was not built.
 */
MUST_CHECK enum status graph_forward(struct graph *g, const float *x, const int32_t *labels,
                                     size_t n, bool training, uint64_t step,
                                     const struct graph_hooks *hooks, struct graph_result *out);

/*
 * Wait for the result of the oldest forward pass that has left one. There is one on the host, and
 * up to two on a device: that of a pass may be asked for when the next one is under way. Errors:
 * ST_BADARG if there is none; the device's.
 */
MUST_CHECK enum status graph_collect(struct graph *g, struct graph_result *out);

/* On a device: where the sum of the losses of the last forward pass will be, for what is put on the
 * stream behind it. */
const double *graph_loss(const struct graph *g);

/*
 * Backward pass of the last training forward: overwrites the gradient arena with `scale` times the
 * gradient of the *sum* of the samples' losses. Errors: a hook's.
 */
MUST_CHECK enum status graph_backward(struct graph *g, float scale,
                                      const struct graph_hooks *hooks);

/* --- what it costs
 * ----------------------------------------------------------------------------------------------------
 */

struct graph_memory {
    size_t activations, gradients_of_activations, workspace, derived_weights; /* bytes */
};
struct graph_memory graph_memory(const struct graph *g);

/* Name of the layer of graph_param(g, i), for messages. */
const char *graph_param_name(const struct graph *g, int i);

/*
 * The first layer (in forward order) whose output holds a non-finite value, or NULL. It runs the
 * last forward pass once more, with the bound parameters and the same `x` and `labels`, which must
 * still be there; on a device the pass whose result was collected last, after which there is no
 * backward pass. For error messages.
 */
const char *graph_find_nonfinite(const struct graph *g);

#endif
