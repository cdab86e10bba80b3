/* A module of this version that holds one table. */
#include "device/module.h"

extern MODULE_SHOW const struct module_info espalier_module;
extern MODULE_SHOW const int bare_table[2];
const struct module_info espalier_module = {.abi = MODULE_ABI, .built_with = "nothing"};
const int bare_table[2] = {5, 8};
