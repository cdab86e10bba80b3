#include "topo/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define SONAME "libnvidia-ml.so.1"

enum status nvml_open(const char *path, struct nvml *out)
{
    static const struct {
        const char *symbol;
        size_t slot;
        int must;
    } functions[] = {
#define MUST(type, name, symbol, args) {"nvml" symbol, offsetof(struct nvml, name), 1},
#define MAY(type, name, symbol, args) {"nvml" symbol, offsetof(struct nvml, name), 0},
        NVML_FUNCTIONS(MUST, MAY)
#undef MUST
#undef MAY
    };
    const char *file = path != NULL ? path : SONAME;
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE), *found;
    const char *reason = handle == NULL ? dlerror() : NULL;
    nvml_result result;

    if (handle == NULL) {
        return log_fail(ST_UNSUPPORTED,
                        "NVIDIA's driver is missing (%s), so GPUs and their links are not known, "
                        "install it or name a topology",
                        reason != NULL ? reason : file);
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        found = dlsym(handle, functions[i].symbol);
        if (found == NULL && functions[i].must) {
            (void)dlclose(handle);
            return log_fail(ST_UNSUPPORTED, "%s has no %s, update the driver or name a topology",
                            file, functions[i].symbol);
        }
        memcpy((char *)out + functions[i].slot, &found, sizeof found);
    }
    (void)dlclose(handle); /* it stays loaded */
    result = out->Init();
    if (result != NVML_OK) {
        return log_fail(ST_UNSUPPORTED, "%s: %s, check the driver with nvidia-smi", file,
                        out->ErrorString(result));
    }
    return ST_OK;
}

void nvml_close(struct nvml *n)
{
    (void)n->Shutdown();
}
