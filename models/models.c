#include "models/models.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "models/families.h"

static const struct model_ops *const models[] = {&mlp,
                                                 &lenet,
                                                 &alexnet,
                                                 &cifar_resnet20,
                                                 &cifar_resnet32,
                                                 &cifar_resnet44,
                                                 &cifar_resnet56,
                                                 &resnet18,
                                                 &resnet34,
                                                 &resnet50};

enum {
    N_MODELS = sizeof models / sizeof models[0]
};

const struct model_ops *model_at(size_t i)
{
    return i < N_MODELS ? models[i] : NULL;
}

static enum status unknown_name(const char *name)
{
    const char *names[N_MODELS], *nearest;

    for (size_t i = 0; i < N_MODELS; i++) {
        names[i] = models[i]->name;
    }
    nearest = text_nearest(name, names, N_MODELS);
    if (nearest != NULL) {
        return log_fail(ST_INPUT, "unknown model '%s', model.name, did you mean '%s'?", name,
                        nearest);
    }
    return log_fail(ST_INPUT, "unknown model '%s', model.name, give one that --help lists", name);
}

static const struct model_ops *find(const char *name)
{
    for (size_t i = 0; i < N_MODELS; i++) {
        if (strcmp(models[i]->name, name) == 0) {
            return models[i];
        }
    }
    return NULL;
}

enum status model_create(const struct config_model *cfg, struct shape input, int classes,
                         struct net **out)
{
    const struct model_ops *m = find(cfg->name);
    struct net *net;
    enum status st;

    if (m == NULL) {
        return unknown_name(cfg->name);
    }
    if (input.h < m->min_size || input.w < m->min_size) {
        return log_fail(
            ST_INPUT,
            "model %s needs images of at least %zux%zu, not %zux%zu, set data.pad_to or "
            "choose another model",
            m->name, m->min_size, m->min_size, input.h, input.w);
    }
    if (classes < 1) {
        return log_fail(ST_INPUT, "model %s for %d classes, data.classes, give at least 1", m->name,
                        classes);
    }
    TRY(net_create(m->name, input, &net));
    st = m->build(cfg, m->depth, classes, net);
    if (st != ST_OK) {
        net_destroy(net);
        return st;
    }
    *out = net;
    return ST_OK;
}
