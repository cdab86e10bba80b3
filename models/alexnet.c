/*
 * AlexNet in one column, with the two groups of the original and the order ReLU, normalisation,
 * pooling: 60,965,224 parameters for 3x227x227 and 1000 classes, 96 % of them in the dense layers.
 * Weights start normal with the deviations of the paper. model.dropout (0.5 in the paper) acts on
 * both hidden dense layers. Source: Krizhevsky et al. 2012.
 */
#include "models/families.h"

static int conv_relu(struct net *n, int x, const char *name, struct conv_desc d, float bias)
{
    d.bias = true;
    x = net_conv2d(n, x, name, d);
    net_init_last(n, PARAM_WEIGHT, 0.01f, 0.0f, 0.0f);
    net_init_last(n, PARAM_BIAS, 0.0f, 0.0f, bias);
    return net_relu(n, x);
}

static int dense(struct net *n, int x, const char *name, size_t units, float std, float bias)
{
    x = net_dense(n, x, name, units, true);
    net_init_last(n, PARAM_WEIGHT, std, 0.0f, 0.0f);
    net_init_last(n, PARAM_BIAS, 0.0f, 0.0f, bias);
    return x;
}

static int norm_pool(struct net *n, int x)
{
    return net_max_pool(n, net_lrn(n, x, 5, 5e-4, 0.75, 2.0),
                        (struct pool_desc){.kernel = 3, .stride = 2});
}

static enum status build(const struct config_model *cfg, int depth, int classes, struct net *net)
{
    struct conv_desc conv1 = {.channels = 96, .kernel = 11, .stride = 4};
    struct conv_desc conv2 = {.channels = 256, .kernel = 5, .pad = 2, .groups = 2};
    struct conv_desc conv3 = {.channels = 384, .kernel = 3, .pad = 1};
    struct conv_desc conv4 = {.channels = 384, .kernel = 3, .pad = 1, .groups = 2};
    struct conv_desc conv5 = {.channels = 256, .kernel = 3, .pad = 1, .groups = 2};
    int x;

    (void)depth;
    x = norm_pool(net, conv_relu(net, 0, "conv1", conv1, 0.0f));
    x = norm_pool(net, conv_relu(net, x, "conv2", conv2, 1.0f));
    x = conv_relu(net, x, "conv3", conv3, 0.0f);
    x = conv_relu(net, x, "conv4", conv4, 1.0f);
    x = conv_relu(net, x, "conv5", conv5, 1.0f);
    x = net_max_pool(net, x, (struct pool_desc){.kernel = 3, .stride = 2});
    x = net_relu(net, dense(net, x, "fc6", 4096, 0.01f, 1.0f));
    x = net_dropout(net, x, cfg->dropout);
    x = net_relu(net, dense(net, x, "fc7", 4096, 0.01f, 1.0f));
    x = net_dropout(net, x, cfg->dropout);
    return net_finish(net, dense(net, x, "fc8", (size_t)classes, 0.01f, 0.0f), classes);
}

const struct model_ops alexnet = {
    .name = "alexnet",
    .desc = "AlexNet with two groups and local response normalisation",
    .min_size = 67,
    .build = build,
};
