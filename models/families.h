#ifndef MODELS_FAMILIES_H
#define MODELS_FAMILIES_H

#include "models/models.h"

/* What the files of the families define; models.c registers it. */
extern const struct model_ops mlp;
extern const struct model_ops lenet;
extern const struct model_ops alexnet;
extern const struct model_ops cifar_resnet20, cifar_resnet32, cifar_resnet44, cifar_resnet56;
extern const struct model_ops resnet18, resnet34, resnet50;

#endif
