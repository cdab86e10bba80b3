#ifndef DEVICE_MODULE_H
#define DEVICE_MODULE_H

#include "base/status.h"

/*
 * The module with the CUDA side: a shared object that is loaded when something in it is asked for,
 * and then stays. It shows `espalier_module`, and the tables that are asked for by name.
 */
enum {
    MODULE_ABI = 6 /* grows when struct device_ops, nn_ops or anything that they use changes */
};

struct module_info {
    unsigned abi;
    const char *built_with; /* "CUDA 13.0, cuDNN 9.19" */
};

#define MODULE_INFO "espalier_module"        /* a struct module_info */
#define MODULE_DEVICE "espalier_cuda_device" /* a struct device_ops */
#define MODULE_NN "espalier_cuda_nn"         /* a struct nn_ops */

#define MODULE_SHOW __attribute__((visibility("default")))

/* What the module of this program is called and needs. */
struct module_place {
    const char *path;   /* of the shared object */
    const char *driver; /* a library without which it is of no use: "libcuda.so.1" */
};

/*
 * Load the module at `place` and find `symbol`. Errors: ST_UNSUPPORTED with a message of its own
 * for each: no such file, no driver, cannot be loaded, not a module, of another version, no symbol.
 */
MUST_CHECK enum status module_load(const struct module_place *place, const char *symbol,
                                   const void **out);

/* The same for lib/espalier_cuda.so beside the folder of the running program. */
MUST_CHECK enum status module_find(const char *symbol, const void **out);

/* What the module of this program was built with, or NULL if there is none that fits; logs nothing
 * and needs no driver. */
const char *module_built_with(void);

#endif
