/*
 * ResNets for large images: a 7x7 convolution to 64 channels and 3x3 max pooling, both with stride
 * 2, four stages of residual blocks with 64, 128, 256 and 512 channels (4 times as many after
 * bottlenecks) that halve the image three times, global pooling, a dense layer. Shortcuts between
 * stages are projections. Bottlenecks have their stride in the 3x3 convolution. For 3x224x224 and
 * 1000 classes:
 *
 *              blocks            parameters    GFLOP forward
 *   resnet18   2 2 2 2 basic     11,689,512    3.6
 *   resnet34   3 4 6 3 basic     21,797,672    7.3
 *   resnet50   3 4 6 3 bottl.    25,557,032    8.2
 *
 * Convolutions start normal with deviation sqrt(2 / fan_out), the dense layer uniform in
 * ±1/sqrt(fan_in), norms with gamma 1 and beta 0. Source: He et al. 2016, table 1.
 */
#include <stdio.h>

#include "models/blocks.h"
#include "models/families.h"

static enum status build(const struct config_model *cfg, int depth, int classes, struct net *net)
{
    static const int small[4] = {2, 2, 2, 2}, large[4] = {3, 4, 6, 3};
    const int *blocks = depth < 34 ? small : large;
    int x;

    x = block_conv_norm(net, 0, "", "1",
                        (struct conv_desc){.channels = 64, .kernel = 7, .stride = 2, .pad = 3});
    x = net_max_pool(net, net_relu(net, x), (struct pool_desc){.kernel = 3, .stride = 2, .pad = 1});
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < blocks[stage]; i++) {
            size_t channels = (size_t)64 << stage, stride = stage > 0 && i == 0 ? 2 : 1;
            char name[32];

            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            x = depth < 50 ? block_basic(net, x, name, channels, stride, BLOCK_PROJECTION)
                           : block_bottleneck(net, x, name, channels, stride);
        }
    }
    x = net_dropout(net, net_global_pool(net, x), cfg->dropout);
    return net_finish(net, block_dense_uniform(net, x, "fc", (size_t)classes), classes);
}

const struct model_ops resnet18 = {"resnet18", "ResNet-18 for large images", 32, 18, build};
const struct model_ops resnet34 = {"resnet34", "ResNet-34 for large images", 32, 34, build};
const struct model_ops resnet50 = {"resnet50", "ResNet-50 for large images", 32, 50, build};
