#ifndef MODELS_MODELS_H
#define MODELS_MODELS_H

#include <stddef.h>

#include "base/status.h"
#include "config/config.h"
#include "nn/net.h"

/* A network by name: a family and its depth. */
struct model_ops {
    const char *name; /* value of [model] name */
    const char *desc; /* one line, shown by --help */
    size_t min_size;  /* least height and width of the input */
    int depth;        /* which member of the family */
    /* Write the layers of member `depth` into `net`, which holds the input, up to net_finish. */
    MUST_CHECK enum status (*build)(const struct config_model *cfg, int depth, int classes,
                                    struct net *net);
};

/*
 * The network that `cfg` names for inputs of `input` and `classes` classes. Free it with
 * net_destroy. Errors: ST_INPUT (unknown name with the nearest one; an input too small for the
 * model, naming both; a value in the section that the model cannot use), ST_NOMEM.
 */
MUST_CHECK enum status model_create(const struct config_model *cfg, struct shape input, int classes,
                                    struct net **out);

const struct model_ops *model_at(size_t i); /* NULL past the end */

#endif
