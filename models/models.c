#include "models/models.h"

#include <string.h>
#include <strings.h>

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

/* Half a name, such as "resnet", means the first that starts so; else the one most like it. */
static const char *nearest_name(const char *text)
{
    const char *names[N_MODELS];
    size_t length = strlen(text);

    for (size_t i = 0; i < N_MODELS; i++) {
        names[i] = models[i]->name;
        if (length > 0 && strncasecmp(names[i], text, length) == 0) {
            return names[i];
        }
    }
    return text_nearest(text, names, N_MODELS);
}

static enum status unknown_name(const char *name)
{
    const char *nearest = nearest_name(name);

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
