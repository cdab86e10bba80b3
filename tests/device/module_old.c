/* A module of another version. */
#include "device/module.h"

extern MODULE_SHOW const struct module_info espalier_module;
const struct module_info espalier_module = {.abi = MODULE_ABI + 1, .built_with = "something older"};
