#ifndef TEST_REFERENCE_H
#define TEST_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "nn/graph.h"
#include "nn/net.h"

/*
 * Plain loops in fp64 over canonical arrays: what a network computes, written down a second time.
 * Dropout is left out (as in evaluation).
 */
struct reference {
    double loss_sum;
    size_t top1, top5;
};

/* `params`: canonical; `state`: running statistics, used (not updated) unless `training`. */
struct reference reference_forward(const struct net *net, const double *params, const float *state,
                                   const float *x, const int32_t *labels, size_t n, bool training);

/* A built graph with bound arenas and test data for it. */
struct bench {
    struct net *net;
    struct graph *graph;
    float *params, *grads; /* arenas */
    float *canonical;      /* the parameters */
    double *exact;         /* the same */
    float *x;              /* of the largest batch */
    int32_t *labels;
    size_t n;
};

struct bench_args {
    const size_t *batches;
    size_t n_batches;
    enum graph_dtype compute;
    int n_threads;
    struct tuning *tuning;
    int forced_variant; /* of the op library, from 1; 0: its choice */
};

/* Takes the net. Random parameters and data; fails the test on any error. */
struct bench bench_create(struct net *net, const struct bench_args *args);
void bench_destroy(struct bench *b);

/* Loss and counts of the graph and of the reference are the same; `tolerance` is relative. */
struct graph_result bench_check_loss(struct bench *b, size_t n, bool training, double tolerance);

/*
 * The gradient of every parameter against central differences of the reference's loss, at up to
 * `samples` elements of each. Errors are relative to the largest gradient of the parameter.
 */
void bench_check_gradients(struct bench *b, size_t n, float scale, size_t samples,
                           double tolerance);

/* Of 3x3, which keeps the size where the stride is 1. */
struct conv_desc bench_conv3(size_t channels, size_t stride);

/* A residual network with everything that is fused; `c` channels. */
struct net *bench_residual_net(size_t c, size_t size, double dropout);

/* It without dropout, built for these batches. */
extern const size_t bench_batches[3];
struct bench bench_residual(size_t c, size_t size);

/* The gradients, times 0.5, of a step of training on the first `n` samples: out[graph_arena_n] */
void bench_gradients(struct bench *b, size_t n, uint64_t step, float *out);

/* A number in (-1, 1) that differs by index and stream. */
float bench_random(uint64_t stream, size_t i);

#endif
