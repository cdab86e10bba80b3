/*
 * Multilayer perceptron: dense + ReLU (+ dropout) for every width in model.hidden, then a dense
 * layer to the classes. Without hidden layers it is logistic regression. Weights and biases start
 * uniform in ±1/sqrt(fan_in).
 */
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "models/blocks.h"
#include "models/families.h"

static enum status build(const struct config_model *cfg, int depth, int classes, struct net *net)
{
    int x = 0;

    (void)depth;
    for (size_t i = 0; i < cfg->hidden.n; i++) {
        double width = cfg->hidden.v[i];
        char name[32];

        if (!(width >= 1.0 && width <= 1e9) || width != floor(width)) {
            return log_fail(ST_INPUT,
                            "a layer of %g units, model.hidden, give whole numbers from 1", width);
        }
        snprintf(name, sizeof name, "fc%zu", i + 1);
        x = net_relu(net, block_dense_uniform(net, x, name, (size_t)width));
        x = net_dropout(net, x, cfg->dropout);
    }
    return net_finish(net, block_dense_uniform(net, x, "output", (size_t)classes), classes);
}

const struct model_ops mlp = {
    .name = "mlp",
    .desc = "multilayer perceptron: dense layers of the widths model.hidden with ReLU",
    .min_size = 1,
    .build = build,
};
