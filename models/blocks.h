#ifndef MODELS_BLOCKS_H
#define MODELS_BLOCKS_H

#include "nn/net.h"

/*
 * What several families are made of. Like the builder functions of nn/net.h these return the number
 * of the value they make or -1, and pass -1 on.
 */

/* Convolution and dense layer with bias; weights and biases start uniform in ±1/sqrt(fan_in). */
int block_conv_uniform(struct net *n, int x, const char *name, struct conv_desc d);
int block_dense_uniform(struct net *n, int x, const char *name, size_t units);

/* Convolution without bias, batch norm. Their names are `prefix` + "conv" or "bn" + `suffix`. */
int block_conv_norm(struct net *n, int x, const char *prefix, const char *suffix,
                    struct conv_desc d);

/* How a residual block passes its input on where its output has another shape. */
enum block_shortcut {
    BLOCK_PROJECTION, /* 1x1 convolution with stride, batch norm */
    BLOCK_PAD,        /* every stride-th pixel, zero channels added: no parameters */
};

/*
 * Residual blocks of He et al. 2016, followed by ReLU; all layer names start with `name`. Basic:
 * two 3x3 convolutions of `channels`. Bottleneck: 1x1, 3x3, 1x1 with 4 * `channels` at the end; the
 * stride is in the 3x3 convolution.
 */
int block_basic(struct net *n, int x, const char *name, size_t channels, size_t stride,
                enum block_shortcut shortcut);
int block_bottleneck(struct net *n, int x, const char *name, size_t channels, size_t stride);

#endif
