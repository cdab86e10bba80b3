#ifndef NN_NET_H
#define NN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

/*
 * A network as a description: layers, shapes and parameters, without memory or arithmetic. models/
 * writes it, the graph (nn/graph.h) executes it. Values are numbered in the order in which they are
 * made; value 0 is the input x[N,C,H,W]. Shapes leave out N. A dense layer sees its input as [N,
 * C·H·W] and gives [N, units, 1, 1].
 *
 * Builder functions return the number of the value they make, or -1 after an error, which is logged
 * once with the layer's name; they take -1 as an input and pass it on, so a model checks only its
 * last value.
 */
struct net;

enum layer_kind {
    LAYER_INPUT,
    LAYER_CONV2D,
    LAYER_BATCH_NORM,
    LAYER_RELU,
    LAYER_MAX_POOL,
    LAYER_AVG_POOL,
    LAYER_GLOBAL_POOL,
    LAYER_DENSE,
    LAYER_ADD,
    LAYER_CONCAT,
    LAYER_LRN,
    LAYER_DROPOUT,
    LAYER_PAD_CHANNELS, /* stride s and zero channels: the parameter-free shortcut of CIFAR ResNets
                         */
    LAYER_SOFTMAX_LOSS,
    LAYER_KINDS,
};

enum param_role {
    PARAM_WEIGHT,
    PARAM_BIAS,
    PARAM_GAMMA,
    PARAM_BETA
};

enum {
    LAYER_MAX_INPUTS = 8,
    LAYER_MAX_PARAMS = 2
};

struct shape {
    size_t c, h, w;
};

struct layer {
    enum layer_kind kind;
    char name[64];
    int inputs[LAYER_MAX_INPUTS]; /* values */
    int n_inputs;
    struct shape out; /* of the value the layer makes; its number is the layer's index */
    union {
        struct {
            size_t kernel_h, kernel_w, stride, pad, groups;
            bool bias;
        } conv; /* w[out.c, in.c/groups, kernel_h, kernel_w], b[out.c] */
        struct {
            double eps, momentum; /* running = momentum·running + (1-momentum)·batch */
        } norm;                   /* gamma[c], beta[c]; state: running mean[c] and variance[c] */
        struct {
            size_t kernel, stride, pad;
            bool ceil_mode;
            bool count_padding; /* average pooling: divide by kernel² at the border too */
        } pool;
        struct {
            size_t units;
            bool bias;
        } dense; /* w[units, in], b[units] */
        struct {
            size_t size;
            double alpha, beta, k;
        } lrn;
        struct {
            double rate;
        } dropout;
        struct {
            size_t stride;
        } pad_channels;
    } u;
    int params[LAYER_MAX_PARAMS]; /* indices into the net's parameters */
    int n_params;
};

struct param {
    int layer;
    enum param_role role;
    size_t dims[4]; /* canonical order, outermost first: OIHW, [units, in], [c] */
    int n_dims;
    size_t n;       /* elements */
    float init_std; /* normal with this deviation; uniform in ±init_bound where that is > 0; else
                       init_value */
    float init_bound;
    float init_value;
};

struct pool_desc {
    size_t kernel, stride, pad; /* stride 0 means kernel */
    bool ceil_mode, count_padding;
};

struct conv_desc {
    size_t channels, kernel, stride, pad, groups; /* 0 for stride and groups means 1 */
    bool bias;
};

/* Errors: ST_NOMEM, ST_INPUT (an empty shape). Value 0 is the input. */
MUST_CHECK enum status net_create(const char *name, struct shape input, struct net **out);
void net_destroy(struct net *n); /* takes NULL */

int net_conv2d(struct net *n, int x, const char *name, struct conv_desc d);
int net_batch_norm(struct net *n, int x, const char *name);
int net_relu(struct net *n, int x);
int net_max_pool(struct net *n, int x, struct pool_desc d);
int net_avg_pool(struct net *n, int x, struct pool_desc d);
int net_global_pool(struct net *n, int x);
int net_dense(struct net *n, int x, const char *name, size_t units, bool bias);
int net_add(struct net *n, int a, int b);
int net_concat(struct net *n, const int *x, int n_x); /* along C */
/* y = x · (k + alpha / size · sum of x² over the `size` channels around this one)^-beta */
int net_lrn(struct net *n, int x, size_t size, double alpha, double beta, double k);
int net_dropout(struct net *n, int x, double rate); /* rate 0 returns x */
int net_pad_channels(struct net *n, int x, size_t channels, size_t stride);

/*
 * End the network: the mean of the softmax cross-entropy of x[N, classes] against the labels.
 * It becomes the last layer, "loss", with an output of 1x1x1.
 * Checks that every value is used (a layer whose output feeds nothing would never get a gradient)
 * and that x has `classes` elements. Errors: ST_INPUT with the layer's name; ST_NOMEM; or the first
 * error of a builder function.
 */
MUST_CHECK enum status net_finish(struct net *n, int x, int classes);

/* Change how the last made layer's parameter `role` starts. Defaults: conv weights normal with
 * deviation sqrt(2 / fan_out), dense weights with sqrt(2 / fan_in) (He et al. 2015); gamma 1, beta
 * and biases 0. */
void net_init_last(struct net *n, enum param_role role, float std, float bound, float value);

const char *net_name(const struct net *n);
int net_n_layers(const struct net *n);
const struct layer *net_layer(const struct net *n, int i);
int net_n_params(const struct net *n);
const struct param *net_param(const struct net *n, int i);
size_t net_param_elements(const struct net *n); /* the field's parameter count */
int net_classes(const struct net *n);
/* Per sample, the products of convolutions and dense layers as the field counts them; a
 * multiply-add is 2. */
double net_forward_flops(const struct net *n);

/* A table for people: layer, output shape, parameters, FLOPs. */
void net_print(const struct net *n, FILE *out);

/* Canonical start value of element `i` of parameter `p`: a pure function of the seed. */
float net_init_value(const struct net *n, int p, uint64_t seed, size_t i);

#endif
