#include "models/blocks.h"

#include <math.h>

static void init_uniform(struct net *n, size_t fan_in)
{
    float bound = (float)(1.0 / sqrt((double)fan_in));

    net_init_last(n, PARAM_WEIGHT, 0.0f, bound, 0.0f);
    net_init_last(n, PARAM_BIAS, 0.0f, bound, 0.0f);
}

int block_conv_uniform(struct net *n, int x, const char *name, struct conv_desc d)
{
    size_t groups = d.groups == 0 ? 1 : d.groups;
    int y;

    d.bias = true;
    y = net_conv2d(n, x, name, d);
    if (y >= 0) {
        init_uniform(n, net_layer(n, x)->out.c / groups * d.kernel * d.kernel);
    }
    return y;
}

int block_dense_uniform(struct net *n, int x, const char *name, size_t units)
{
    int y = net_dense(n, x, name, units, true);

    if (y >= 0) {
        struct shape in = net_layer(n, x)->out;
        init_uniform(n, in.c * in.h * in.w);
    }
    return y;
}

int block_conv_norm(struct net *n, int x, const char *prefix, const char *suffix,
                    struct conv_desc d)
{
    char conv[64], norm[64];

    snprintf(conv, sizeof conv, "%sconv%s", prefix, suffix);
    snprintf(norm, sizeof norm, "%sbn%s", prefix, suffix);
    return net_batch_norm(n, net_conv2d(n, x, conv, d), norm);
}

/* The input of a block in the shape of its output. */
static int shortcut_of(struct net *n, int x, const char *prefix, size_t channels, size_t stride,
                       enum block_shortcut shortcut)
{
    if (x < 0 || (stride == 1 && net_layer(n, x)->out.c == channels)) {
        return x;
    }
    if (shortcut == BLOCK_PAD) {
        return net_pad_channels(n, x, channels, stride);
    }
    return block_conv_norm(n, x, prefix, "_shortcut",
                           (struct conv_desc){.channels = channels, .kernel = 1, .stride = stride});
}

int block_basic(struct net *n, int x, const char *name, size_t channels, size_t stride,
                enum block_shortcut shortcut)
{
    struct conv_desc first = {.channels = channels, .kernel = 3, .stride = stride, .pad = 1};
    struct conv_desc second = {.channels = channels, .kernel = 3, .pad = 1};
    char prefix[32];
    int y;

    snprintf(prefix, sizeof prefix, "%s.", name);
    y = net_relu(n, block_conv_norm(n, x, prefix, "1", first));
    y = block_conv_norm(n, y, prefix, "2", second);
    return net_relu(n, net_add(n, y, shortcut_of(n, x, prefix, channels, stride, shortcut)));
}

int block_bottleneck(struct net *n, int x, const char *name, size_t channels, size_t stride)
{
    struct conv_desc reduce = {.channels = channels, .kernel = 1};
    struct conv_desc middle = {.channels = channels, .kernel = 3, .stride = stride, .pad = 1};
    struct conv_desc expand = {.channels = 4 * channels, .kernel = 1};
    char prefix[32];
    int y;

    snprintf(prefix, sizeof prefix, "%s.", name);
    y = net_relu(n, block_conv_norm(n, x, prefix, "1", reduce));
    y = net_relu(n, block_conv_norm(n, y, prefix, "2", middle));
    y = block_conv_norm(n, y, prefix, "3", expand);
    return net_relu(
        n, net_add(n, y, shortcut_of(n, x, prefix, 4 * channels, stride, BLOCK_PROJECTION)));
}
