#ifndef MODELS_MODELS_H
#define MODELS_MODELS_H

#include <stddef.h>

#include "base/status.h"
#include "config/config.h"
#include "nn/net.h"

/* A family of networks: builds a net from a [model] section. */
struct model_ops {
    const char *name; /* value of [model] name */
    const char *desc; /* one line, shown by --help */
    MUST_CHECK enum status (*build)(const struct config_model *cfg, struct net *net, int classes);
};

/*
 * The network that `cfg` names for inputs of `input` and `classes` classes. Errors: ST_INPUT
 * (unknown name with the nearest one; an input too small for the model, naming both), ST_NOMEM.
 */
MUST_CHECK enum status model_create(const struct config_model *cfg, struct shape input, int classes,
                                    struct net **out);

const struct model_ops *model_at(size_t i); /* NULL past the end */

#endif
