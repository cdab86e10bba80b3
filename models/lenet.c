/*
 * LeNet-5 in the form that Caffe made common: convolutions of 20 and 50 channels, 5x5, each
 * followed by 2x2 max pooling and *not* by ReLU; 500 hidden units with ReLU. 431,080 parameters for
 * 1x28x28 and 10 classes. Weights and biases start uniform in ±1/sqrt(fan_in). model.dropout acts
 * on the hidden units. Source: LeCun et al. 1998.
 */
#include "models/blocks.h"
#include "models/families.h"

static enum status build(const struct config_model *cfg, int depth, int classes, struct net *net)
{
    struct pool_desc pool = {.kernel = 2, .stride = 2};
    int x;

    (void)depth;
    x = block_conv_uniform(net, 0, "conv1", (struct conv_desc){.channels = 20, .kernel = 5});
    x = net_max_pool(net, x, pool);
    x = block_conv_uniform(net, x, "conv2", (struct conv_desc){.channels = 50, .kernel = 5});
    x = net_max_pool(net, x, pool);
    x = net_relu(net, block_dense_uniform(net, x, "fc1", 500));
    x = net_dropout(net, x, cfg->dropout);
    return net_finish(net, block_dense_uniform(net, x, "fc2", (size_t)classes), classes);
}

const struct model_ops lenet = {
    .name = "lenet",
    .desc = "LeNet-5 with 20 and 50 channels and 500 hidden units",
    .min_size = 16,
    .build = build,
};
