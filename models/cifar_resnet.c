/*
 * ResNets for small images: a 3x3 convolution to 16 channels, three stages of (depth - 2) / 6 basic
 * blocks with 16, 32 and 64 channels that halve the image twice, global pooling, a dense layer.
 * model.shortcut says what joins the stages: `projection` (1x1 convolution and batch norm) or `pad`
 * (no parameters, as in the paper). Parameters for 3 channels and 10 classes:
 *
 *               projection        pad
 *   resnet20       272,474    269,722
 *   resnet32       466,906    464,154
 *   resnet44       661,338    658,586
 *   resnet56       855,770    853,018
 *
 * Convolutions start normal with deviation sqrt(2 / fan_out), the dense layer uniform in
 * ±1/sqrt(fan_in), norms with gamma 1 and beta 0. Source: He et al. 2016, section 4.2.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "models/blocks.h"
#include "models/families.h"

static enum status build(const struct config_model *cfg, int depth, int classes, struct net *net)
{
    bool pad = strcmp(cfg->shortcut, "pad") == 0;
    int x;

    if (!pad && strcmp(cfg->shortcut, "projection") != 0) {
        return log_fail(ST_INPUT, "unknown shortcut '%s', model.shortcut, use projection or pad",
                        cfg->shortcut);
    }
    x = net_relu(net, block_conv_norm(net, 0, "", "1",
                                      (struct conv_desc){.channels = 16, .kernel = 3, .pad = 1}));
    for (int stage = 0; stage < 3; stage++) {
        for (int i = 0; i < (depth - 2) / 6; i++) {
            char name[32];

            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            x = block_basic(net, x, name, (size_t)16 << stage, stage > 0 && i == 0 ? 2 : 1,
                            pad ? BLOCK_PAD : BLOCK_PROJECTION);
        }
    }
    x = net_dropout(net, net_global_pool(net, x), cfg->dropout);
    return net_finish(net, block_dense_uniform(net, x, "fc", (size_t)classes), classes);
}

const struct model_ops cifar_resnet20 = {"resnet20", "ResNet-20 for small images; model.shortcut",
                                         4, 20, build};
const struct model_ops cifar_resnet32 = {"resnet32", "ResNet-32 for small images; model.shortcut",
                                         4, 32, build};
const struct model_ops cifar_resnet44 = {"resnet44", "ResNet-44 for small images; model.shortcut",
                                         4, 44, build};
const struct model_ops cifar_resnet56 = {"resnet56", "ResNet-56 for small images; model.shortcut",
                                         4, 56, build};
